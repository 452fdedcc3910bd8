#!/usr/bin/env python3
"""Time to the first token and between tokens of dsv3-serve on a GPU: a full-width slice of DeepSeek-V3 (three layers, drawn weights, FP8 as
released) under dsv3-bench serve; two steps, because the machine with the GPU may have no compiler.

  bench/gpu/serving.py build FOLDER      # with build/bin/compile-model: FOLDER/serving.dsv3
  bench/gpu/serving.py measure FOLDER    # with build/bin/dsv3-serve and dsv3-bench: writes bench/results/sm90-serving.json

The tokenizer is the example's, with a made-up word for every further id, so that each token is text. `step_us` is a decode step of as
many sequences in the middle of their answers, replayed on the device alone (dsv3-bench slice); `outside` is the share of the median time
between two tokens that is not in it: scheduling, sampling's way back, HTTP and the client.
"""
import argparse
import datetime
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TINY = os.path.join(ROOT, "examples", "dsv3-tiny")
INPUT, OUTPUT = 512, 256
CONCURRENCY = (1, 2, 4, 8, 16, 32, 64, 128)


def build(args):
    os.makedirs(args.folder, exist_ok=True)
    with tempfile.TemporaryDirectory() as model:
        shutil.copy(os.path.join(HERE, "slice", "config.json"), model)
        shutil.copy(os.path.join(TINY, "tokenizer_config.json"), model)
        with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
            vocabulary = json.load(f)["vocab_size"]
        with open(os.path.join(TINY, "tokenizer.json"), encoding="utf-8") as f:
            tokenizer = json.load(f)
        words = tokenizer["model"]["vocab"]
        taken = {*words.values(), *(t["id"] for t in tokenizer["added_tokens"])}
        words.update({f"Ġw{i}": i for i in range(vocabulary) if i not in taken})
        with open(os.path.join(model, "tokenizer.json"), "w", encoding="utf-8") as f:
            json.dump(tokenizer, f, ensure_ascii=False)
        command = [os.path.join(args.bin, "compile-model"), model, "-o", os.path.join(args.folder, "serving.dsv3"), "--force", "--target=sm_90a",
                   "--load-format=dummy", "--op-list", "--max-batch=128", "--max-model-len=32768", "--prefill-chunk=4096"]
        return subprocess.run(command).returncode


def step_times(args, artifact):
    """Microseconds of a decode step by sequences, and the device's name."""
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        steps = [f"--step=decode:{c}x{INPUT + OUTPUT // 2}" for c in CONCURRENCY]
        subprocess.run([os.path.join(args.bin, "dsv3-bench"), "slice", artifact, "--time", "--runs", "60", *steps, "--json", out.name], check=True,
                       stdout=subprocess.DEVNULL)
        result = json.load(open(out.name, encoding="utf-8"))
    return {c: step["us"] for c, step in zip(CONCURRENCY, result["steps"])}, result["device"]


def wait_ready(url, seconds):
    start = time.monotonic()
    while time.monotonic() - start < seconds:
        try:
            urllib.request.urlopen(url + "/ready", timeout=1)
            return time.monotonic() - start
        except OSError:
            time.sleep(0.02)
    sys.exit("serving: the server did not become ready")


def sweep(args, port):
    rows = []
    for c in CONCURRENCY:
        with tempfile.TemporaryDirectory() as folder:
            command = [os.path.join(args.bin, "dsv3-bench"), "serve", "--port", str(port), "--num-prompts", str(max(16, 3 * c)), "--max-concurrency", str(c),
                       "--num-warmups", "1", "--random-input-len", str(INPUT), "--random-output-len", str(OUTPUT), "--random-range-ratio", "0",
                       "--temperature", "0", "--seed", str(c), "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99",
                       "--disable-tqdm", "--save-result", "--result-dir", folder, "--result-filename", "r.json"]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            result = json.load(open(os.path.join(folder, "r.json"), encoding="utf-8"))
        keep = ("completed", "failed", "request_throughput", "output_throughput", "total_token_throughput")
        rows.append({"concurrency": c, **{k: v for k, v in result.items() if k in keep or (k.endswith("_ms") and k.split("_")[0] in ("median", "p90", "p99"))}})
    return rows


def measure(args):
    artifact = os.path.join(args.folder, "serving.dsv3")
    steps, device = step_times(args, artifact)
    port = 8311
    flags = ["--device=cuda", "--prefix-cache=off", "--seed=1", "--log-level=warning"]
    server = subprocess.Popen([os.path.join(args.bin, "dsv3-serve"), artifact, f"--port={port}", *flags])
    try:
        ready = wait_ready(f"http://127.0.0.1:{port}", 120)
        rows = sweep(args, port)
    finally:
        server.send_signal(signal.SIGTERM)
        code = server.wait(60)
    for row in rows:
        row["step_us"] = steps[row["concurrency"]]
        row["outside"] = 1 - row["step_us"] / (1000 * row["median_itl_ms"])
        print(f"{row['concurrency']:4}  ttft {row['median_ttft_ms']:8.1f} ms  tpot {row['median_tpot_ms']:7.3f} ms  itl {row['median_itl_ms']:7.3f} ms (p99 "
              f"{row['p99_itl_ms']:7.2f})  {row['output_throughput']:8.0f} tokens/s  step {row['step_us']:8.1f} us  outside {100 * row['outside']:5.1f}%")
    with open(os.path.join(args.out, "sm90-serving.json"), "w", encoding="utf-8") as f:
        json.dump({"date": datetime.date.today().isoformat(), "commit": args.commit, "command": "bench/gpu/serving.py measure", "device": device,
                   "server": flags, "input_tokens": INPUT, "output_tokens": OUTPUT, "ready_s": ready, "rows": rows}, f, indent=1)
        f.write("\n")
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("step", choices=["build", "measure"])
    parser.add_argument("folder")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"))
    parser.add_argument("--out", default=os.path.join(ROOT, "bench", "results"))
    parser.add_argument("--commit", default="")
    args = parser.parse_args()
    sys.exit(build(args) if args.step == "build" else measure(args))


if __name__ == "__main__":
    main()
