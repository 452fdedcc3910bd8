"""The odd configurations: test/e2e/configs/NAME.json, how their checkpoints are made, and what is asked of them."""
import hashlib
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
GOLDENS = os.path.join(os.path.dirname(HERE), "goldens", "odd")
GAIN = 1.5
SHARDS = 2
LENGTHS = (1, 7, 65, 130)
GREEDY = 16
SEEDS = {"moe-first": 1, "dense3-mtp-ue8m0": 2, "bf16-tied-halves": 3, "bf16-mtp-plain": 4, "fp8-edges-yarn": 7,
         "fp8-halves-mtp": 6}


def config_file(name):
    return os.path.join(HERE, "configs", name + ".json")


def make_checkpoint(config, out, seed):
    subprocess.run([sys.executable, os.path.join(HERE, "make_checkpoint.py"), config, out, "--fill", "random",
                    "--shards", str(SHARDS), "--gain", str(GAIN), "--seed", str(seed)],
                   check=True, stderr=subprocess.DEVNULL)
    return out


def checkpoint_hash(folder):
    """SHA-256 over the weights alone, shard after shard."""
    digest = hashlib.sha256()
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with open(os.path.join(folder, name), "rb") as f:
                digest.update(f.read())
    return digest.hexdigest()
