"""--quant, --quant-config, --dry-run: what weights and activations become, and what that costs."""
import json
import os
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import contract
import quantize_checkpoint
import tools

IDS = (0, 17, 3000, 5, 512, 77, 1999, 40, 41, 42)
SIZES = ("--max-batch=2", "--max-model-len=128", "--cpu-features=avx512")
CONFIG = {"policy": "w4a16",
          "config_groups": {"experts": {"targets": ["routed_experts"], "weights": {"num_bits": 4, "group_size": 64, "scale_dtype": "bf16"}},
                            "fused": {"targets": ["re:.*fused_qkv_a_proj"], "weights": {"num_bits": 8}},
                            "head": {"targets": ["lm_head"], "weights": {"num_bits": 8}}},
          "ignore": [r"re:model\.layers\.6\..*", "model.layers.0.mlp.gate_up_proj"]}


# int4 weights and E4M3 activations.
INT4_E4M3 = {"config_groups": {"experts": {"targets": ["routed_experts", "shared_experts"], "weights": {"num_bits": 4, "group_size": 128},
                                           "input_activations": {"num_bits": 8, "type": "float", "group_size": 128}}}}


def quant_flags(policy, folder):
    if policy not in ("config", "int4-e4m3"):
        return (f"--quant={policy}",)
    file = os.path.join(folder, "quant.json")
    with open(file, "w", encoding="ascii") as f:
        json.dump(CONFIG if policy == "config" else INT4_E4M3, f)
    return (f"--quant-config={file}",)


def quantised_program(folder, *flags, checkpoint=contract.TINY):
    """The module after stage quantize, and its text."""
    tools.compile_model(checkpoint, os.path.join(folder, "none.dsv3"), "--dtype=f32", "--stop-after=quantize", "--dump-after=quantize",
                        f"--dump-dir={folder}", *flags)
    with open(os.path.join(folder, "quantize.mlir"), encoding="utf-8") as f:
        return f.name, f.read()


def reference(folder, module, checkpoint=contract.TINY):
    out = os.path.join(folder, "logits.safetensors")
    tools.succeed("dsv3-interpret", module, "--program=trunk_head", f"--checkpoint={checkpoint}", tools.ids_flag(IDS), f"--logits-out={out}")
    return tools.safetensors_np.load(out)["logits"]


def kl(a, b):
    def log_softmax(x):
        x = x.astype(np.float64) - x.max(-1, keepdims=True)
        return x - np.log(np.exp(x).sum(-1, keepdims=True))
    la, lb = log_softmax(a), log_softmax(b)
    return float((np.exp(la) * (la - lb)).sum(-1).mean())


@pytest.mark.parametrize("policy", ["w4a16", "config"])
def test_artifact_computes_the_policy(policy, tmp_path):
    """The compiled model against the interpreter, which quantises by the reference."""
    flags = quant_flags(policy, tmp_path)
    want = reference(tmp_path, quantised_program(tmp_path, *flags)[0])
    out = tools.compile_model(contract.TINY, str(tmp_path / "artifact"), "--dtype=f32", *SIZES, *flags)
    got = tools.forward(out, IDS)[1]["logits"]
    plain = reference(tmp_path, quantised_program(tmp_path)[0])
    assert kl(plain, want) > 1e-5, "the policy changes nothing: the test says nothing"
    tools.assert_close(got, want, contract.LOGIT_TOLERANCE, policy)


def states(folder, checkpoint, *flags):
    """States of the first layer: the reference's, and the artifact's."""
    flags = ("--dtype=f32", *SIZES, r"--taps=l0\.(q_a|o|mlp)", *flags)
    out = os.path.join(folder, "taps.safetensors")
    tools.compile_model(checkpoint, os.path.join(folder, "none.dsv3"), *flags, "--stop-after=specialize", "--dump-after=specialize", f"--dump-dir={folder}")
    tools.succeed("dsv3-interpret", os.path.join(folder, "specialize.mlir"), "--program=trunk_head", f"--checkpoint={checkpoint}",
                  tools.ids_flag(IDS), "--taps", f"--taps-out={out}", "--hash-only")
    artifact = tools.compile_model(checkpoint, os.path.join(folder, "artifact"), "--force", *flags)
    return tools.safetensors_np.load(out), tools.forward(artifact, IDS, taps=True)[2]


