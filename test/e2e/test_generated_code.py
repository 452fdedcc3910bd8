"""Every FLOP of the model is in generated code: a kernel that does nothing must be seen, for each kernel of the artifact.
And the fused experts read only the weights of the chosen: corrupting another expert's weights must not be seen."""
import os
import shutil
import struct
import subprocess

import json
import numpy as np
import pytest
import xxhash

import contract
import safetensors_np
import tools

VARIANT = "avx2"  # every machine that runs the product has it
RET = b"\xc3"


@pytest.fixture(scope="module")
def run_ids(goldens):
    return goldens["arith.input_ids"]


@pytest.fixture(scope="module")
def healthy(tiny_f32, run_ids):
    return forward(tiny_f32, run_ids)


def forward(artifact, ids):
    """Everything visible of a run that goes through prefill, decode, score and the MTP module."""
    result, logits, _ = tools.forward(artifact, ids, f"--cpu-features={VARIANT}", max_tokens=6)
    return result["ids"], result["logprobs"], logits["logits"], logits["mtp_logits"]


def same(a, b):
    return a[0] == b[0] and a[1] == b[1] and all(np.array_equal(tools.bits(x), tools.bits(y)) for x, y in zip(a[2:], b[2:]))


def code_file(artifact):
    return os.path.join(artifact, "code", "x86-64", VARIANT + ".so")


def kernels_of(artifact):
    """Name and address of each kernel: the module's table names them, the symbol table places them."""
    lines = subprocess.run(["nm", code_file(artifact)], check=True, capture_output=True, text=True).stdout.splitlines()
    symbols = {f[2]: int(f[0], 16) for f in map(str.split, lines) if len(f) == 3 and f[1] in "tT"}
    # Programs are functions too; kernels are named after their op, which programs never are.
    programs = {p["name"] for p in tools.manifest(artifact)["targets"][0]["programs"]} | {"dsv3_module"}
    return {name: at for name, at in symbols.items() if name not in programs and not name.startswith(("program.", "_"))}


def file_offset(code, address):
    """Where a virtual address of an ELF file lies in the file."""
    (table,) = struct.unpack_from("<Q", code, 32)
    size, count = struct.unpack_from("<HH", code, 54)
    for i in range(count):
        kind, _, offset, virtual, _, in_file, _, _ = struct.unpack_from("<IIQQQQQQ", code, table + i * size)
        if kind == 1 and virtual <= address < virtual + in_file:
            return offset + address - virtual
    raise AssertionError(f"address {address:#x} is in no segment")


def copy_of(artifact, folder):
    out = os.path.join(folder, "copy.dsv3")
    shutil.copytree(artifact, out)
    return out


def poison(artifact, kernel, address, instruction=RET):
    """The kernel returns at once. The manifest's hash follows, since the loader would refuse the file otherwise.
    No `instruction`: the file is signed again as it is."""
    path = code_file(artifact)
    with open(path, "rb") as f:
        code = bytearray(f.read())
    at = file_offset(code, address)
    code[at:at + len(instruction)] = instruction
    with open(path, "wb") as f:
        f.write(code)
    manifest = tools.manifest(artifact)
    for target in manifest["targets"]:
        for variant in target["variants"]:
            if variant["name"] == VARIANT:
                variant["hash"] = xxhash.xxh3_128_hexdigest(bytes(code))
    with open(os.path.join(artifact, "manifest.json"), "w") as f:
        json.dump(manifest, f)
    assert kernel in kernels_of(artifact)


def test_shared_object_stands_alone(tiny_f32):
    """One exported function, no undefined symbol, no needed library."""
    for name in os.listdir(os.path.dirname(code_file(tiny_f32))):
        path = os.path.join(os.path.dirname(code_file(tiny_f32)), name)
        dynamic = subprocess.run(["nm", "-D", path], check=True, capture_output=True, text=True).stdout.split()
        assert dynamic[2::3] == ["dsv3_module"], f"{name}: {dynamic}"
        needed = subprocess.run(["readelf", "-d", path], check=True, capture_output=True, text=True).stdout
        assert "NEEDED" not in needed, f"{name} needs a library: {needed}"


