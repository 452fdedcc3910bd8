#!/usr/bin/env python3
"""Makes what the GPU tests need and a GPU machine cannot make: artifacts for sm_90a, and float32 logits of the x86 target.

    test/gpu/prepare.py OUT        # then carry OUT and build/bin to the machine, and there:
    DSV3_GPU=OUT python3 -m pytest test/gpu

OUT gets bf16.dsv3, fp8-block.dsv3 and reference.npz: for each golden prompt followed by its greedy text, and for one
text of 4000 tokens, the logits of every position (float16; of the last 128 positions where the text is longer).
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
KEPT = 128  # positions of a long text
SIZES = ("--max-model-len=4160", "--max-batch=64")


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
        for name, (ids, _) in texts(goldens).items():
            logits = tools.forward(f32, ids)[1]["logits"]
            arrays[name] = logits[-KEPT:].astype(np.float16)
    np.savez_compressed(os.path.join(out, "reference.npz"), **arrays)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    if "--reference-only" not in sys.argv:
        compile_artifacts(sys.argv[1])
    reference(sys.argv[1])
