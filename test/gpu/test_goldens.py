"""bf16 on the GPU against float32 on x86 and the goldens of HuggingFace transformers.

The texts are the goldens' greedy texts, given as prompts (teacher forcing), as in test/e2e/test_bf16.py.
"""
import numpy as np
import pytest

import contract
import prepare
import safetensors_np
import tools
from prepare import divergence, log_softmax, over_best

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


def test_4000_tokens_cost_what_bf16_costs_on_x86(bf16_experts, reference):
    """The model was trained on 1024 positions: here experts are nearly tied, and any rounding makes some tokens take others
    (1 to 3% of them in each layer, in bf16 on x86 as well). Such a token may go anywhere, so that the mean over all
    positions measures luck. Judged are the tokens that chose as float32 does, and how many do not."""
    _, logits, taps = tools.forward(bf16_experts, prepare.long_text(safetensors_np.load(contract.GOLDENS + ".safetensors")), CUDA, taps=True)
    logits, chosen, want = logits["logits"][-prepare.KEPT:], prepare.experts(taps), reference["4000.experts"]
    other, x86_other = ((ids != want).any(-1) for ids in (chosen, reference["4000.bf16_experts"]))
    kl, x86 = divergence(reference["4000"], logits), reference["4000.kl"]
    steady, x86_steady = (~o[-prepare.KEPT:].any(-1) for o in (other, x86_other))
    print(f"mean KL {kl.mean():.1e} (x86 bf16 {x86.mean():.1e}), median {np.median(kl):.1e} ({np.median(x86):.1e}), "
          f"same experts {kl[steady].mean():.1e} ({x86[x86_steady].mean():.1e}); other experts {other.mean():.2%} ({x86_other.mean():.2%})")
    assert other.mean() < 1.5 * x86_other.mean() and steady.mean() > 0.75
    assert kl[steady].mean() < 1.5 * x86[x86_steady].mean() and np.median(kl) < 1.5 * np.median(x86)
    assert (reference["4000"].argmax(-1) == logits.argmax(-1)).mean() > 0.95


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


@pytest.fixture(scope="module")
def w8a8_runs(fp8_block, w8a8_goldens):
    return {name: tools.forward(fp8_block, w8a8_goldens[f"{name}.input_ids"], CUDA)[1]["logits"] for name in contract.PROMPTS}


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_fp8_activations(w8a8_runs, w8a8_goldens, reference, name):
    """The emulation with bf16 between the ops, which the interpreter runs, is as far from the goldens (float32 between the
    ops) as this scheme goes. `unicode` is text the model hardly knows: the emulation itself is 8e-2 off there."""
    kl, emulated = over_best(w8a8_goldens, name, w8a8_runs[name]), reference[name + ".w8a8_kl"]
    print(f"{name}: mean KL {kl.mean():.1e}, median {np.median(kl):.1e}; emulation {emulated.mean():.1e}, {np.median(emulated):.1e}")
    assert kl.mean() < 2 * emulated.mean() + contract.BF16_MEAN_KL


def test_fp8_last_logits(w8a8_runs, w8a8_goldens, reference):
    """Of the prompts whose emulation is itself within the bound at every position but a few."""
    steady = [name for name in contract.PROMPTS if np.mean(reference[name + ".w8a8_kl"]) < 2 * W8A8_MEAN_KL]
    assert len(steady) >= len(contract.PROMPTS) - 1
    every = {name: divergence(w8a8_goldens[f"{name}.last_logits"], w8a8_runs[name][-1]) for name in steady}
    assert max(every.values()) < W8A8_MEAN_KL, every
