#!/usr/bin/python3
"""Measures dsv3-serve on this machine's CPU with the example model, by dsv3-bench serve.

    bench/serving.py measure [--artifact OUT] [--runs 3] [--only schedule]   writes bench/results/serving-cpu.json
    bench/serving.py table                                                   prints it as the tables of the README

Measured: throughput and latency against concurrency; split against mixed scheduling; the prefix cache on against off; time
from the start of the program to the first token. Runs of the things compared alternate, and the median run counts: a
machine that others use shows in all of them alike."""
import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, os.path.join(ROOT, "test", "e2e"))

import contract  # noqa: E402
import tools  # noqa: E402
from served import Served  # noqa: E402

RESULT = os.path.join(HERE, "results", "serving-cpu.json")
KEYS = ("completed", "failed", "duration", "total_input_tokens", "total_output_tokens", "request_throughput", "output_throughput", "total_token_throughput",
        "median_ttft_ms", "p99_ttft_ms", "median_tpot_ms", "median_itl_ms", "p99_itl_ms")
CONCURRENCY = (1, 2, 4, 8, 16, 32, 64)

# Decode steps of running requests between prompts of others: what the two policies treat differently.
SCHEDULE = ["--num-prompts=96", "--max-concurrency=16", "--random-input-len=768", "--random-output-len=64", "--random-range-ratio=0.8"]
# Four documents of 2048 tokens, and short questions about them.
PREFIX = ["--dataset-name=prefix_repetition", "--num-prompts=64", "--max-concurrency=8", "--prefix-repetition-num-prefixes=4",
          "--prefix-repetition-prefix-len=2048", "--prefix-repetition-suffix-len=32", "--prefix-repetition-output-len=16", "--ignore-eos"]
SWEEP = ["--random-input-len=128", "--random-output-len=64"]
COMPARED = {"schedule": (SCHEDULE, {"split": ["--schedule=split"], "mixed": ["--schedule=mixed"]}),
            "prefix cache": (PREFIX, {"on": ["--prefix-cache=on"], "off": ["--prefix-cache=off"]})}


def compile_artifact(folder):
    out = os.path.join(folder, "tiny.dsv3")
    tools.compile_model(contract.TINY, out, "--dtype=bf16", "--max-model-len=4608", "--max-batch=64")
    return out


def bench(server, flags, folder):
    path = os.path.join(folder, "run.json")
    tools.succeed("dsv3-bench", "serve", "--port", server.port, "--disable-tqdm", "--temperature=0", "--metric-percentiles=50,99", "--save-result",
                  "--result-filename", path, *flags, timeout=1800)
    with open(path, encoding="utf-8") as f:
        run = json.load(f)
    assert run["failed"] == 0, f"{run['failed']} requests failed"
    return {k: run[k] for k in KEYS}


def middle(runs):
    """The run with the median throughput, whole: its numbers belong together."""
    runs = sorted(runs, key=lambda r: r["output_throughput"])
    return {**runs[len(runs) // 2], "output_throughputs": [r["output_throughput"] for r in runs]}


def sweep(artifact, folder, runs):
    rows = []
    for bound in CONCURRENCY:
        with Served(artifact) as server:
            taken = [bench(server, SWEEP + [f"--num-prompts={max(16, 4 * bound)}", f"--max-concurrency={bound}", f"--seed={i}"], folder)
                     for i in range(runs)]
        rows.append({"concurrency": bound, **middle(taken)})
        print(rows[-1], file=sys.stderr)
    return rows


def compare(artifact, folder, runs, load, ways):
    taken = {way: [] for way in ways}
    for i in range(runs):
        for way, flags in ways.items():
            with Served(artifact, *flags) as server:  # a fresh one: its prefix cache is empty
                taken[way].append(bench(server, load + [f"--seed={i}"], folder))
                print(way, taken[way][-1], file=sys.stderr)
    return [{"way": way, **middle(r)} for way, r in taken.items()]


def cold_start(artifact, runs):
    """Seconds from starting the program to the first byte of text of a first request."""
    times = []
    for _ in range(2 * runs + 1):
        start = time.monotonic()
        with Served(artifact) as server:
            server.completion("One day", max_tokens=1)
            times.append(time.monotonic() - start)
    return {"median_s": statistics.median(times), "worst_s": max(times)}


def cpu_name():
    with open("/proc/cpuinfo", encoding="ascii") as f:
        return next((line.split(":")[1].strip() for line in f if line.startswith("model name")), platform.machine())


def measure(a):
    results = {}
    if os.path.exists(RESULT):
        with open(RESULT, encoding="utf-8") as f:
            results = json.load(f)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    results.update(date=str(datetime.date.today()), commit=commit, command="bench/serving.py measure", cpu=cpu_name(), cores=os.cpu_count(),
                   model="examples/dsv3-tiny, bf16; client and server share the cores")
    with tempfile.TemporaryDirectory(prefix="dsv3-serving-") as folder:
        artifact = a.artifact or compile_artifact(folder)
        if a.only in (None, "cold start"):
            results["cold start"] = cold_start(artifact, a.runs)
        if a.only in (None, "concurrency"):
            results["concurrency"] = {"load": " ".join(SWEEP), "runs": sweep(artifact, folder, a.runs)}
        for name, (load, ways) in COMPARED.items():
            if a.only in (None, name):
                results[name] = {"load": " ".join(load), "runs": compare(artifact, folder, a.runs, load, ways)}
    with open(RESULT, "w", encoding="utf-8") as f:
        json.dump(results, f, indent=1)
        f.write("\n")


def table():
    with open(RESULT, encoding="utf-8") as f:
        results = json.load(f)
    columns = (("output tok/s", "output_throughput", ".0f"), ("all tok/s", "total_token_throughput", ".0f"), ("TTFT p50 ms", "median_ttft_ms", ".0f"),
               ("TTFT p99 ms", "p99_ttft_ms", ".0f"), ("gap p50 ms", "median_itl_ms", ".1f"), ("gap p99 ms", "p99_itl_ms", ".0f"))
    print(f"{results['cpu']}, {results['cores']} cores, {results['model']} ({results['date']}, {results['commit']}).")
    if "cold start" in results:
        print(f"Start of the program to the first token: {results['cold start']['median_s']:.2f} s.")
    for name, key in (("concurrency", "concurrency"), ("schedule", "way"), ("prefix cache", "way")):
        if name not in results:
            continue
        print(f"\n| {name} | " + " | ".join(c[0] for c in columns) + " |\n| --- |" + " ---: |" * len(columns))
        for run in results[name]["runs"]:
            print(f"| {run[key]} | " + " | ".join(format(run[k], form) for _, k, form in columns) + " |")
        print(f"\n`{results[name]['load']}`")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    m = commands.add_parser("measure")
    m.add_argument("--artifact", help="of examples/dsv3-tiny, --max-model-len=4608 --max-batch=64; default: compiled here")
    m.add_argument("--runs", type=int, default=3)
    m.add_argument("--only", choices=["cold start", "concurrency", *COMPARED])
    commands.add_parser("table")
    a = parser.parse_args()
    measure(a) if a.command == "measure" else table()


if __name__ == "__main__":
    main()
