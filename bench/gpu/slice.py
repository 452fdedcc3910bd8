#!/usr/bin/env python3
"""A full-width slice of DeepSeek-V3 (one dense layer, two with experts) with drawn weights, on a GPU; two steps, because the
machine with the GPU may have no compiler.

  bench/gpu/slice.py build FOLDER      # with build/bin/compile-model: FOLDER/VARIANT.dsv3, 15 MB each, no weights
  bench/gpu/slice.py measure FOLDER    # with build/bin/dsv3-bench: every launch against the reference, times; writes
                                       # bench/results/sm90-slice-VARIANT.json

With --profile each step runs once more under ncu, whose times of single kernels go into the results: `kernel_us` of a launch, and
of a step `kernels_us`, their sum, and `outside_us`, what is left of the graph's time.

Variants: `fp8` (weights in FP8 blocks, as released), `bf16` (the same model without a quantisation), `w8a8` (FP8
activations too).
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
VARIANTS = {"fp8": [], "bf16": [], "w8a8": ["--quant=fp8-block"]}
SIZES = ["--max-batch=128", "--max-model-len=32768", "--prefill-chunk=4096"]


def build(args):
    with open(os.path.join(HERE, "slice", "config.json")) as f:
        config = json.load(f)
    os.makedirs(args.folder, exist_ok=True)
    for name in args.variants:
        with tempfile.TemporaryDirectory() as model:
            plain = {k: v for k, v in config.items() if k != "quantization_config"}
            with open(os.path.join(model, "config.json"), "w") as f:
                json.dump(plain if name == "bf16" else config, f)
            command = [os.path.join(args.bin, "compile-model"), model, "-o", os.path.join(args.folder, name + ".dsv3"), "--force", "--target=sm_90a",
                       "--load-format=dummy", "--op-list", *SIZES, *VARIANTS[name], *args.flag]
            if subprocess.run(command).returncode:
                return [name]
    return []


def measure(args):
    failed = []
    for name in args.variants:
        artifact, out = os.path.join(args.folder, name + ".dsv3"), os.path.join(args.out, f"sm90-slice-{name}.json")
        command = [os.path.join(args.bin, "dsv3-bench"), "slice", artifact, "--commit", args.commit, "--json", out, *args.flag]
        print(f"== {name}", flush=True)
        if subprocess.run(command).returncode:
            failed.append(name)
        if args.profile and os.path.exists(out):
            profile(args, artifact, out)
    return failed


def kernel_times(args, artifact, step):
    """(name, us) of the kernels that ran, in order; those that draw weights are left out."""
    command = ["ncu", "--metrics", "gpu__time_duration.sum", "--clock-control", "none", "--csv", "--page", "raw", "-k", "regex:^(?!dummy_fill).*",
               os.path.join(args.bin, "dsv3-bench"), "slice", artifact, "--time", "--runs", "1", "--step", step]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    rows = list(csv.reader(line for line in lines if line.startswith('"')))
    name, time = rows[0].index("Kernel Name"), next(i for i, title in enumerate(rows[0]) if title.startswith("gpu__time_duration"))
    scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}[rows[1][time]]
    return [(row[name], float(row[time].replace(",", "")) * scale) for row in rows[2:]]


def profile(args, artifact, path):
    with open(path) as f:
        report = json.load(f)
    for step in report["steps"]:
        launches = step["launches"]
        times = kernel_times(args, artifact, step["step"])[-len(launches):]  # the last run: warm, launch by launch
        if [name for name, _ in times] != [launch["kernel"] for launch in launches]:
            sys.exit(f"slice.py: {step['step']}: ncu saw other kernels than the step has")
        for launch, (_, us) in zip(launches, times):
            launch["kernel_us"] = us
        step["kernels_us"] = sum(us for _, us in times)
        step["outside_us"] = step["us"] - step["kernels_us"]
        print(f"{step['step']}: {step['us']:.1f} us, in kernels {step['kernels_us']:.1f} us, outside {step['outside_us']:.1f} us", flush=True)
    with open(path, "w") as f:
        f.write(json.dumps(report, indent=1) + "\n")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("step", choices=("build", "measure"))
    ap.add_argument("folder", help="of the artifacts")
    ap.add_argument("variants", nargs="*", metavar="VARIANT", help="default: " + " ".join(VARIANTS))
    ap.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"), help="folder of the tools")
    ap.add_argument("--out", default=os.path.join(ROOT, "bench", "results"), help="where results go")
    ap.add_argument("--commit", default="", help="what the results say was measured")
    ap.add_argument("--profile", action="store_true", help="measure: kernels' own times with ncu")
    ap.add_argument("--flag", action="append", default=[], help="passed on: --flag=--determinism=run, --flag=--step=decode:1x4096")
    args = ap.parse_args()
    args.folder, args.out = (os.path.relpath(path) for path in (args.folder, args.out))  # both stand in the results
    for name in args.variants:
        if name not in VARIANTS:
            ap.error(f"expected one of {', '.join(VARIANTS)}, got '{name}'")
    args.variants = args.variants or list(VARIANTS)
    failed = {"build": build, "measure": measure}[args.step](args)
    if failed:
        sys.exit(f"slice.py: failed: {' '.join(failed)}")


if __name__ == "__main__":
    main()
