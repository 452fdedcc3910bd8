#!/usr/bin/env python3
"""Goldens of a random checkpoint from HuggingFace transformers, in float32.

  make_goldens.py --odd [NAME...] [-o DIR]     the configurations of odd_configs.py (default: all of them)
  make_goldens.py CHECKPOINT -o PREFIX         one folder written by make_checkpoint.py --fill random

Writes NAME.safetensors and NAME.json. Needs torch and transformers 5; reading them needs numpy only.
Contents, for prompts p1, p7, p65, p130 (the number is the length):
  pN.input_ids [N], pN.last_logits [V], pN.top20_ids / top20_logits [N, 20],
  pN.greedy_ids [16], pN.greedy_margin [16] (distance of the best from the second),
  pN.layers.I.topk_ids [N, k] of every MoE layer (the order within a row means nothing),
  p7.logits [7, V], p7.layers.I.topk_weights, p7.embed, p7.layers.I.out, p7.final_norm [7, D],
  mtp.logits [6, V] (on p7) and mtp.last_logits [V], mtp.argmax [129] (on p130) where there is an MTP module.
The json says which versions wrote them, the hash of the checkpoint's weights, how far float32 is
from float64 (noise) and by how much each planted bug moves the logits (mutations).
"""
import argparse
import json
import os
import sys
import tempfile

import numpy as np
import torch
import transformers

import hf_mutations
import hf_reference
import odd_configs
import safetensors_np

TOLERANCE = 2e-4        # what the tests allow on a logit
MIN_MARGIN = 2e-5       # a smaller distance between two choices would make a test a coin toss


def prompt(length, vocab, seed):
    """Ids from raw bits, the stable part of numpy's generators; the first is BOS."""
    words = np.random.PCG64(np.random.SeedSequence([seed, length])).random_raw(length)
    ids = (words % np.uint64(vocab)).astype("<i4")
    ids[0] = 0
    return ids


def logits_of(model, ids):
    return model(torch.from_numpy(np.asarray(ids, dtype=np.int64))[None]).logits[0]


def greedy(model, ids, count):
    """Continue without a cache: no code path of transformers is involved but the plain forward."""
    ids, margins = list(ids), []
    for _ in range(count):
        best = logits_of(model, ids)[-1].topk(2)
        margins.append(float(best[0][0] - best[0][1]))
        ids.append(int(best[1][0]))
    return np.array(ids[-count:], "<i4"), np.array(margins, "<f4")


class Recorder:
    """Forward hooks that keep the states and router choices of the last run."""

    def __init__(self, model):
        self.kept, self.margin = {}, float("inf")
        self.keep(model.model.embed_tokens, "embed")
        self.keep(model.model.norm, "final_norm")
        for i, layer in enumerate(model.model.layers):
            self.keep(layer, f"layers.{i}.out")
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(self.router(f"layers.{i}"))

    def keep(self, module, name):
        def hook(_, args, out):
            out = out[0] if isinstance(out, tuple) else out
            self.kept[name] = out.reshape(-1, out.shape[-1]).numpy().copy()
        module.register_forward_hook(hook)

    def router(self, name):
        def hook(gate, args, out):
            self.kept[name + ".topk_weights"] = out[1].numpy().copy()
            self.kept[name + ".topk_ids"] = out[2].numpy().astype("<i4")
            self.margin = min(self.margin, float(gate.margins.min()))
        return hook


def prompt_goldens(model, recorder, name, ids):
    logits = logits_of(model, ids)
    states = dict(recorder.kept)
    top = logits.topk(20)
    out = {"input_ids": ids, "last_logits": logits[-1].numpy(), "top20_ids": top[1].numpy().astype("<i4"),
           "top20_logits": top[0].numpy()}
    if len(ids) == 7:
        out["logits"] = logits.numpy()
    out.update({k: v for k, v in states.items() if len(ids) == 7 or k.endswith(".topk_ids")})
    out["greedy_ids"], out["greedy_margin"] = greedy(model, ids, odd_configs.GREEDY)
    return {f"{name}.{k}": v for k, v in out.items()}


def mtp_logits(model, mtp, ids):
    x = torch.from_numpy(ids.astype(np.int64))
    return mtp(x, model.model(x[None]).last_hidden_state[0])


def mtp_goldens(model, mtp, prompts):
    last = mtp_logits(model, mtp, prompts["p130"])
    return {"mtp.logits": mtp_logits(model, mtp, prompts["p7"]).numpy(), "mtp.last_logits": last[-1].numpy(),
            "mtp.argmax": last.argmax(-1).numpy().astype("<i4")}


