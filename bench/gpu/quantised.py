#!/usr/bin/env python3
"""The example model under each policy on a GPU, judged on the evaluation set; two steps, because the machine with the GPU may have
no compiler.

  bench/gpu/quantised.py build FOLDER                     # with build/bin/compile-model: FOLDER/POLICY.dsv3
  bench/gpu/quantised.py measure FOLDER [--prose FILE]    # with build/bin/dsv3-eval: writes bench/results/sm90-quantised.json

Weights are quantised without calibration (round to nearest; int4 clipped), math is bf16: what differs from bench/accuracy.py, which
measures schemes in float32, is the kernels.
"""
import argparse
import datetime
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MODEL = os.path.join(ROOT, "examples", "dsv3-tiny")
DATA = os.path.join("test", "data")
POLICIES = {
    "none": [],
    "fp8-block": ["--quant=fp8-block"],
    "w8a8": ["--quant=w8a8"],
    "w4a16": ["--quant=w4a16"],
    "w4a8-experts": ["--quant=w4a8-experts"],
    "w4a8-experts-kv8": ["--quant=w4a8-experts", "--kv-cache-dtype=fp8_e4m3"],
}


def build(args):
    os.makedirs(args.folder, exist_ok=True)
    for name in args.policies:
        command = [os.path.join(args.bin, "compile-model"), MODEL, "-o", os.path.join(args.folder, name + ".dsv3"), "--force", "--target=sm_90a",
                   "--max-batch=64", "--max-model-len=4160", *POLICIES[name]]
        if subprocess.run(command).returncode:
            return [name]
    return []


def gpu():
    done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=True)
    return [field.strip() for field in done.stdout.splitlines()[0].split(",")]


def measure(args):
    data = ["--stories", os.path.join(DATA, "stories_heldout.jsonl"), "--problems", os.path.join(DATA, "problems.jsonl")]
    data += ["--prose", args.prose] if args.prose else []
    models, failed = {}, []
    for name in args.policies:
        command = [os.path.join(args.bin, "dsv3-eval"), os.path.join(args.folder, name + ".dsv3"), "--json", "--device=cuda", *data]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        if done.returncode:
            failed.append(name)
            continue
        models[name] = json.loads(done.stdout)
        print(name, " ".join(f"{part} {result.get('perplexity') or result['correct']:.6g}" for part, result in models[name].items()), flush=True)
    name, driver = gpu()
    result = {"date": datetime.date.today().isoformat(), "commit": args.commit,
              "command": "bench/gpu/quantised.py measure FOLDER" + (" --prose PROSE" if args.prose else ""), "gpu": name, "driver": driver,
              "note": "examples/dsv3-tiny in bf16; weights by round to nearest, int4 clipped", "models": models}
    with open(os.path.join(args.out, "sm90-quantised.json"), "w", encoding="utf-8") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    return failed


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("step", choices=("build", "measure"))
    ap.add_argument("folder", help="folder of the artifacts")
    ap.add_argument("policies", nargs="*", metavar="POLICY", default=list(POLICIES), help="default: " + " ".join(POLICIES))
    ap.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"), help="folder of the tools; default: build/bin")
    ap.add_argument("--out", default=os.path.join(ROOT, "bench", "results"), help="where the result goes")
    ap.add_argument("--prose", help="JSON lines with a field text, as for bench/accuracy.py")
    ap.add_argument("--commit", default="", help="what the result says was measured")
    args = ap.parse_args()
    unknown = [name for name in args.policies if name not in POLICIES]
    if unknown:
        ap.error(f"expected policies out of {', '.join(POLICIES)}, got {unknown[0]}")
    args.folder, args.bin, args.prose = (path and os.path.abspath(path) for path in (args.folder, args.bin, args.prose))
    failed = build(args) if args.step == "build" else measure(args)
    sys.exit(f"quantised: failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
