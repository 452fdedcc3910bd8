"""A cache of FP8 codes on the GPU: against plain rows, decode against prefill, alone and among others."""
import numpy as np
import pytest

import contract
import prepare
import same_bits
import tools
from prepare import divergence, log_softmax

CUDA = "--device=cuda"
STEADY = [name for name in contract.PROMPTS if name != "unicode"]  # text that the model hardly knows: nothing is certain there
DECODE_TOLERANCE = 0.1


def test_mean_divergence_from_float32(kv8, goldens, reference):
    texts = prepare.texts(goldens)
    every = [divergence(reference[name], tools.forward(kv8, texts[name][0], CUDA)[1]["logits"]) for name in STEADY]
    print(f"mean KL {np.concatenate(every).mean():.1e}, worst text {max(kl.mean() for kl in every):.1e}")
    assert np.concatenate(every).mean() < 2 * contract.BF16_MEAN_KL


@pytest.mark.parametrize("name", STEADY)
def test_decode_agrees_with_prefill(kv8, goldens, name):
    """Decode multiplies codes, prefill expands them; the query's own rounding to FP8 is decode's alone."""
    prompt = goldens[f"{name}.input_ids"]
    result = tools.generate(kv8, tools.ids_flag(prompt), "--max-tokens", contract.GREEDY_TOKENS, "--ignore-eos", CUDA)
    ids = np.concatenate((prompt, result["ids"]))
    logits = tools.forward(kv8, ids, CUDA)[1]["logits"][len(prompt) - 1:-1]
    want = np.take_along_axis(log_softmax(logits), np.array(result["ids"])[:, None], -1)[:, 0]
    error = np.abs(np.array(result["logprobs"]) - want)
    print(f"{name}: worst {error.max():.1e}, median {np.median(error):.1e}")
    assert np.median(error) < DECODE_TOLERANCE / 5 and (error < DECODE_TOLERANCE).mean() > 0.9


def test_neither_chunks_nor_neighbours_change_bits(kv8, goldens):
    same_bits.check(kv8, prepare.long_text(goldens).tolist()[:900])
