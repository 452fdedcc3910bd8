#!/usr/bin/env python3
"""cuBLAS beside our GEMM, in one run on one GPU: bf16, M = N = K = 8192, random data. Needs torch.

  bench/gpu/cublas_peer.py PACK [--bench build/bin/dsv3-bench] [--rounds 3]

PACK is the `dense` pack of run.py. The two take turns, so that clocks and heat are alike; medians of graph replays.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile

import torch

N = 8192
FLOPS = 2 * N**3


def cublas_us(replays=40):
    a, b = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty(N, N, device="cuda", dtype=torch.bfloat16)
    torch.mm(a, b.t(), out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mm(a, b.t(), out=out)
    times = []
    for _ in range(replays):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1e3)
    return statistics.median(times)


def ours_us(args):
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "square.json")
        subprocess.run([args.bench, "kernel", args.pack, "--time", "--filter", "square8192", "--json", result], check=True,
                       stdout=subprocess.DEVNULL)
        with open(result) as f:
            return json.load(f)["rows"][0]["us"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack")
    parser.add_argument("--bench", default="build/bin/dsv3-bench")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    for _ in range(args.rounds):
        peer, ours = cublas_us(), ours_us(args)
        print(f"cuBLAS {peer:7.1f} us {FLOPS / peer / 1e6:5.0f} TFLOP/s   ours {ours:7.1f} us {FLOPS / ours / 1e6:5.0f} TFLOP/s   ratio {ours / peer:.3f}")
