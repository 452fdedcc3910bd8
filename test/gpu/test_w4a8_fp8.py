"""Experts of int4 weights and E4M3 rows on the GPU: against the interpreter, on the evaluation set, alone and among others."""
import os

import numpy as np

import contract
import prepare
import same_bits
import test_eval
import tools
from prepare import divergence

CUDA = "--device=cuda"
RIGHT = 495  # of 500 problems, as the policy promises


def test_follows_the_reference(w4a8_fp8, goldens, reference):
    """A row near the middle of two codes may round to either, and what it changes goes on changing others. So the kernels are
    held to half of what the policy itself changes."""
    near, far = [], []
    for name in contract.PROMPTS:
        ids = goldens[f"{name}.input_ids"]
        want = reference[f"{name}.w4a8_fp8"]
        near.append(divergence(want, tools.forward(w4a8_fp8, ids, CUDA)[1]["logits"]))
        far.append(divergence(reference[name][:len(ids)], want))
    near, far = np.concatenate(near), np.concatenate(far)
    print(f"KL to the interpreter: mean {near.mean():.1e}, median {np.median(near):.1e}; of the policy: {far.mean():.1e}, {np.median(far):.1e}")
    assert near.mean() < far.mean() / 2 and np.median(near) < np.median(far) / 2


def test_problems(w4a8_fp8):
    result = test_eval.evaluate(w4a8_fp8, "--problems", os.path.join(contract.DATA, "problems.jsonl"))["problems"]
    assert result["total"] == 500 and result["correct"] >= RIGHT


def test_neither_chunks_nor_neighbours_change_bits(w4a8_fp8, goldens):
    same_bits.check(w4a8_fp8, prepare.long_text(goldens).tolist()[:900])
