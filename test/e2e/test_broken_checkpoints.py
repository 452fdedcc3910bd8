"""Every variant of break_checkpoint.py: the documented exit code, one line that names the thing, no output left."""
import os
import subprocess
import sys

import pytest

import break_checkpoint
import contract
import tools

VARIANTS = {name: expect for name, (_, expect) in break_checkpoint.variants().items()}
PROMPT = [0, 2037, 660, 261, 567]


def break_tiny(out, name):
    subprocess.run([sys.executable, os.path.join(contract.HERE, "break_checkpoint.py"), contract.TINY, out, name],
                   check=True, stderr=subprocess.DEVNULL)
    return os.path.join(out, name)


def test_there_are_32_variants():
    assert len(VARIANTS) == 32
    assert {e["exit"] for e in VARIANTS.values()} == {contract.OK, contract.BAD_CHECKPOINT, contract.UNSUPPORTED}


@pytest.mark.parametrize("name", [n for n, e in VARIANTS.items() if e["exit"]])
def test_refused(name, tmp_path):
    expect = VARIANTS[name]
    folder = break_tiny(str(tmp_path), name)
    tools.refuse(expect["exit"], expect["mentions"], "compile-model", folder, "-o", tmp_path / "out.dsv3")
    assert sorted(os.listdir(tmp_path)) == [name], "a refused checkpoint leaves no output"


@pytest.fixture(scope="module")
def whole(tiny_f32):
    return tools.forward(tiny_f32, PROMPT)[1]["logits"]


@pytest.mark.parametrize("name", [n for n, e in VARIANTS.items() if not e["exit"]])
def test_accepted(name, tmp_path, whole):
    expect = VARIANTS[name]
    folder = break_tiny(str(tmp_path), name)
    artifact = tools.compile_model(folder, str(tmp_path / "out.dsv3"), "--dtype=f32",
                                   f"--max-model-len={contract.MAX_MODEL_LEN}", f"--max-batch={contract.MAX_BATCH}")
    logits = tools.forward(artifact, PROMPT)[1]["logits"]
    assert logits.shape == whole.shape
    if expect.get("same"):
        tools.assert_same_bits(logits, whole, name)
    if name == "extra-tensor":
        ignored = {entry["tensor"]: entry["reason"] for entry in tools.manifest(artifact)["ignored"]}
        assert ignored["model.layers.0.self_attn.rotary_emb.inv_freq"]