def test_e4m3_rows_meet_int4_weights(tmp_path):
    """Nothing falls back on x86, and what comes out of the first layer of experts is the reference's."""
    flags = quant_flags("int4-e4m3", tmp_path)
    done = tools.succeed("compile-model", contract.TINY, "-o", tmp_path / "a.dsv3", "--dtype=f32", *SIZES, *flags)
    assert b"stay plain" not in done.stderr
    want, got = (reference(tmp_path, quantised_program(tmp_path, *flags)[0]), tools.forward(tmp_path / "a.dsv3", IDS)[1]["logits"])
    weights_only = {"config_groups": {"experts": {k: v for k, v in INT4_E4M3["config_groups"]["experts"].items() if k != "input_activations"}}}
    (tmp_path / "w.json").write_text(json.dumps(weights_only))
    plain = reference(tmp_path, quantised_program(tmp_path, f"--quant-config={tmp_path / 'w.json'}")[0])
    # A row near the middle of two codes may round to either, so the kernel is held to half of what the codes change.
    assert kl(plain, want) > 1e-6 and kl(got, want) < kl(plain, want) / 2


def row_error(a, b):
    a, b = (x.reshape(len(IDS), -1).astype(np.float64) for x in (a, b))
    return np.median(np.linalg.norm(a - b, axis=1) / np.linalg.norm(a, axis=1))


def expect_activations(tmp_path, checkpoint, *flags):
    """A sum that differs in its last bit may become another code, and from there on states drift apart as much as quantisation
    itself moves them. So the first layer is compared: it must be nearer to the reference than to the plain model by far."""
    want, got = states(tmp_path, checkpoint, *flags)
    plain = states(tmp_path, checkpoint)[1]
    for name in ("l0.q_a", "l0.o", "l0.mlp"):
        near, far = row_error(want[name], got[name]), row_error(want[name], plain[name])
        assert far > 1e-3, f"{name}: activations are not quantised"
        assert near < 0.1 * far, f"{name}: {near} from the reference, {far} from the plain model"


@pytest.mark.parametrize("policy", ["w8a8", "w4a8-experts"])
def test_artifact_quantises_activations(policy, tmp_path):
    expect_activations(tmp_path, contract.TINY, f"--quant={policy}")


def test_codes_are_not_rounded_to_the_type_of_plain_weights(tmp_path):
    """Of a bf16 checkpoint: bf16 weights, dequantised, would be 1e-3 off."""
    with open(os.path.join(contract.TINY, "config.json"), encoding="utf-8") as f:
        (tmp_path / "config.json").write_text(f.read())
    model = tmp_path / "model"
    subprocess.run([sys.executable, os.path.join(contract.HERE, "make_checkpoint.py"), tmp_path / "config.json", model, "--layers", "2", "--fill", "random", "--bf16",
                    "--no-mtp"], check=True, capture_output=True)
    want, got = states(tmp_path, str(model), "--quant=w8a8")
    for name in ("l0.q_a", "l0.mlp"):
        assert row_error(want[name], got[name]) < 1e-4, name


def test_what_the_checkpoint_asks(tmp_path):
    """SlimQuant: int8 activations per token, experts in int4. --quant=none leaves them plain."""
    quantize_checkpoint.convert(contract.TINY, str(tmp_path), "slimquant")
    slim = str(tmp_path / "quantised")
    text = quantised_program(tmp_path, "--quant=checkpoint", checkpoint=slim)[1]
    assert len(re.findall(r"dsv3\.quantize", text)) > 30 and "#dsv3.quantized" not in text
    plain_text = quantised_program(tmp_path, checkpoint=slim)[1]
    assert "dsv3.quantize " not in plain_text and "activation" not in plain_text
    expect_activations(tmp_path, slim, "--quant=checkpoint")


