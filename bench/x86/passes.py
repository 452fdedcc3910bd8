#!/usr/bin/env python3
"""What each optimisation pass is worth end to end on this machine's CPU.

  bench/x86/passes.py [--model DIR] [--dtype bf16] [--repeat 9] [--bin build/bin]

Compiles the model once as usual and once without each pass (compile-model --skip-pass), then runs both in turn, so
that a slow minute of the machine hits both. Prints the median ratio skipped / all and its spread, for a prompt of 900
tokens (time to first token) and for decoding 64 tokens behind it (time per token), and writes
bench/results/x86-passes-NAME.json. A larger model than the example, with random weights:

  python3 test/e2e/make_checkpoint.py bench/x86/medium.json /tmp/medium --fill random
  bench/x86/passes.py --model /tmp/medium --name medium
"""
import argparse
import datetime
import json
import os
import statistics
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PASSES = ("absorb-mla", "fuse-norm", "fuse-gated", "fuse-linears", "fuse-moe")
PROMPT, DECODE = 900, 64


def cpu():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), "unknown")


def commit():
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def run(binary, artifact):
    ids = "0," + ",".join(str(100 + i * 7 % 3000) for i in range(PROMPT - 1))
    out = subprocess.run([binary, artifact, "--ids", ids, "--max-tokens", str(DECODE), "--ignore-eos", "--json"],
                         check=True, capture_output=True)
    timings = json.loads(out.stdout)["timings"]
    return timings["ttft_ms"], timings["tpot_ms"]


def compare(binary, base, other, repeat):
    """Ratios other / base of (ttft, tpot), one pair a turn."""
    ratios = []
    for turn in range(repeat + 1):
        a, b = run(binary, base), run(binary, other)
        if turn:  # the first warms the page cache
            ratios.append((b[0] / a[0], b[1] / a[1]))
    return list(zip(*ratios))


def summary(values):
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", default=os.path.join(ROOT, "examples", "dsv3-tiny"))
    ap.add_argument("--name", default="tiny", help="of the result file")
    ap.add_argument("--dtype", default="bf16")
    ap.add_argument("--repeat", type=int, default=9)
    ap.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        def compiled(name, *flags):
            out = os.path.join(folder, name)
            subprocess.run([os.path.join(a.bin, "compile-model"), a.model, "-o", out, "--dtype", a.dtype, *flags], check=True,
                           capture_output=True)
            return out
        base = compiled("all")
        rows = {}
        print(f"{'without':14} {'prefill x':>24} {'decode x':>24}   (time without / time with, median [min, max] of {a.repeat})")
        for name in PASSES:
            prefill, decode = compare(os.path.join(a.bin, "dsv3-run"), base, compiled(name, f"--skip-pass={name}"), a.repeat)
            rows[name] = {"prefill": summary(prefill), "decode": summary(decode)}
            text = [f"{r['median']:.2f} [{r['min']:.2f}, {r['max']:.2f}]" for r in rows[name].values()]
            print(f"{name:14} {text[0]:>24} {text[1]:>24}", flush=True)
    result = {"date": datetime.date.today().isoformat(), "commit": commit(), "cpu": cpu(), "threads": os.cpu_count(),
              "command": f"bench/x86/passes.py --name {a.name} --dtype {a.dtype} --repeat {a.repeat}", "prompt": PROMPT, "decode": DECODE, "ratios": rows}
    os.makedirs(os.path.join(ROOT, "bench", "results"), exist_ok=True)
    with open(os.path.join(ROOT, "bench", "results", f"x86-passes-{a.name}.json"), "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
