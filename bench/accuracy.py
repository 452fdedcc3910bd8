#!/usr/bin/env python3
"""Accuracy of the example model in every scheme: perplexity, likelihood of stories, exact match of problems.

    bench/accuracy.py --prose PROSE.jsonl [--rows w4a16-gptq,w8a8] [--limit N] [--json bench/results/accuracy.json]

Every row is an artifact that compile-model makes (float32 math, so that only the scheme differs) and dsv3-eval measures. The prose
is 857 public-domain excerpts that are not part of the repository; without --prose only stories and problems are measured.
Rows that were measured before are kept in the json file, unless --rows names them.
"""
import argparse
import datetime
import json
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODEL = os.path.join(ROOT, "examples", "dsv3-tiny")
CALIBRATION = os.path.join(ROOT, "examples", "calibration", "text.jsonl")
DATA = os.path.join(ROOT, "test", "data")

INT4 = {"weights": {"num_bits": 4, "group_size": 128}}
EXPERTS = {"policy": "none", "config_groups": {"experts": {"targets": ["routed_experts", "shared_experts"], **INT4}}}

# name: (policy, algorithm or None for what the compiler does while packing, further flags, what the row is)
ROWS = {
    "fp8": ("none", None, (), "FP8 weights as stored, the base of all others"),
    "fp8-block": ("fp8-block", None, (), "FP8 weights as stored, activations FP8 per token and 128 channels"),
    "w8a8": ("w8a8", None, (), "int8 per channel, activations int8 per token"),
    "w8a8-smoothquant": ("w8a8", "smoothquant", (), "the same, SmoothQuant"),
    "w4a16-rtn": ("w4a16", "rtn", (), "all linears int4 g128, round to nearest"),
    "w4a16-mse": ("w4a16", "mse", (), "all linears int4 g128, clipped"),
    "w4a16-awq": ("w4a16", "awq", (), "all linears int4 g128, AWQ"),
    "w4a16-gptq": ("w4a16", "gptq", (), "all linears int4 g128, GPTQ"),
    "w4a16-auto": ("w4a16", "auto", (), "all linears int4 g128, the best of each linear"),
    "w4a16-experts-rtn": (EXPERTS, "rtn", (), "experts int4 g128, round to nearest"),
    "w4a16-experts-mse": (EXPERTS, "mse", (), "experts int4 g128, clipped"),
    "w4a16-experts-gptq": (EXPERTS, "gptq", (), "experts int4 g128, GPTQ"),
    "w4a8-experts-rtn": ("w4a8-experts", "rtn", (), "routed experts int4 g128 and int8 activations, all else W8A8, round to nearest"),
    "w4a8-experts-mse": ("w4a8-experts", "mse", (), "the same, clipped"),
    "w4a8-experts-gptq": ("w4a8-experts", "gptq", (), "the same, GPTQ"),
    "w4a8-experts-gptq-kv8": ("w4a8-experts", "gptq", ("--kv-cache-dtype=fp8_e4m3",), "the same with an E4M3 cache"),
    "kv-e4m3": ("none", None, ("--kv-cache-dtype=fp8_e4m3",), "FP8 weights, cache E4M3"),
    "kv-e5m2": ("none", None, ("--kv-cache-dtype=fp8_e5m2",), "FP8 weights, cache E5M2"),
}
CALIBRATED = ("smoothquant", "awq", "gptq", "auto")


def tool(name):
    return os.path.join(os.environ.get("DSV3_BIN", os.path.join(ROOT, "build", "bin")), name)


def run(*command):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"accuracy: {' '.join(map(str, command))}: {done.stderr.strip()}")
    for line in done.stderr.splitlines():
        print(line, file=sys.stderr)
    return done.stdout


def compile_row(row, folder, cpu):
    policy, algorithm, flags, _ = row
    source, quant = MODEL, []
    if isinstance(policy, dict):
        path = os.path.join(folder, "policy.json")
        with open(path, "w") as f:
            json.dump(policy, f)
        quant = ["--quant-config", path]
    elif policy != "none":
        quant = ["--quant", policy]
    if algorithm:
        source = os.path.join(folder, "checkpoint")
        calibration = ["--calibration", CALIBRATION] if algorithm in CALIBRATED else []
        print(run(tool("compile-model"), "quantize", MODEL, "-o", source, *quant, "--quant-algo", algorithm, *calibration), end="", flush=True)
        quant = ["--quant=checkpoint"]
    out = os.path.join(folder, "model.dsv3")
    target = ["--cpu-features", cpu] if cpu else []
    print(run(tool("compile-model"), source, "-o", out, *quant, *flags, *target, "--dtype=f32", "--max-model-len=1024", "--max-batch=16"), end="", flush=True)
    return out


def measure(artifact, options):
    command = [tool("dsv3-eval"), artifact, "--json", "--stories", os.path.join(DATA, "stories_heldout.jsonl"), "--problems",
               os.path.join(DATA, "problems.jsonl")]
    if options.prose:
        command += ["--prose", options.prose]
    if options.limit:
        command += ["--limit", options.limit]
    return json.loads(run(*command))


def commit():
    return subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()


def table(rows):
    base = rows.get("fp8", {})

    def more(part, key, result):
        if part not in result:
            return "", ""
        value = result[part][key]
        return f"{value:.5g}", f"{100 * (value / base[part][key] - 1):+.2f}%" if part in base else ""
    print(f"{'row':24} {'prose ppl':>10} {'':>8} {'stories nll':>12} {'':>8} {'problems':>9}")
    for name, result in rows.items():
        prose, prose_more = more("prose", "perplexity", result)
        stories, stories_more = more("stories", "nll", result)
        print(f"{name:24} {prose:>10} {prose_more:>8} {stories:>12} {stories_more:>8} {result['problems']['correct']:>9}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--prose", default=os.environ.get("DSV3_PROSE"), help="JSON lines with a field text; default: DSV3_PROSE")
    parser.add_argument("--rows", default=",".join(ROWS), help="which to measure: " + ", ".join(ROWS))
    parser.add_argument("--limit", help="first lines of each file only")
    parser.add_argument("--cpu-features", default="", help="one code variant, to compile faster")
    parser.add_argument("--json", help="result file; rows that are there and not measured now stay")
    options = parser.parse_args()
    chosen = options.rows.split(",")
    unknown = [name for name in chosen if name not in ROWS]
    if unknown:
        parser.error(f"--rows: expected out of {', '.join(ROWS)}, got {unknown[0]}")
    rows = {}
    if options.json and os.path.exists(options.json):
        with open(options.json) as f:
            rows = json.load(f)["rows"]
    for name in chosen:
        folder = tempfile.mkdtemp(prefix="accuracy-")
        try:
            rows[name] = {"what": ROWS[name][3], "commit": commit(), **measure(compile_row(ROWS[name], folder, options.cpu_features), options)}
        finally:
            shutil.rmtree(folder)
        rows = {n: rows[n] for n in ROWS if n in rows}
        if options.json:
            with open(options.json, "w") as f:
                json.dump({"date": datetime.date.today().isoformat(), "commit": commit(),
                           "command": "bench/accuracy.py --prose PROSE.jsonl --json bench/results/accuracy.json",
                           "model": "examples/dsv3-tiny, float32 math on x86-64", "rows": rows}, f, indent=1)
                f.write("\n")
        table(rows)


if __name__ == "__main__":
    main()
