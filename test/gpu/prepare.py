#!/usr/bin/env python3
"""Makes what the GPU tests need and a GPU machine cannot make: artifacts for sm_90a, and float32 logits of the x86 target.

    test/gpu/prepare.py OUT        # then carry OUT and build/bin to the machine, and there:
    DSV3_GPU=OUT python3 -m pytest test/gpu

OUT gets bf16.dsv3, fp8-block.dsv3, bf16-experts.dsv3 (bf16 that also gives away which experts it chose), kv8.dsv3 (bf16 with a
cache in FP8; both share the weights of bf16.dsv3), w4a8-fp8.dsv3 (w4a8-experts whose experts' rows are E4M3) and reference.npz:

- X: for each golden prompt followed by its greedy text the float32 logits of every position (as float16), for one text
  of 4000 tokens those of the last 128; X.kl the divergence of the x86 target's bf16 at these positions, which is what
  bf16 costs;
- 4000.experts, 4000.bf16_experts: the experts that x86 chooses in float32 and bf16, sorted, [4000, layers, experts a token];
- X.w8a8_kl: for each golden prompt the divergence of the interpreter, with FP8 activations as our IR has them, from the
  W8A8 goldens, over the 20 best choices of every position; X.w8a8_last_kl: of its last position, over all;
- X.w4a8_fp8: for each golden prompt the interpreter's logits of w4a8-fp8, as float16.
"""
import filecmp
import json
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
EXPERTS = r"--taps=l\d+\.route\.ids"
SIZES = ("--max-model-len=4160", "--max-batch=64")


def experts_of(parts, group):
    """int4 weights, E4M3 rows: a scale per token, or per token and 128 channels."""
    return {"targets": [f"routed_experts.{p}" for p in parts], "weights": {"num_bits": 4, "group_size": 128},
            "input_activations": {"num_bits": 8, "type": "float", "group_size": group}}


W4A8_FP8 = {"policy": "w4a8-experts", "config_groups": {"gate_up": experts_of(("gate", "up"), -1), "down": experts_of(("down",), 128)}}


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


def experts(taps):
    """[T, layers, experts a token], sorted: their order within a token says nothing. The MTP module's layer is left out."""
    layers = sorted((k for k in taps if k.endswith(".route.ids")), key=lambda k: int(k[1:].split(".")[0]))
    rows = max(len(taps[k]) for k in layers)
    return np.stack([np.sort(taps[k], -1) for k in layers if len(taps[k]) == rows], 1).astype(np.uint8)


def over_best(goldens, name, logits):
    """Divergence from the W8A8 goldens at every prompt position, over the 20 best choices, which is what they keep."""
    ids = goldens[f"{name}.top20_ids"].astype(np.int64)
    return divergence(goldens[f"{name}.top20_logits"], np.take_along_axis(logits, ids, -1))


def w4a8_fp8_flag(folder):
    path = os.path.join(folder, "w4a8-fp8.json")
    with open(path, "w", encoding="ascii") as f:
        json.dump(W4A8_FP8, f)
    return f"--quant-config={path}"


def compile_artifacts(out):
    with tempfile.TemporaryDirectory() as folder:
        done = tools.succeed("compile-model", contract.TINY, "-o", os.path.join(out, "w4a8-fp8.dsv3"), "--target=sm_90a", "--force", *SIZES,
                             w4a8_fp8_flag(folder))
        assert b"stay plain" not in done.stderr, done.stderr
    for name, flags in {"bf16": (), "fp8-block": ("--quant=fp8-block",), "bf16-experts": (EXPERTS,), "kv8": ("--kv-cache-dtype=fp8_e4m3",)}.items():
        tools.compile_model(contract.TINY, os.path.join(out, name + ".dsv3"), "--target=sm_90a", "--force", *SIZES, *flags)
    for other in ("bf16-experts", "kv8"):
        share_weights(os.path.join(out, "bf16.dsv3"), os.path.join(out, other + ".dsv3"))


