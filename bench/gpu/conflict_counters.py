#!/usr/bin/env python3
"""Bank conflicts that the GPU's counters see, beside those that the analysis predicts. Needs ncu and the right to read counters.

  bench/gpu/conflict_counters.py PACK [PACK ...] [--bin build/bin] [--json bench/results/sm90-conflicts.json]

Two parts. `dsv3-bench conflicts` runs one instruction at a time, under layouts that tests list and some that none does: passes
of shared memory per instruction, predicted and counted, must be the same number. Then every kernel of every PACK
(compile-model kernels) runs once: a kernel whose accesses all have degree 1 must take as many passes as ncu calls ideal, one
with conflicts more. Thread-level kernels are not analysed (degree 0): their counts are listed, and must be ideal too.

Passes are ncu's memory_l1_wavefronts_shared, which counts per instruction. The l1tex__data_bank_conflicts counters are no
use here: they also count passes lost to copies and tensor cores, and differ from run to run.
"""
import argparse
import csv
import datetime
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ANCHORS = os.path.join(ROOT, "bench", "anchors", "h200.csv")
COUNTED, IDEAL = "memory_l1_wavefronts_shared", "memory_l1_wavefronts_shared_ideal"
PROBE_INSTRUCTIONS = 32 * 1024  # a probe's launch: 32 warps, 1024 times each (tools/dsv3-bench/Conflicts.cpp)
PROBE_LAUNCHES = 3


def count(command, codes=(0,)):
    """(what the command printed, [(kernel, passes, ideal passes)] in the order of launches)."""
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log.csv")
        done = subprocess.run(["ncu", "--clock-control", "none", "--metrics", f"{COUNTED},{IDEAL}", "--csv", "--page", "raw", "--log-file", log,
                               *command], stdout=subprocess.PIPE, text=True)
        with open(log) as file:
            lines = file.read().splitlines()
    table = list(csv.reader(line for line in lines if line.startswith('"')))
    if done.returncode not in codes or len(table) < 3:
        sys.exit("\n".join(line for line in lines if not line.startswith('"')) or f"ncu: exit code {done.returncode}")
    head = table[0]
    number = lambda row, name: int(float(row[head.index(name)].replace(",", "")))
    return done.stdout, [(row[head.index("Kernel Name")], number(row, COUNTED), number(row, IDEAL)) for row in table[2:]]


def probes(bench):
    out, launches = count([bench, "conflicts"], codes=(0, 1))  # 1: its timings, which mean nothing under ncu, differ
    rows = [line for line in out.splitlines() if line[46:].split()[:1] and re.match(r"(ld|st)", line[46:].split()[0])]
    if len(rows) * PROBE_LAUNCHES != len(launches):
        sys.exit(f"expected {PROBE_LAUNCHES} launches for each of {len(rows)} probes, got {len(launches)}")
    found = []
    for i, line in enumerate(rows):
        words = line[46:].split()  # instruction, degree, predicted, ...
        instruction, degree, predicted = words[0], int(words[1]), float(words[2])
        counted = {passes / PROBE_INSTRUCTIONS for _, passes, _ in launches[PROBE_LAUNCHES * i:PROBE_LAUNCHES * (i + 1)]}
        found.append({"access": line[:46].strip(), "instruction": instruction, "degree": degree, "predicted": predicted,
                      "counted": max(counted), "agrees": counted == {predicted}})
    return found


def kernels(bench, pack):
    with open(os.path.join(pack, "cases.json")) as file:
        degrees = {k["symbol"]: k["degree"] for k in json.load(file)["kernels"]}
    _, launches = count([bench, "kernel", pack, "--check", "--one-process", "--samples", "1", "--anchors", ANCHORS])
    found = {}
    for symbol, passes, ideal in launches:
        if symbol not in degrees:
            continue  # fills and comparisons of the bench itself
        row = found.setdefault(symbol, {"pack": os.path.basename(pack), "kernel": symbol, "degree": degrees[symbol], "passes": 0, "ideal": 0})
        if passes - ideal >= row["passes"] - row["ideal"]:
            row["passes"], row["ideal"] = passes, ideal
    for row in found.values():
        row["agrees"] = (row["passes"] > row["ideal"]) == (row["degree"] > 1)
    missing = sorted(set(degrees) - set(found))
    if missing:
        sys.exit(f"{pack}: never launched: {', '.join(missing)}")
    return list(found.values())


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("packs", nargs="*", metavar="PACK")
    ap.add_argument("--bin", default=os.path.join(ROOT, "build", "bin"), help="folder of dsv3-bench")
    ap.add_argument("--json", help="where the result goes")
    ap.add_argument("--commit", default="")
    args = ap.parse_args()
    bench = os.path.join(args.bin, "dsv3-bench")
    result = {"date": datetime.date.today().isoformat(), "commit": args.commit, "command": " ".join(["bench/gpu/conflict_counters.py", *sys.argv[1:]]),
              "driver": subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], stdout=subprocess.PIPE, text=True).stdout.strip(),
              "probes": probes(bench), "kernels": [row for pack in args.packs for row in kernels(bench, pack)]}
    for row in result["probes"]:
        if not row["agrees"]:
            print(f"{row['access']}, {row['instruction']}: predicted {row['predicted']}, counted {row['counted']}")
    for row in result["kernels"]:
        if not row["agrees"]:
            print(f"{row['pack']}: {row['kernel']}: degree {row['degree']}, {row['passes']} passes, ideal {row['ideal']}")
    for part in ("probes", "kernels"):
        print(f"{part}: {sum(row['agrees'] for row in result[part])} of {len(result[part])} agree")
    if args.json:
        with open(args.json, "w") as file:
            json.dump(result, file, indent=1)
    sys.exit(0 if all(row["agrees"] for part in ("probes", "kernels") for row in result[part]) else 1)


if __name__ == "__main__":
    main()
