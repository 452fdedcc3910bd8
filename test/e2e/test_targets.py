"""Several targets in one artifact: what is compiled, what is in the manifest, what machines without a GPU say.

The model is one dense layer; its numbers are the kernels' own tests' business."""
import json
import os
import subprocess
import sys

import pytest

import contract
import tools
from contract import OK, UNSUPPORTED, USAGE

NO_GPU = {**os.environ, "DSV3_CUDA_DRIVER": "/no/such/libcuda.so"}
SMALL = ("--max-batch=1", "--max-model-len=64")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    out = tmp_path_factory.mktemp("targets") / "checkpoint"
    script = os.path.join(contract.HERE, "make_checkpoint.py")
    subprocess.run([sys.executable, script, os.path.join(contract.TINY, "config.json"), out, "--layers", "1", "--dense", "1", "--no-mtp",
                    "--fill", "random"], check=True, stdout=subprocess.DEVNULL)
    return str(out)


@pytest.fixture(scope="module")
def both(artifacts, checkpoint):
    return artifacts.get(checkpoint, "--target=sm_90a,x86-64", "--cpu-features=avx2", *SMALL)


def run_without_gpu(artifact, *flags):
    return subprocess.run([tools.path_of("dsv3-run"), artifact, "--ids=0,1", "--max-tokens=2", *flags], env=NO_GPU, capture_output=True,
                          text=True, timeout=tools.TIMEOUT)


def test_manifest_has_both(both):
    targets = {t["name"]: t for t in tools.manifest(both)["targets"]}
    assert list(targets) == ["sm_90a", "x86-64"], "in the order of preference"
    device = targets["sm_90a"]["device"]
    assert (device["arch"], device["sm_count"], device["smem"]) == ("sm_90a", 132, 232448)
    assert device["verified"] == (device["assembler"] is not None)
    assert device["kernels"]
    for kernel in device["kernels"]:
        assert ("cubin" in kernel) == device["verified"], kernel["symbol"]
        with open(os.path.join(both, kernel["ptx"]["file"])) as f:
            ptx = f.read()
        assert ".target sm_90a" in ptx and kernel["symbol"] in ptx
    assert [p["name"] for p in targets["sm_90a"]["programs"]] == [p["name"] for p in targets["x86-64"]["programs"]]
    text = tools.succeed("compile-model", "inspect", both).stdout.decode()
    assert "sm_90a, 132 multiprocessors" in text and "avx2" in text
    assert ("verified by ptxas" if device["verified"] else "unverified (no ptxas)") in text


def test_auto_falls_back_and_says_so(both):
    done = run_without_gpu(both)
    assert done.returncode == OK, done.stderr
    assert done.stdout == run_without_gpu(both, "--device=cpu").stdout
    assert "running x86-64 avx2" in done.stderr and "not sm_90a: expected an NVIDIA driver" in done.stderr


def test_cuda_without_a_gpu_is_refused(both):
    done = run_without_gpu(both, "--device=cuda")
    assert done.returncode == UNSUPPORTED
    assert len(done.stderr.splitlines()) == 1 and "expected an NVIDIA driver" in done.stderr
    assert "compile the model for x86-64" in done.stderr


def test_device_alone_is_refused_on_a_cpu(artifacts, checkpoint):
    artifact = artifacts.get(checkpoint, "--target=sm_90a", *SMALL)
    done = run_without_gpu(artifact)
    assert done.returncode == UNSUPPORTED and "expected an NVIDIA driver" in done.stderr
    done = run_without_gpu(artifact, "--device=cpu")
    assert done.returncode == UNSUPPORTED and "no code for cpu, only for sm_90a" in done.stderr


def test_report(checkpoint, tmp_path):
    done = tools.succeed("compile-model", checkpoint, "-o", tmp_path / "out.dsv3", "--target=sm_90a", "--report=json", *SMALL)
    report = json.loads(done.stdout)
    head = next(k for k in report if any(launch["site"] == "logits" for launch in k["launches"]))
    assert head["threads"] > 0 and head["shared_bytes"] > 0
    assert all(launch["flops"] > 0 and launch["roofline_us"] > 0 for launch in head["launches"])
    assert {launch["program"] for k in report for launch in k["launches"]} == {"prefill_t64", "decode_b1", "score_t64"}


@pytest.mark.parametrize("codes,mentions,flags", [
    (UNSUPPORTED, ("sm_90a", "x86-64", "vax"), ("--target=x86-64,vax",)),
    (USAGE, ("sm_90a", "twice"), ("--target=sm_90a,sm_90a",)),
    (UNSUPPORTED, ("--dtype", "bf16", "sm_90a"), ("--target=sm_90a", "--dtype=f32")),
    (USAGE, ("--cpu-features", "sm_90a"), ("--target=sm_90a", "--cpu-features=avx2")),
    (USAGE, ("--report",), ("--report=yaml",))])
def test_wrong_targets(tmp_path, codes, mentions, flags):
    tools.refuse(codes, mentions, "compile-model", contract.TINY, "-o", tmp_path / "out.dsv3", *flags)
    assert not os.listdir(tmp_path)


def test_fp8_block_stores_plain_weights_in_fp8(tmp_path, tmp_path_factory):
    checkpoint = tmp_path_factory.mktemp("plain") / "checkpoint"
    script = os.path.join(contract.HERE, "make_checkpoint.py")
    subprocess.run([sys.executable, script, os.path.join(contract.TINY, "config.json"), checkpoint, "--layers", "1", "--dense", "1", "--no-mtp",
                    "--bf16", "--fill", "random"], check=True, stdout=subprocess.DEVNULL)
    out = tools.compile_model(checkpoint, tmp_path / "out.dsv3", "--target=sm_90a", "--quant=fp8-block", *SMALL)
    tensors = {t["name"]: t["scheme"] for t in tools.manifest(out)["targets"][0]["weights"]["tensors"]}
    assert "f8E4M3FN" in tensors["l0.o"] and tensors["embed"] == "bf16", tensors


def test_fp8_activations_are_in_the_manifest(artifacts, checkpoint):
    assert tools.manifest(artifacts.get(checkpoint, "--target=sm_90a", "--quant=fp8-block", *SMALL))["config"]["quant"] == "fp8-block"