def share_weights(kept, other):
    """Files of `other` that equal those of `kept` become links: the folder travels to another machine."""
    for folder, _, files in os.walk(other):
        for path in (os.path.join(folder, f) for f in files):
            twin = os.path.join(kept, os.path.relpath(path, other))
            if os.path.exists(twin) and filecmp.cmp(path, twin, shallow=False):
                os.remove(path)
                os.symlink(os.path.relpath(twin, os.path.dirname(path)), path)


def emulate_w8a8(arrays):
    """The IR of --quant=fp8-block before any kernel is chosen, on the reference interpreter."""
    goldens = safetensors_np.load(contract.GOLDENS + "_w8a8.safetensors")
    with tempfile.TemporaryDirectory() as folder:
        tools.succeed("compile-model", contract.TINY, "-o", os.path.join(folder, "unused.dsv3"), "--target=sm_90a",
                      "--quant=fp8-block", "--stop-after=quantize", "--dump-after=quantize", "--dump-dir", folder)
        for name in contract.PROMPTS:
            out = os.path.join(folder, "logits")
            tools.succeed("dsv3-interpret", os.path.join(folder, "quantize.mlir"), "--program=trunk_head", "--checkpoint",
                          contract.TINY, tools.ids_flag(goldens[f"{name}.input_ids"]), "--logits-out", out, "--hash-only")
            logits = safetensors_np.load(out)["logits"]
            arrays[name + ".w8a8_kl"] = over_best(goldens, name, logits)
            arrays[name + ".w8a8_last_kl"] = divergence(goldens[f"{name}.last_logits"], logits[-1])


def emulate_w4a8_fp8(arrays):
    """The IR of w4a8-fp8 before any kernel is chosen, on the reference interpreter."""
    goldens = safetensors_np.load(contract.GOLDENS + ".safetensors")
    with tempfile.TemporaryDirectory() as folder:
        tools.succeed("compile-model", contract.TINY, "-o", os.path.join(folder, "unused.dsv3"), "--target=sm_90a", w4a8_fp8_flag(folder),
                      "--stop-after=quantize", "--dump-after=quantize", "--dump-dir", folder)
        for name in contract.PROMPTS:
            out = os.path.join(folder, "logits")
            tools.succeed("dsv3-interpret", os.path.join(folder, "quantize.mlir"), "--program=trunk_head", "--checkpoint", contract.TINY,
                          tools.ids_flag(goldens[f"{name}.input_ids"]), "--logits-out", out, "--hash-only")
            arrays[name + ".w4a8_fp8"] = safetensors_np.load(out)["logits"].astype(np.float16)


def reference(out):
    goldens = safetensors_np.load(contract.GOLDENS + ".safetensors")
    arrays = {}
    with tempfile.TemporaryDirectory() as folder:
        f32 = tools.compile_model(contract.TINY, os.path.join(folder, "f32.dsv3"), "--dtype=f32", EXPERTS, *SIZES)
        bf16 = tools.compile_model(contract.TINY, os.path.join(folder, "bf16.dsv3"), "--dtype=bf16", EXPERTS, *SIZES)
        for name, (ids, start) in texts(goldens).items():
            kept = KEPT if start == LONGEST else len(ids)
            (_, want, want_taps), (_, got, got_taps) = (tools.forward(artifact, ids, taps=True) for artifact in (f32, bf16))
            want, got = want["logits"][-kept:], got["logits"][-kept:]
            arrays[name] = want.astype(np.float16)
            arrays[name + ".kl"] = divergence(want, got)
            if start == LONGEST:
                arrays[name + ".experts"], arrays[name + ".bf16_experts"] = experts(want_taps), experts(got_taps)
    emulate_w8a8(arrays)
    emulate_w4a8_fp8(arrays)
    np.savez_compressed(os.path.join(out, "reference.npz"), **arrays)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    os.makedirs(sys.argv[1], exist_ok=True)
    if "--reference-only" not in sys.argv:
        compile_artifacts(sys.argv[1])
    reference(sys.argv[1])
