#!/usr/bin/env python3
"""dsv3-run against HuggingFace transformers on this machine's CPU, on the example model.

  bench/x86/transformers_peer.py [--dtype f32|bf16] [--repeat 5] [--bin build/bin]      (needs torch, transformers)

Both run the same ids with the same number of threads, in turn: a prompt of 900 tokens (prefill), then 64 tokens greedily
(decode). Prints medians and the ratio transformers / dsv3-run with its spread; writes bench/results/x86-transformers-DTYPE.json.
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.join(ROOT, "test", "e2e"), os.path.join(ROOT, "bench", "x86")]

import torch  # noqa: E402
import transformers  # noqa: E402

import hf_reference  # noqa: E402
import passes  # noqa: E402


def peer(model, ids, tokens):
    """Milliseconds to the first token, and per token after it."""
    with torch.no_grad():
        start = time.perf_counter()
        out = model(input_ids=ids, use_cache=True, logits_to_keep=1)
        first = time.perf_counter()
        for _ in range(tokens - 1):
            out = model(input_ids=out.logits[:, -1:].argmax(-1), past_key_values=out.past_key_values, use_cache=True)
        end = time.perf_counter()
    return (first - start) * 1e3, (end - first) * 1e3 / (tokens - 1)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--dtype", default="bf16", choices=("f32", "bf16"))
    ap.add_argument("--repeat", type=int, default=5)
    ap.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    a = ap.parse_args()
    folder = os.path.join(ROOT, "examples", "dsv3-tiny")
    model = hf_reference.build(*hf_reference.read_checkpoint(folder))[0].to(torch.bfloat16 if a.dtype == "bf16" else torch.float32)
    ids = torch.tensor([[0] + [100 + i * 7 % 3000 for i in range(passes.PROMPT - 1)]])
    rows = []
    with tempfile.TemporaryDirectory() as work:
        artifact = os.path.join(work, "model")
        subprocess.run([os.path.join(a.bin, "compile-model"), folder, "-o", artifact, "--dtype", a.dtype], check=True, capture_output=True)
        for turn in range(a.repeat + 1):
            ours, theirs = passes.run(os.path.join(a.bin, "dsv3-run"), artifact), peer(model, ids, passes.DECODE)
            if turn:
                rows.append((ours, theirs))
    result = {"date": datetime.date.today().isoformat(), "commit": passes.commit(), "cpu": passes.cpu(), "threads": torch.get_num_threads(),
              "torch": torch.__version__, "transformers": transformers.__version__, "dtype": a.dtype,
              "command": f"bench/x86/transformers_peer.py --dtype {a.dtype} --repeat {a.repeat}"}
    for i, what in enumerate(("prefill_ms", "decode_ms_per_token")):
        ratio = passes.summary([t[i] / o[i] for o, t in rows])
        result[what] = {"dsv3": round(statistics.median(o[i] for o, _ in rows), 3),
                        "transformers": round(statistics.median(t[i] for _, t in rows), 3), "ratio": ratio}
        print(f"{what:20} dsv3-run {result[what]['dsv3']:9.2f}  transformers {result[what]['transformers']:9.2f}  "
              f"ratio {ratio['median']:.2f} [{ratio['min']:.2f}, {ratio['max']:.2f}]")
    os.makedirs(os.path.join(ROOT, "bench", "results"), exist_ok=True)
    with open(os.path.join(ROOT, "bench", "results", f"x86-transformers-{a.dtype}.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
