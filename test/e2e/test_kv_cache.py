"""The cache's latent as FP8 codes: what it costs in accuracy, and that nothing else changes.

Chunks, neighbours and slots change no bit here either: the scale of a row is made once, when it is appended, and prefill
reads its own chunk back from the cache.
"""
import numpy as np
import pytest

import contract
import tools

TYPES = ("fp8_e4m3", "fp8_e5m2")
SIZES = (f"--max-model-len={contract.MAX_MODEL_LEN}", "--max-batch=2", "--dtype=f32")
# Mean KL of a golden prompt's positions from plain rows in float32: of the median prompt, and of the worst, whose text is
# in scripts that the model hardly knows.
MOST_KL = {"fp8_e4m3": (3e-4, 0.02), "fp8_e5m2": (1e-3, 0.4)}


@pytest.fixture(scope="module")
def quantised(artifacts):
    return lambda kind: artifacts.get(contract.TINY, f"--kv-cache-dtype={kind}", *SIZES)


def log_softmax(logits):
    x = logits.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("kind", TYPES)
def test_divergence_from_plain_rows(quantised, golden_runs, goldens, kind):
    found = []
    for name in contract.PROMPTS:
        p = log_softmax(golden_runs(name)[1])
        q = log_softmax(tools.forward(quantised(kind), goldens[f"{name}.input_ids"])[1]["logits"])
        found.append((np.exp(p) * (p - q)).sum(-1).mean())
    median, worst = MOST_KL[kind]
    assert 0 < np.median(found) <= median and max(found) <= worst, f"{kind}: {found}"


@pytest.mark.parametrize("kind", TYPES)
def test_decode_agrees_with_prefill(quantised, goldens, kind):
    """Decode reads codes in the absorbed form, prefill expands them: the same numbers in another order of sums."""
    name = contract.PROMPTS[0]
    ids = goldens[f"{name}.input_ids"]
    result = tools.forward(quantised(kind), ids, max_tokens=16)[0]
    both = np.concatenate((ids, np.array(result["ids"], ids.dtype)))
    logits = log_softmax(tools.forward(quantised(kind), both)[1]["logits"][-17:-1])
    want = np.take_along_axis(logits, np.array(result["ids"])[:, None], -1)[:, 0]
    tools.assert_close(np.array(result["logprobs"]), want, 10 * contract.LOGIT_TOLERANCE, f"{kind}: logprobs")


@pytest.mark.parametrize("kind", TYPES)
def test_neither_chunks_nor_neighbours_change_bits(quantised, goldens, kind):
    artifact, ids = quantised(kind), goldens["long.input_ids"].tolist()[:300]
    alone, tensors, _ = tools.forward(artifact, ids, max_tokens=4)
    for chunk in (1, 50, 64):
        part, other, _ = tools.forward(artifact, ids, f"--prefill-chunk={chunk}", max_tokens=4)
        tools.assert_same_bits(other["logits"], tensors["logits"], f"{kind} in chunks of {chunk}")
        assert part["ids"] == alone["ids"] and part["logprobs"] == alone["logprobs"], chunk
    requests = [{"ids": ids[:70][::-1], "max_tokens": 4}, {"ids": ids, "max_tokens": 4}, {"ids": ids[:64], "max_tokens": 4}]
    results, logits = tools.batch(artifact, requests)
    tools.assert_same_bits(logits["logits.1"], tensors["logits"], f"{kind} among others")
    assert results[1]["ids"] == alone["ids"] and results[1]["logprobs"] == alone["logprobs"]


def test_pages_hold_fewer_bytes(quantised, tiny_f32):
    plain, coded = tools.manifest(tiny_f32), tools.manifest(quantised("fp8_e4m3"))
    assert plain["kv"].get("latent") is None
    assert coded["kv"]["latent"] == {"lanes": 512, "codes": "fp8_e4m3"}
    tokens = coded["kv"]["layers"] * 64
    assert plain["targets"][0]["memory"]["kv_page"] == tokens * 576 * 4
    assert coded["targets"][0]["memory"]["kv_page"] == tokens * (512 + 64 * 4 + 4)
    shown = tools.succeed("compile-model", "inspect", quantised("fp8_e4m3")).stdout.decode()
    assert "latent (512) as fp8_e4m3" in shown and "772 bytes a token and layer" in shown


@pytest.mark.parametrize("given,dtype,said,code", [
    ("fp8", "bf16", "--kv-cache-dtype: expected auto, bf16, fp8_e4m3 or fp8_e5m2, got 'fp8'", contract.USAGE),
    ("int8", "bf16", "--kv-cache-dtype: expected auto, bf16, fp8_e4m3 or fp8_e5m2, got 'int8'", contract.USAGE),
    ("bf16", "f32", "--kv-cache-dtype: expected auto, fp8_e4m3 or fp8_e5m2 with --dtype=f32, got bf16", contract.UNSUPPORTED)])
def test_refused(tmp_path, given, dtype, said, code):
    tools.refuse((code,), said, "compile-model", contract.TINY, "-o", tmp_path / "out.dsv3", f"--kv-cache-dtype={given}", f"--dtype={dtype}")
