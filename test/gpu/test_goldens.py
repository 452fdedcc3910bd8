"""bf16 on the GPU against float32 on x86 and the goldens of HuggingFace transformers.

The texts are the goldens' greedy texts, given as prompts (teacher forcing), as in test/e2e/test_bf16.py.
"""
import numpy as np
import pytest

import contract
import prepare
import tools
from prepare import divergence, log_softmax

CUDA = "--device=cuda"
DECODE_TOLERANCE = 0.1   # log probabilities in bf16: decode (absorbed attention) against prefill (expanded keys)
W8A8_MEAN_KL = 5e-3      # two FP8 implementations, which round at different places


@pytest.fixture(scope="module")
def runs(bf16, goldens):
    """text -> (number of prompt tokens, logits of all its positions)."""
    return {name: (start, tools.forward(bf16, ids, CUDA)[1]["logits"])
            for name, (ids, start) in prepare.texts(goldens).items()}


def test_mean_divergence_from_float32(runs, reference):
    """Over all positions of the prompts; a single near-tied expert that flips costs its position alone."""
    every = []
    for name in contract.PROMPTS:
        kl = divergence(reference[name], runs[name][1])
        print(f"{name}: mean KL {kl.mean():.1e}, worst {kl.max():.1e}; x86 bf16 {reference[name + '.kl'].mean():.1e}, {reference[name + '.kl'].max():.1e}")
        every.append(kl)
    assert np.concatenate(every).mean() < contract.BF16_MEAN_KL


def test_4000_tokens_cost_what_bf16_costs_on_x86(runs, reference):
    """The model was trained on 1024 positions: here choices are close everywhere, and bf16 alone moves them."""
    kl, x86 = divergence(reference["4000"], runs["4000"][1][-prepare.KEPT:]), reference["4000.kl"]
    print(f"median KL {np.median(kl):.1e}, mean {kl.mean():.1e}; x86 bf16 {np.median(x86):.1e}, {x86.mean():.1e}")
    same = (reference["4000"].argmax(-1) == runs["4000"][1][-prepare.KEPT:].argmax(-1)).mean()
    print(f"{same:.1%} of the greedy choices agree")
    assert np.median(kl) < 2 * np.median(x86) and same > 0.95
    assert kl.mean() < 3 * x86.mean() + contract.BF16_MEAN_KL


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_last_logits_of_the_prompt(runs, goldens, name):
    start, logits = runs[name]
    kl = divergence(goldens[f"{name}.last_logits"], logits[start - 1])
    assert kl < 1e-2, f"{name}: KL {kl:.1e}"


def test_greedy_choices_agree(runs, goldens):
    same = []
    for name in contract.PROMPTS:
        start, logits = runs[name]
        window = logits[start - 1:start - 1 + contract.GREEDY_TOKENS].argmax(-1)
        same.append(window == goldens[f"{name}.greedy_ids"])
    assert np.concatenate(same).mean() >= contract.BF16_GREEDY_AGREEMENT


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_decode_agrees_with_prefill(bf16, goldens, name):
    """Log probabilities of generated tokens, against the same text given as a prompt."""
    prompt = goldens[f"{name}.input_ids"]
    result = tools.generate(bf16, tools.ids_flag(prompt), "--max-tokens", contract.GREEDY_TOKENS, "--ignore-eos", CUDA)
    ids = np.concatenate((prompt, result["ids"]))
    logits = tools.forward(bf16, ids, CUDA)[1]["logits"][len(prompt) - 1:-1]
    want = np.take_along_axis(log_softmax(logits), np.array(result["ids"])[:, None], -1)[:, 0]
    error = np.abs(np.array(result["logprobs"]) - want)
    print(f"{name}: worst {error.max():.1e}")
    assert np.median(error) < DECODE_TOLERANCE / 5 and (error < DECODE_TOLERANCE).mean() > 0.95


def test_fp8_activations(fp8_block, w8a8_goldens):
    """Over the 20 best choices of every prompt position, which is what the goldens keep."""
    every = []
    for name in contract.PROMPTS:
        logits = tools.forward(fp8_block, w8a8_goldens[f"{name}.input_ids"], CUDA)[1]["logits"]
        ids = w8a8_goldens[f"{name}.top20_ids"].astype(np.int64)
        kl = divergence(w8a8_goldens[f"{name}.top20_logits"], np.take_along_axis(logits, ids, -1))
        print(f"{name}: mean KL {kl.mean():.1e}, median {np.median(kl):.1e}, worst {kl.max():.1e}")
        every.append(kl)
    every = np.concatenate(every)
    assert every.mean() < W8A8_MEAN_KL and np.median(every) < W8A8_MEAN_KL / 50


def test_fp8_last_logits(fp8_block, w8a8_goldens):
    every = [divergence(w8a8_goldens[f"{name}.last_logits"],
                        tools.forward(fp8_block, w8a8_goldens[f"{name}.input_ids"], CUDA)[1]["logits"][-1]) for name in contract.PROMPTS]
    assert np.mean(every) < W8A8_MEAN_KL, dict(zip(contract.PROMPTS, every))
