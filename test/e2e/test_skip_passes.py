"""Optimisations can be left out (compile-model --skip-pass): the model stays the same. Fusions are exact, so they leave the
same bits; absorption reorders sums, in decode only."""
import pytest

import contract
import tools

FLAGS = ("--dtype=f32", "--cpu-features=avx2", "--max-model-len=256", "--max-batch=1")
PROMPT, TOKENS = "arith", 24


@pytest.fixture(scope="module")
def whole(artifacts, goldens):
    return tools.forward(artifacts.get(contract.TINY, *FLAGS), goldens[f"{PROMPT}.input_ids"], max_tokens=TOKENS)


@pytest.mark.parametrize("name", ["fuse-norm", "fuse-gated", "fuse-linears", "fuse-moe", "absorb-mla"])
def test_same_model_without(name, artifacts, goldens, whole):
    artifact = artifacts.get(contract.TINY, *FLAGS, f"--skip-pass={name}")
    result, tensors, _ = tools.forward(artifact, goldens[f"{PROMPT}.input_ids"], max_tokens=TOKENS)
    tools.assert_same_bits(tensors["logits"], whole[1]["logits"], f"prompt logits without {name}")
    assert result["ids"] == whole[0]["ids"]
    if name != "absorb-mla":
        assert result["logprobs"] == whole[0]["logprobs"], "decode changed bits"


def test_unknown_pass(tmp_path):
    tools.refuse(contract.USAGE, ["--skip-pass", "fuse-moe", "fuse-all"], "compile-model", contract.TINY, "-o", tmp_path / "out",
                 "--skip-pass=fuse-all")
