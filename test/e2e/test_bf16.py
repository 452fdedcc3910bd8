"""bf16 against our own float32 artifact, over every position of prompt and greedy text.

The text is the stored greedy text, given as a prompt (teacher forcing): one flipped token then
costs one position, not the rest of the line. Single positions are reported, not judged: the
choice between near-tied experts may flip.
"""
import numpy as np
import pytest

import contract
import tools


def log_softmax(logits):
    x = logits.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.fixture(scope="module")
def pairs(tiny_f32, tiny_bf16, goldens):
    """name -> (prompt length, float32 logits, bf16 logits)."""
    out = {}
    for name in contract.PROMPTS:
        prompt, greedy = goldens[f"{name}.input_ids"], goldens[f"{name}.greedy_ids"]
        ids = np.concatenate((prompt, greedy))
        f32, bf16 = (tools.forward(artifact, ids)[1]["logits"] for artifact in (tiny_f32, tiny_bf16))
        assert f32.shape == bf16.shape == (len(ids), f32.shape[1])
        out[name] = len(prompt), f32, bf16
    return out


def test_mean_divergence(pairs):
    every = []
    for name, (_, f32, bf16) in pairs.items():
        p, q = log_softmax(f32), log_softmax(bf16)
        kl = (np.exp(p) * (p - q)).sum(-1)
        print(f"{name}: mean KL {kl.mean():.1e}, worst {kl.max():.1e} at position {kl.argmax()} of {len(kl)}")
        every.append(kl)
    mean = np.concatenate(every).mean()
    assert mean < contract.BF16_MEAN_KL, f"mean KL of bf16 from float32: {mean:.2e}"


def test_greedy_choices_agree(pairs, goldens):
    same = []
    for name, (start, f32, bf16) in pairs.items():
        window = slice(start - 1, start - 1 + contract.GREEDY_TOKENS)
        np.testing.assert_array_equal(f32[window].argmax(-1), goldens[f"{name}.greedy_ids"], f"{name}: float32 differs")
        agree = f32[window].argmax(-1) == bf16[window].argmax(-1)
        print(f"{name}: {agree.sum()} of {len(agree)} agree; differing at {np.flatnonzero(~agree).tolist()}")
        same.append(agree)
    share = np.concatenate(same).mean()
    assert share >= contract.BF16_GREEDY_AGREEMENT, f"{share:.2%} of the greedy choices agree"


def test_bf16_is_not_float32(pairs):
    """An artifact that ignored --dtype would pass everything above."""
    assert any((tools.bits(f32) != tools.bits(bf16)).any() for _, f32, bf16 in pairs.values())
