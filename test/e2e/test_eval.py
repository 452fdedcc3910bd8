"""The evaluation set by dsv3-eval.

The prose is not part of the repository: DSV3_PROSE names the file, else those tests are skipped.
dsv3-eval --json prints {"prose": {"perplexity", "documents", "tokens"}, "stories": {"nll",
"documents", "tokens"}, "problems": {"correct", "total"}}, each part where its file was given.
"""
import json
import os

import pytest

import contract
import tools

PROBLEMS = os.path.join(contract.DATA, "problems.jsonl")
STORIES = os.path.join(contract.DATA, "stories_heldout.jsonl")
PROSE = os.environ.get("DSV3_PROSE")
DTYPES = ("f32", "bf16")
HOUR = 3600


def evaluate(artifact, *flags):
    return json.loads(tools.succeed("dsv3-eval", artifact, "--json", *flags, timeout=HOUR).stdout)


def lines_of(path):
    with open(path, encoding="utf-8") as f:
        return [line for line in f if line.strip()]


def assert_near(got, want, dtype, what):
    allowed = contract.NLL_TOLERANCE[dtype]
    assert abs(got / want - 1) <= allowed, f"{what}: expected {want} within {allowed:.1%}, got {got}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_problems(tiny, dtype):
    result = evaluate(tiny(dtype), "--problems", PROBLEMS)["problems"]
    assert result["total"] == 500
    assert contract.PROBLEMS_RIGHT[dtype] <= result["correct"] <= 500


@pytest.mark.parametrize("dtype", DTYPES)
def test_stories(tiny, dtype):
    stories = [json.loads(line) for line in lines_of(STORIES)]
    tokens = sum(s["tokens"] for s in stories)
    stored = sum(s["nll_fp8_weights_fp32"] for s in stories) / tokens
    assert abs(stored - contract.STORIES_NLL) < 1e-4, "the stories file does not belong to the stored figure"
    result = evaluate(tiny(dtype), "--stories", STORIES)["stories"]
    assert (result["documents"], result["tokens"]) == (len(stories), tokens)
    assert_near(result["nll"], stored, dtype, "NLL per token of the stories")


@pytest.mark.skipif(not PROSE, reason="DSV3_PROSE does not name the prose file")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", contract.PROSE_PERPLEXITY)
def test_prose(tiny, tmp_path, dtype, count):
    part = tmp_path / "prose.jsonl"
    part.write_text("".join(lines_of(PROSE)[:count]), encoding="utf-8")
    result = evaluate(tiny(dtype), "--prose", part)["prose"]
    assert result["documents"] == count
    assert_near(result["perplexity"], contract.PROSE_PERPLEXITY[count], dtype, f"perplexity of {count} excerpts")


def test_one_wrong_answer_is_counted(tiny_f32, tmp_path):
    """The judge can say no: the first ten problems, one with another final number."""
    problems = [json.loads(line) for line in lines_of(PROBLEMS)[:10]]
    problems[3]["final"] += 1
    changed = tmp_path / "problems.jsonl"
    changed.write_text("".join(json.dumps(p) + "\n" for p in problems))
    result = evaluate(tiny_f32, "--problems", changed)["problems"]
    assert (result["correct"], result["total"]) == (9, 10)


def test_bad_files_are_refused(tiny_f32, tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"question": "half a li')
    tools.refuse((contract.USAGE, contract.BAD_CHECKPOINT), "bad.jsonl", "dsv3-eval", tiny_f32, "--problems", bad)
    tools.refuse((contract.USAGE, contract.BAD_CHECKPOINT), "nowhere.jsonl", "dsv3-eval", tiny_f32, "--stories",
                 tmp_path / "nowhere.jsonl")
    tools.refuse(contract.USAGE, "--", "dsv3-eval", tiny_f32)