def difference(a, b):
    return float((a.double() - b.double()).abs().max())


def sensitivity(config, weights, ids, logits):
    """By how much each planted bug moves the logits of the longest prompt; all must be far over the tolerance."""
    moved = {}
    for name, make in hf_mutations.MUTATIONS.items():
        mutant = make(config, weights)
        if mutant is not None:
            moved[name] = difference(logits_of(mutant, ids), logits)
            if moved[name] < 5 * TOLERANCE:
                print(f"  warning: {name} moves the logits by {moved[name]:.1e} only", file=sys.stderr)
    return moved


def mtp_sensitivity(config, weights, ids, logits):
    return {name: difference(mtp_logits(*hf_mutations.mtp_of(config, weights, changes), ids), logits)
            for name, changes in hf_mutations.MTP_MUTATIONS.items()}


def goldens(folder, seed):
    """(tensors, description) of one checkpoint folder."""
    config, weights = hf_reference.read_checkpoint(folder)
    model, mtp = hf_reference.build(config, weights)
    recorder = Recorder(model)
    prompts = {f"p{n}": prompt(n, config["vocab_size"], seed) for n in odd_configs.LENGTHS}
    tensors = {}
    for name, ids in prompts.items():
        tensors.update(prompt_goldens(model, recorder, name, ids))
    longest = prompts[f"p{max(odd_configs.LENGTHS)}"]
    logits = logits_of(model, longest)
    model64, mtp64 = hf_reference.build(config, weights, torch.float64)
    noise = {"logits": difference(logits, logits_of(model64, longest))}
    router_margin = recorder.margin
    moved = sensitivity(config, weights, longest, logits)
    if mtp:
        tensors.update(mtp_goldens(model, mtp, prompts))
        ahead = mtp_logits(model, mtp, longest)
        noise["mtp"] = difference(ahead, mtp_logits(model64, mtp64, longest))
        moved.update(mtp_sensitivity(config, weights, longest, ahead))
        router_margin = min(router_margin, float(mtp.layer.mlp.gate.margins.min()))
    greedy_margin = min(float(v.min()) for k, v in tensors.items() if k.endswith("greedy_margin"))
    about = {"transformers": transformers.__version__, "torch": torch.__version__,
             "checkpoint_sha256": odd_configs.checkpoint_hash(folder), "seed": seed, "gain": odd_configs.GAIN,
             "router": "the release's rule: scores outside the kept groups are minus infinity",
             "max_logit": float(logits.abs().max()), "float32_against_float64": noise,
             "min_router_margin": router_margin, "min_greedy_margin": greedy_margin,
             "mutations": moved}
    if min(router_margin, greedy_margin) < MIN_MARGIN:
        raise SystemExit(f"{folder}: a choice is decided by {min(router_margin, greedy_margin):.1e}: take another seed")
    return tensors, about


def write(prefix, tensors, about):
    safetensors_np.save(prefix + ".safetensors", tensors, {"checkpoint": about["checkpoint_sha256"]})
    with open(prefix + ".json", "w") as f:
        json.dump(about, f, indent=1)
        f.write("\n")
    size = os.path.getsize(prefix + ".safetensors")
    print(f"{prefix}: {size / 1e3:.0f} kB, noise {about['float32_against_float64']}, "
          f"margins {about['min_router_margin']:.1e} {about['min_greedy_margin']:.1e}, "
          f"weakest mutation {min(about['mutations'].values()):.1e}")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("what", nargs="*", help="a checkpoint folder, or with --odd names of odd_configs.py")
    ap.add_argument("--odd", action="store_true")
    ap.add_argument("--seed", type=int, default=0, help="of the prompts, for a checkpoint folder")
    ap.add_argument("-o", "--out", help="with --odd a folder, else the prefix of the two files")
    a = ap.parse_args()
    if not a.odd:
        if len(a.what) != 1 or not a.out:
            ap.error("expected one checkpoint folder and -o PREFIX, or --odd")
        write(a.out, *goldens(a.what[0], a.seed))
        return
    out = a.out or odd_configs.GOLDENS
    os.makedirs(out, exist_ok=True)
    for name in a.what or odd_configs.SEEDS:
        with tempfile.TemporaryDirectory() as folder:
            odd_configs.make_checkpoint(odd_configs.config_file(name), folder, odd_configs.SEEDS[name])
            write(os.path.join(out, name), *goldens(folder, odd_configs.SEEDS[name]))


if __name__ == "__main__":
    main()
