#!/usr/bin/env python3
"""Measures the kernels of the shape lists on a GPU; two steps, because the machine with the GPU may have no compiler.

  bench/gpu/run.py build PACKS [LIST ...]        # with build/bin/compile-model: a pack per list into the folder PACKS
  bench/gpu/run.py measure PACKS [LIST ...]      # with build/bin/dsv3-bench: checks, times, writes bench/results/sm90-LIST.json
  bench/gpu/run.py sanitize PACKS                # compute-sanitizer over one small instance of every kernel family

LIST is the name of a file of this folder without .json; default: all of them. `small`, `buckets` and `sanitize` are checked but not
timed. Decode attention is built twice: `decode` under --determinism=run, as the anchors were measured, and `decode-batch`.
"""
import argparse
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ANCHORS = os.path.relpath(os.path.join(ROOT, "bench", "anchors", "h200.csv"))  # it stands in the results
LISTS = ("sanitize", "small", "buckets", "rows", "sample", "dense", "dense-fp8", "dense-int8", "dense-int4", "experts", "experts-fp8", "experts-int8",
         "experts-int4", "experts-int4-fp8", "decode", "decode-batch", "decode-fp8", "prefill")
CHECKED_ONLY = ("sanitize", "small", "buckets")


def tool(args, name):
    return os.path.join(args.bin or os.path.join(ROOT, "build", "bin"), name)


def build(args):
    os.makedirs(args.packs, exist_ok=True)
    failed = []
    for name in args.lists:
        shapes = os.path.join(HERE, name.replace("-batch", "") + ".json")
        rule = "run" if name in ("decode", "decode-fp8") else "batch"
        command = [tool(args, "compile-model"), "kernels", shapes, "-o", os.path.join(args.packs, name), "--force", "--determinism", rule]
        if subprocess.run(command + (["--keep-going"] if args.keep_going else [])).returncode:
            failed.append(name)
            if not args.keep_going:
                break
    return failed


def measure(args):
    failed = []
    for name in args.lists:
        command = [tool(args, "dsv3-bench"), "kernel", os.path.join(args.packs, name), "--check"]
        command += [] if name in CHECKED_ONLY else ["--time"]
        command += ["--rest", str(args.rest), "--samples", str(args.samples), "--anchors", ANCHORS, "--commit", args.commit]
        command += ["--json", os.path.join(args.out, f"sm90-{name}.json")] + (["--filter", args.filter] if args.filter else [])
        print(f"== {name}", flush=True)
        if subprocess.run(command).returncode:
            failed.append(name)
    return failed


def sanitize(args):
    failed = []
    for check in ("memcheck", "initcheck", "synccheck", "racecheck"):
        print(f"== {check}", flush=True)
        command = ["compute-sanitizer", "--tool", check, "--error-exitcode", "9"]
        # Of memory that no kernel wrote, only what kernels read is of interest: the bench itself looks for unwritten elements.
        command += ["--check-api-memory-access", "no"] if check == "initcheck" else []
        command += [tool(args, "dsv3-bench"), "kernel", os.path.join(args.packs, "sanitize"), "--check", "--one-process"]
        # Fills that poison outputs would be initialisation.
        command += ["--unpoisoned"] if check == "initcheck" else []
        command += ["--anchors", ANCHORS] + (["--filter", args.filter] if args.filter else [])
        if subprocess.run(command).returncode:
            failed.append(check)
    return failed


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("step", choices=("build", "measure", "sanitize"))
    ap.add_argument("packs", help="folder of the packs")
    ap.add_argument("lists", nargs="*", metavar="LIST", help="default: " + " ".join(LISTS))
    ap.add_argument("--bin", help="folder of the tools; default: build/bin")
    ap.add_argument("--out", default=os.path.join(ROOT, "bench", "results"), help="where results go")
    ap.add_argument("--commit", default="", help="what the results say was measured")
    ap.add_argument("--filter", help="only cases whose name matches this regular expression")
    ap.add_argument("--rest", type=int, default=5, help="ms before each timed replay; 0: back to back, at the power limit (default: 5)")
    ap.add_argument("--samples", type=int, default=4, help="rows that are checked of each output (default: 4)")
    ap.add_argument("--keep-going", action="store_true", help="build: leave out cases without a kernel")
    args = ap.parse_args()
    args.packs, args.out = (os.path.relpath(path) for path in (args.packs, args.out))  # results say how they were made, not on which machine
    for name in args.lists:
        if name not in LISTS:
            ap.error(f"expected one of {', '.join(LISTS)}, got '{name}'")
    args.lists = args.lists or list(LISTS)
    failed = {"build": build, "measure": measure, "sanitize": sanitize}[args.step](args)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


if __name__ == "__main__":
    main()
