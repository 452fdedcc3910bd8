#!/usr/bin/env python3
"""Makes what the GPU tests need and a GPU machine cannot make: artifacts for sm_90a, and float32 logits of the x86 target.

    test/gpu/prepare.py OUT        # then carry OUT and build/bin to the machine, and there:
    DSV3_GPU=OUT python3 -m pytest test/gpu

OUT gets bf16.dsv3, fp8-block.dsv3 and reference.npz: for each golden prompt followed by its greedy text the float32 logits
of every position (as float16), for one text of 4000 tokens those of the last 128; and under X.kl the divergence of
the x86 target's bf16 at these positions, which is what bf16 costs.
"""
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))

import contract  # noqa: E402
import safetensors_np  # noqa: E402
import tools  # noqa: E402

LONGEST = 4000
KEPT = 128  # positions of the longest text
SIZES = ("--max-model-len=4160", "--max-batch=64")


def log_softmax(logits):
    x = logits.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def divergence(want, got):
    p, q = log_softmax(want), log_softmax(got)
    return (np.exp(p) * (p - q)).sum(-1)


def long_text(goldens):
    """4000 tokens: the long golden prompt, over and over."""
    ids = goldens["long.input_ids"]
    return np.concatenate((ids[:1], np.resize(ids[1:], LONGEST - 1)))


def texts(goldens):
    """name -> (ids of prompt and greedy text, number of prompt tokens)."""
    found = {}
    for name in contract.PROMPTS:
        prompt = goldens[f"{name}.input_ids"]
        found[name] = np.concatenate((prompt, goldens[f"{name}.greedy_ids"])), len(prompt)
    found["4000"] = long_text(goldens), LONGEST
    return found


def compile_artifacts(out):
    for name, flags in {"bf16": (), "fp8-block": ("--quant=fp8-block",)}.items():
        tools.compile_model(contract.TINY, os.path.join(out, name + ".dsv3"), "--target=sm_90a", "--force", *SIZES, *flags)


def reference(out):
    goldens = safetensors_np.load(contract.GOLDENS + ".safetensors")
    arrays = {}
    with tempfile.TemporaryDirectory() as folder:
        f32 = tools.compile_model(contract.TINY, os.path.join(folder, "f32.dsv3"), "--dtype=f32", *SIZES)
        bf16 = tools.compile_model(contract.TINY, os.path.join(folder, "bf16.dsv3"), "--dtype=bf16", *SIZES)
        for name, (ids, start) in texts(goldens).items():
            kept = KEPT if start == LONGEST else len(ids)
            want, got = (tools.forward(artifact, ids)[1]["logits"][-kept:] for artifact in (f32, bf16))
            arrays[name] = want.astype(np.float16)
            arrays[name + ".kl"] = divergence(want, got)
    np.savez_compressed(os.path.join(out, "reference.npz"), **arrays)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    if "--reference-only" not in sys.argv:
        compile_artifacts(sys.argv[1])
    reference(sys.argv[1])
