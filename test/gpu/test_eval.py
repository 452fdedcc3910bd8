"""The evaluation set on the GPU, in bf16."""
import json
import os

import contract
import tools

PROBLEMS = os.path.join(contract.DATA, "problems.jsonl")
STORIES = os.path.join(contract.DATA, "stories_heldout.jsonl")


def evaluate(artifact, *flags):
    return json.loads(tools.succeed("dsv3-eval", artifact, "--json", "--device=cuda", *flags).stdout)


def test_problems(bf16):
    result = evaluate(bf16, "--problems", PROBLEMS)["problems"]
    assert result["total"] == 500
    assert contract.PROBLEMS_RIGHT["bf16"] <= result["correct"] <= 500


def test_stories(bf16):
    nll = evaluate(bf16, "--stories", STORIES)["stories"]["nll"]
    assert abs(nll / contract.STORIES_NLL - 1) <= contract.NLL_TOLERANCE["bf16"]
