"""--load-format=dummy: a config.json becomes an artifact without weights, which are drawn when it is loaded.

The same numbers, written to disk by numpy and compiled as a checkpoint, must give the same bits."""
import json
import os

import pytest

import contract
import dummy_checkpoint
import tools
from contract import BAD_CHECKPOINT, USAGE

SMALL = ("--max-batch=2", "--max-model-len=256", "--cpu-features=avx2")
IDS = [0, 5, 17, 200, 3, 9, 9, 41]


def config(**changes):
    """The example model's, with fewer layers and odd widths: partial blocks at the edges."""
    with open(os.path.join(contract.TINY, "config.json")) as f:
        c = json.load(f)
    c.update(num_hidden_layers=2, first_k_dense_replace=1, hidden_size=192, intermediate_size=320, moe_intermediate_size=96, q_lora_rank=160,
             n_routed_experts=8, n_group=2, topk_group=1, num_experts_per_tok=2, vocab_size=500, max_position_embeddings=4096)
    c.update(changes)
    return {key: value for key, value in c.items() if value is not None}


CONFIGS = {
    "fp8": config(),
    "ue8m0": config(quantization_config={"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                                         "weight_block_size": [128, 128], "scale_fmt": "ue8m0"}, num_nextn_predict_layers=0),
    "bf16": config(quantization_config=None, num_nextn_predict_layers=0),
}


@pytest.fixture(scope="module", params=CONFIGS)
def folders(request, tmp_path_factory):
    """config.json alone, and a checkpoint with the same numbers."""
    base = tmp_path_factory.mktemp("dummy")
    alone = base / "alone"
    alone.mkdir()
    (alone / "config.json").write_text(json.dumps(CONFIGS[request.param]))
    dummy_checkpoint.write(CONFIGS[request.param], str(base / "written"))
    return str(alone), str(base / "written")


@pytest.mark.parametrize("dtype", ("f32", "bf16"))
def test_drawn_as_written(artifacts, folders, dtype):
    alone, written = folders
    drawn = artifacts.get(alone, "--load-format=dummy", f"--dtype={dtype}", *SMALL)
    stored = artifacts.get(written, f"--dtype={dtype}", *SMALL)
    got, got_tensors, _ = tools.forward(drawn, IDS, max_tokens=5)
    want, want_tensors, _ = tools.forward(stored, IDS, max_tokens=5)
    assert set(got_tensors) == set(want_tensors)
    for name in want_tensors:
        tools.assert_same_bits(got_tensors[name], want_tensors[name], name)
    assert got["ids"] == want["ids"] and got["logprobs"] == want["logprobs"]
    size = want_tensors["logits"].std()
    assert 0.3 < size < 3, f"logits of deviation {size}: states do not keep their size"


def test_drawn_and_quantised(artifacts, folders):
    """A policy rounds the numbers that are drawn; such weights are stored, since their scales come from whole rows."""
    alone, written = folders
    flags = ("--quant=w4a16", "--dtype=f32", *SMALL)
    drawn = artifacts.get(alone, "--load-format=dummy", *flags)
    got, want = (tools.forward(out, IDS)[1]["logits"] for out in (drawn, artifacts.get(written, *flags)))
    tools.assert_same_bits(got, want, "logits")
    plain = tools.forward(artifacts.get(written, "--dtype=f32", *SMALL), IDS)[1]["logits"]
    assert (tools.bits(got) != tools.bits(plain)).any()
    weights = tools.manifest(drawn)["targets"][0]["weights"]["tensors"]
    stored, fresh = ([t["name"] for t in weights if ("stored_at" in t) == kept] for kept in (True, False))
    assert any(".up" in name for name in stored) and any("kv_b" in name for name in fresh) and "embed" in fresh


def test_the_artifact_holds_no_weights(artifacts, folders):
    out = artifacts.get(folders[0], "--load-format=dummy", "--dtype=bf16", *SMALL)
    weights = tools.manifest(out)["targets"][0]["weights"]
    assert weights["drawn"] is True
    rope = [t["name"] for t in weights["tensors"] if "stored_at" in t]
    assert len(rope) == 1 and os.path.getsize(os.path.join(out, weights["file"])) == 256 * 64 * 4, "the rope table alone is stored"
    assert all("draw" in t for t in weights["tensors"] if t["name"] not in rope)


def test_damage_is_refused(artifacts, folders, tmp_path):
    """A weight that would be drawn outside of its place."""
    out = artifacts.get(folders[0], "--load-format=dummy", "--dtype=bf16", *SMALL)
    for entry in os.listdir(out):
        if entry != "manifest.json":
            os.symlink(os.path.join(os.path.abspath(out), entry), tmp_path / entry)
    manifest = tools.manifest(out)
    tensor = next(t for t in manifest["targets"][0]["weights"]["tensors"] if "draw" in t)
    tensor["draw"][0]["offset"] += 1 << 20
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    tools.refuse(BAD_CHECKPOINT, [tensor["name"], "drawn inside"], "dsv3-run", tmp_path, "--ids=0", "--max-tokens=1")


def test_needs_a_config(tmp_path):
    tools.refuse(BAD_CHECKPOINT, "config.json", "compile-model", tmp_path, "-o", tmp_path / "out", "--load-format=dummy")
    tools.refuse(USAGE, "load-format", "compile-model", tmp_path, "-o", tmp_path / "out", "--load-format=random")