def test_a_copy_signed_again_is_healthy(tiny_f32, healthy, run_ids, tmp_path):
    """The control of the next test: copying and signing alone change nothing, so what it sees is the poison."""
    kernel, address = min(kernels_of(tiny_f32).items())
    copy = copy_of(tiny_f32, tmp_path)
    poison(copy, kernel, address, instruction=b"")
    assert same(forward(copy, run_ids), healthy)


def test_every_kernel_matters(tiny_f32, healthy, run_ids, tmp_path):
    kernels = kernels_of(tiny_f32)
    ops = {"embed", "gemm", "gated_gemm", "norm", "add_norm", "rope", "kv_append", "kv_expand", "attn_prefill", "attn_decode",
           "batched_gemm", "route", "dispatch", "grouped_gated_gemm", "grouped_gemm", "combine", "select_rows"}
    missing = [op for op in ops if not any(k.startswith(op) for k in kernels)]
    assert not missing, f"no kernel of {missing} among {sorted(kernels)}"
    unseen = []
    for kernel, address in sorted(kernels.items()):
        copy = copy_of(tiny_f32, tmp_path)
        poison(copy, kernel, address)
        done = subprocess.run([tools.path_of("dsv3-run"), copy, tools.ids_flag(run_ids), f"--cpu-features={VARIANT}", "--max-tokens=1"],
                              capture_output=True, timeout=tools.TIMEOUT)
        # A work list left unwritten may also crash the run: that is seen as well.
        if done.returncode == 0 and same(forward_or_none(copy, run_ids), healthy):
            unseen.append(kernel)
        shutil.rmtree(copy)
    assert not unseen, f"nobody notices when these kernels do nothing: {unseen}"


def forward_or_none(artifact, ids):
    try:
        return forward(artifact, ids)
    except AssertionError:
        return None, None, np.zeros(0), np.zeros(0)


def expert_ranges(artifact, name):
    """Byte ranges of each expert's part of a stacked weight: FP8 data, then scales."""
    row = next(w for w in tools.manifest(artifact)["targets"][0]["weights"]["tensors"] if w["name"] == name)
    experts, n, k = row["shape"]
    data = n * k
    scales_at = -(-experts * data // 256) * 256
    scales = n // 16 * -(-k // 128) * 16 * 4
    assert scales_at + experts * scales == row["bytes"], "expected FP8 panels with one scale row per 16 columns and 128 k"
    return [((row["offset"] + e * data, data), (row["offset"] + scales_at + e * scales, scales)) for e in range(experts)]


def corrupt(path, ranges):
    with open(path, "r+b") as f:
        for at, size in ranges:
            f.seek(at)
            f.write(b"\x7f" * size)  # NaN as E4M3, a huge number as a scale


def load(folder):
    return safetensors_np.load(os.path.join(folder, "logits"))["logits"]


def test_only_chosen_experts_are_read(tiny_f32, tiny_f32_taps, tmp_path):
    """One token chooses 4 of 16 experts in each routed layer: exactly those matter."""
    ids = [0]
    _, healthy, states = tools.forward(tiny_f32_taps, ids, taps=True)
    for layer in (1, 5):
        chosen = set(states[f"l{layer}.route.ids"][0].tolist())
        seen = set()
        for expert in range(16):
            copy = copy_of(tiny_f32, tmp_path)
            weights = os.path.join(copy, tools.manifest(copy)["targets"][0]["weights"]["file"])
            corrupt(weights, [r for w in ("gate", "up", "down") for r in expert_ranges(copy, f"l{layer}.{w}")[expert]])
            done = tools.run("dsv3-run", copy, tools.ids_flag(ids), "--max-tokens", 1, "--logits-out", os.path.join(tmp_path, "logits"))
            # What was read shows: as numbers, or as a refusal to choose a token among NaN.
            if done.returncode or not np.array_equal(tools.bits(load(tmp_path)), tools.bits(healthy["logits"])):
                seen.add(expert)
            shutil.rmtree(copy)
        assert len(chosen) == 4 and seen == chosen, f"layer {layer}: chose {sorted(chosen)}, read {sorted(seen)}"