def test_the_ir_shows_the_policy(tmp_path):
    text = quantised_program(tmp_path, *quant_flags("config", tmp_path))[1]
    weights = dict(re.findall(r"dsv3\.weight @(\S+) : tensor<[\dx]+x\w+(?:, (#\w+))?>", text))
    aliases = dict(re.findall(r"^(#\w+) = (#dsv3\.blocked<.*>)$", text, re.M))

    def scheme(name):
        return aliases.get(weights[name], "plain")

    assert scheme("l1.up") == scheme("l1.down") == "#dsv3.blocked<i4, 1x64, bf16>"
    assert scheme("l1.q_a") == scheme("l1.kv_a") == scheme("lm_head") == "#dsv3.blocked<i8, 1x?, f32>"
    assert scheme("l1.o") == scheme("l0.down") == "#dsv3.blocked<i4, 1x128, f32>"
    fp8 = "#dsv3.blocked<f8E4M3FN, 128x128, f32>"
    assert scheme("l0.gate") == scheme("l0.up") == fp8, "ignored under the fused name"
    assert scheme("l6.o") == scheme("l6.up") == fp8, "the MTP layer is ignored"
    assert scheme("l1.kv_b") == fp8 and scheme("l1.router") == "plain"
    assert "activation" not in text


def table(text):
    """{component: [bf16, stored, chosen]} in GiB, summed over schemes, and the shares of bf16."""
    rows = {}
    for line in text.splitlines()[1:-1]:
        name, *columns = re.match(r"(\D+?)\s+\d+\s+\d+\s+([\d.]+)\s+([\d.]+)\s+([\d.]+)", line).groups()
        values = [float(v) for v in columns]
        rows[name] = [a + b for a, b in zip(rows.get(name, [0, 0, 0]), values)]
    return rows, [float(v) for v in text.splitlines()[-1].split()[2:]]


@pytest.fixture(scope="module")
def deepseek(tmp_path_factory):
    folder = tmp_path_factory.mktemp("deepseek")
    shutil.copy(os.path.join(contract.DATA, "deepseek-v3-671b.json"), folder / "config.json")
    return str(folder)


@pytest.mark.parametrize("policy,least,most", [("none", 0.50, 0.51), ("w8a8", 0.50, 0.51), ("w4a16", 0.26, 0.28), ("w4a8-experts", 0.26, 0.28)])
def test_sizes_of_the_671b(deepseek, policy, least, most):
    """From config.json alone. The target of w4a8-experts is 0.28 of bf16."""
    done = tools.succeed("compile-model", deepseek, "--load-format=dummy", "--dry-run", f"--quant={policy}")
    rows, shares = table(done.stdout.decode())
    assert least < shares[2] <= most, shares
    total = rows.pop("all")
    assert np.allclose(np.sum(list(rows.values()), axis=0), total, atol=0.01)
    experts = 59 * 256 * 3 * 7168 * 2048  # the MTP layer's too
    assert rows["routed_experts"][0] == pytest.approx(experts * 2 / 2**30, rel=1e-5)
    assert total[0] == pytest.approx(rows["routed_experts"][0] + 30, abs=8)
    if policy.startswith("w4"):
        assert rows["routed_experts"][2] == pytest.approx(experts * (0.5 + 4 / 128) / 2**30, rel=1e-4)
    assert rows["kv_b"][2] == rows["kv_b"][1] and rows["lm_head"][2] == rows["lm_head"][0]


def test_dry_run_writes_nothing(tmp_path):
    done = tools.succeed("compile-model", contract.TINY, "-o", tmp_path / "out", "--dry-run", "--quant=w4a8-experts")
    assert not os.listdir(tmp_path) and not done.stderr
    assert "activations i8 1x?" in done.stdout.decode() and "activations i8 1x128" in done.stdout.decode()


def test_inspect_shows_schemes(tmp_path):
    out = tools.compile_model(contract.TINY, str(tmp_path / "artifact"), *SIZES, "--quant=none")
    said = tools.succeed("compile-model", "inspect", out).stdout.decode()
    assert "routed_experts: 18 in #dsv3.blocked<f8E4M3FN, 128x128, f32>, " in said and "activations" not in said, said
    out = tools.compile_model(contract.TINY, str(tmp_path / "mixed"), *SIZES, "--quant=w4a8-experts")
    said = tools.succeed("compile-model", "inspect", out).stdout.decode()
    for line in ("routed_experts: 12 in #dsv3.blocked<i4, 1x128, f32>, activations in #dsv3.blocked<i8, 1x?, f32>, ",
                 "routed_experts: 6 in #dsv3.blocked<i4, 1x128, f32>, activations in #dsv3.blocked<i8, 1x128, f32>, ",
                 "shared_experts: 18 in #dsv3.blocked<i8, 1x?, f32>, activations in #dsv3.blocked<i8, 1x?, f32>, "):
        assert line in said, said
    assert not re.search("other: .*i8", said), said
