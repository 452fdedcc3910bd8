#!/usr/bin/env python3
"""cuBLAS beside our GEMM, in one process on one GPU: bf16, M = N = K = 8192, the same random data. Needs torch.

  bench/gpu/cublas_peer.py PACK [--json FILE] [--commit REF]

PACK is the `dense` pack of run.py. At this size the power limit decides: the first milliseconds after a rest run a fifth
faster than a second later. So the two take turns launch by launch, inside the same milliseconds, in two settings: `rest`
(turns of a few launches, each after a pause: full clocks) and `sustained` (hundreds of turns without a pause: the clocks
that 700 W allow). Which of the two goes first changes every turn. Every launch is timed by events of its own; the figure
is the median, the comparison the median over pairs of neighbours. Ours is checked against torch first.
"""
import argparse
import ctypes
import datetime
import json
import os
import statistics
import subprocess
import sys
import time

import torch

N = 8192
FLOPS = 2 * N**3
CASE = "square8192.bf16"
cuda = ctypes.CDLL("libcuda.so.1")


class LaunchConfig(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("smem", ctypes.c_uint), ("stream", ctypes.c_void_p),
                ("attributes", ctypes.c_void_p), ("count", ctypes.c_uint)]


def call(name, *args):
    if status := getattr(cuda, name)(*args):
        sys.exit(f"{name}: expected success, got CUDA error {status}")


def tensor_map(buffer, param):
    """The 128 bytes of a CUtensorMap, at a multiple of 64, and what keeps them alive."""
    raw = ctypes.create_string_buffer(192)
    at = -(-ctypes.addressof(raw) // 64) * 64
    dims, strides, box = param["dims"], param["strides"], param["box"]
    rank, bf16, swizzle128, promote256 = len(dims), 9, 3, 3
    call("cuTensorMapEncodeTiled", ctypes.c_void_p(at), bf16, rank, ctypes.c_void_p(buffer.data_ptr() + param["offset"]),
         (ctypes.c_uint64 * rank)(*dims), (ctypes.c_uint64 * (rank - 1))(*strides), (ctypes.c_uint32 * rank)(*box),
         (ctypes.c_uint32 * rank)(*[1] * rank), 0, swizzle128, promote256, 0)
    return at, raw


class Ours:
    """The pack's kernel, launched as the pack says."""

    def __init__(self, pack, x, w, out):
        with open(os.path.join(pack, "cases.json")) as f:
            case = next((c for c in json.load(f)["cases"] if c["name"] == CASE), None)
        if case is None:
            sys.exit(f"{pack}: expected a case {CASE}")
        (launch,) = case["launches"]
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        call("cuModuleLoad", ctypes.byref(module), os.path.join(pack, launch["kernel"] + ".cubin").encode())
        call("cuModuleGetFunction", ctypes.byref(self.function), module, launch["kernel"].encode())
        max_dynamic_shared = 8
        call("cuFuncSetAttribute", self.function, max_dynamic_shared, launch["smem"])
        self.config = LaunchConfig(grid=tuple(launch["grid"]), block=(launch["threads"], 1, 1), smem=launch["smem"])
        self.keep = [torch.full((8,), N, device="cuda", dtype=torch.int64)]  # the step's scalars: rows
        buffers = [x, w, out]
        arguments = [self.word(self.keep[0].data_ptr())]
        for param in launch["params"]:
            if "map" in param:
                at, raw = tensor_map(buffers[param["map"]], param)
                self.keep.append(raw)
                arguments.append(at)
            else:
                arguments.append(self.word(buffers[param["pointer"]].data_ptr() + param["offset"]))
        self.arguments = (ctypes.c_void_p * len(arguments))(*arguments)

    def word(self, value):
        self.keep.append(ctypes.c_uint64(value))
        return ctypes.addressof(self.keep[-1])

    def __call__(self):
        self.config.stream = torch.cuda.current_stream().cuda_stream
        call("cuLaunchKernelEx", ctypes.byref(self.config), self.function, self.arguments, None)


def turns(kinds, count):
    """us of each kind, launch by launch; the order swaps every turn."""
    times = {name: [] for name in kinds}
    pending = []
    for turn in range(count):
        for name in list(kinds)[:: 1 if turn % 2 == 0 else -1]:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            kinds[name]()
            end.record()
            pending.append((name, begin, end))
    torch.cuda.synchronize()
    for name, begin, end in pending:
        times[name].append(begin.elapsed_time(end) * 1e3)
    return times


def smi(fields):
    return subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"], capture_output=True, text=True, check=True).stdout.strip()


def summary(times):
    ours, peer = times["ours"], times["cublas"]
    row = {}
    for name, values in times.items():
        us = statistics.median(values)
        row[name] = {"us": us, "tflops": FLOPS / us / 1e6, "fastest": min(values), "slowest": max(values), "launches": len(values)}
    row["ratio"] = statistics.median(a / b for a, b in zip(ours, peer))  # below 1: ours is ahead
    row["pairs_ahead"] = sum(a < b for a, b in zip(ours, peer)) / len(ours)
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pack")
    parser.add_argument("--json", help="writes the figures here")
    parser.add_argument("--commit", default="", help="what the results say was measured")
    args = parser.parse_args()
    torch.manual_seed(1)
    x, w = (torch.randn(N, N, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out, theirs = (torch.full((N, N), float("nan"), device="cuda", dtype=torch.bfloat16) for _ in range(2))
    ours = Ours(args.pack, x, w, out)
    kinds = {"ours": ours, "cublas": lambda: torch.mm(x, w.t(), out=theirs)}
    for run in kinds.values():
        run()
    torch.cuda.synchronize()
    error = ((out.float() - theirs.float()).norm() / theirs.float().norm()).item()
    if not error < 5e-3:  # two roundings to bf16 of nearly the same sums
        sys.exit(f"expected both results to agree within 5e-3 of their norm, got {error:.1e}")

    result = {"date": datetime.date.today().isoformat(), "commit": args.commit, "gpu": smi("name"), "driver": smi("driver_version"),
              "peer": f"torch {torch.__version__} (cuBLAS) torch.mm", "shape": [N, N, N], "difference": error}
    rest = {name: [] for name in kinds}
    for _ in range(12):
        time.sleep(0.3)
        for name, values in turns(kinds, 3).items():
            rest[name] += values[1:]  # the first pair wakes the clocks
    result["rest"] = summary(rest)
    turns(kinds, 400)  # until the power limit has settled
    result["sustained"] = summary(turns(kinds, 400))
    result["sustained"]["clock_power_temperature"] = smi("clocks.sm,power.draw,temperature.gpu")
    for setting in ("rest", "sustained"):
        row = result[setting]
        print(f"{setting:9s} cuBLAS {row['cublas']['us']:7.1f} us {row['cublas']['tflops']:5.0f} TFLOP/s   ours {row['ours']['us']:7.1f} us "
              f"{row['ours']['tflops']:5.0f} TFLOP/s   ratio {row['ratio']:.3f}   ahead in {100 * row['pairs_ahead']:.0f}% of pairs")
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
