"""compile-model quantize: what is written is what was decided, and what runs is what was written."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import contract
import quantize_checkpoint
import safetensors_np
import tools

CALIBRATION = os.path.join(contract.ROOT, "examples", "calibration", "text.jsonl")
LINEAR = "model.layers.1.mlp.experts.3.up_proj"


def quantize(out, *flags):
    tools.succeed("compile-model", "quantize", contract.TINY, "-o", out, *flags)
    return out


def tensors(folder):
    out = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            out.update(safetensors_np.load(os.path.join(folder, file)))
    return out


@pytest.fixture(scope="module")
def gptq(tmp_path_factory):
    out = tmp_path_factory.mktemp("quantize") / "gptq"
    return quantize(out, "--quant=w4a16", "--quant-algo=gptq", f"--calibration={CALIBRATION}", "--calibration-tokens=2048")


def test_the_folder_is_a_checkpoint(gptq):
    with open(gptq / "config.json", encoding="utf-8") as f:
        config = json.load(f)["quantization_config"]
    assert config["quant_method"] == "compressed-tensors"
    with open(gptq / "model.safetensors.index.json", encoding="utf-8") as f:
        index = json.load(f)["weight_map"]
    held = tensors(gptq)
    assert set(index) == set(held)
    assert held[LINEAR + ".weight_packed"].shape == (128, 32)
    assert held[LINEAR + ".weight_scale"].shape == (128, 2)
    assert list(held[LINEAR + ".weight_shape"]) == [128, 256]
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        assert (gptq / name).read_bytes() == open(os.path.join(contract.TINY, name), "rb").read()


def test_codes_are_near_the_weights(gptq):
    """An independent reading: eight codes a word, the first lowest, less 8, times the scale of their group."""
    held, source = tensors(gptq), tensors(contract.TINY)
    words = held[LINEAR + ".weight_packed"].view(np.uint32)
    codes = ((words[:, :, None] >> (4 * np.arange(8, dtype=np.uint32))) & 15).reshape(128, 256).astype(np.float32) - 8
    values = codes * held[LINEAR + ".weight_scale"].astype(np.float32).repeat(128, 1)
    w = source[LINEAR + ".weight"] * source[LINEAR + ".weight_scale_inv"].repeat(128, 0).repeat(128, 1)[:128, :256]
    assert np.linalg.norm(values - w) / np.linalg.norm(w) < 0.2


def test_the_log_says_what_was_done(gptq):
    text = (gptq / "quantization.txt").read_text()
    for word in ("l1.shared.down", "int4 in groups of 128", "gptq", "routed_experts.down", "Largest errors"):
        assert word in text


def candidates(text):
    """[(error in percent, linear, [targets])] of what the log would keep in 8 bits, and the configuration it proposes."""
    block = text.split("Largest errors")[1].split("\n\n")[0].splitlines()
    rows = [re.match(r"\s+([\d.]+)%\s+[\d.]+\s+(\S+(?:, up)?)\s+(\".*)", line) for line in block]
    return [(float(m[1]), m[2], json.loads(f"[{m[3]}]")) for m in rows if m], json.loads(block[-1])


def test_what_the_log_proposes_to_keep_compiles(tmp_path):
    """Without calibration errors are those of weights. What is proposed gives that layer's experts 8 bits, and no others."""
    out = quantize(tmp_path / "q", "--quant=w4a8-experts")
    text = (out / "quantization.txt").read_text()
    assert "no calibration" in text
    assert re.search(r"^l1.q_a +int8 per channel +int8 per token +default +0\.\d+% +- ", text, re.M), "activations have a scale per token"
    assert re.search(r"^l1.down +int4 in groups of 128 +int8 per token and 128 ", text, re.M)
    rows, config = candidates(text)
    assert len(rows) == 10 and [r[0] for r in rows] == sorted((r[0] for r in rows), reverse=True)
    _, first, targets = rows[0]
    assert config["policy"] == "w4a8-experts" and config["config_groups"]["8 bits"]["targets"] == targets
    (tmp_path / "keep.json").write_text(json.dumps(config))
    kept = quantize(tmp_path / "kept", f"--quant-config={tmp_path / 'keep.json'}")
    after = (kept / "quantization.txt").read_text()
    ours = {first} if "," not in first else {first.split(",")[0], first.split(".")[0] + ".up"}
    for stack in re.findall(r"^(l\d\.(?:gate|up|down)) +\S+ (?:per|in)", after, re.M):
        eight = re.search(rf"^{re.escape(stack)} +int8", after, re.M) is not None
        assert eight == (stack in ours or stack.startswith("l0.")), stack
    assert candidates(after)[0][0][1] != first


def test_experts_without_tokens_fall_back_and_are_listed(tmp_path):
    """Of 80 tokens, no expert sees 64."""
    out = quantize(tmp_path / "q", "--quant=w4a16", "--quant-algo=gptq", f"--calibration={CALIBRATION}", "--calibration-tokens=80")
    text = (out / "quantization.txt").read_text()
    assert "l2.down[5]" in text.split("Rounded without data")[1]


@pytest.mark.parametrize("algorithm", ("awq", "smoothquant"))
def test_folded_factors_leave_the_model_as_it_was(tmp_path, artifacts, algorithm, tiny_f32):
    """In 8 bits the result is near the original, though gammas, routers and up projections are others."""
    out = quantize(tmp_path / "q", "--quant=w8a8", f"--quant-algo={algorithm}", f"--calibration={CALIBRATION}", "--calibration-tokens=2048")
    held, source = tensors(out), tensors(contract.TINY)
    gamma = "model.layers.2.post_attention_layernorm.weight"
    assert np.abs(held[gamma] / source[gamma] - 1).max() > 0.01, "no factor was folded"
    compiled = artifacts.get(str(out), "--dtype=f32", "--max-model-len=1024", "--max-batch=8")
    result = json.loads(tools.succeed("dsv3-eval", compiled, "--json", "--limit=8", "--stories", os.path.join(contract.DATA, "stories_heldout.jsonl"),
                                      "--against", tiny_f32).stdout)["stories"]["against"]
    assert result["kl"] < 2e-3 and result["top1_agreement"] > 0.98


def test_one_step_is_the_same_as_two(tmp_path, gptq):
    flags = ("--dtype=f32", "--max-model-len=1024", "--max-batch=1", "--cpu-features=avx2")
    tools.succeed("compile-model", contract.TINY, "-o", tmp_path / "one.dsv3", "--quant=w4a16", "--quant-algo=gptq", f"--calibration={CALIBRATION}",
                  "--calibration-tokens=2048", *flags)
    tools.succeed("compile-model", gptq, "-o", tmp_path / "two.dsv3", "--quant=checkpoint", *flags)
    weights = "weights/x86-64/rank-0.bin"
    assert (tmp_path / "one.dsv3" / weights).read_bytes() == (tmp_path / "two.dsv3" / weights).read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["one.dsv3", "two.dsv3"], "the temporary checkpoint is gone"


def row_schemes(folder, tmp_path, *flags):
    """How rows of codes are scaled in the IR: per token (1x?), per 128 channels (1x128)."""
    tools.succeed("compile-model", folder, "-o", tmp_path / "none.dsv3", "--stop-after=quantize", "--dump-after=quantize", f"--dump-dir={tmp_path / 'ir'}", "--force", *flags)
    return set(re.findall(r"#dsv3\.blocked<i8, (1x\S+), f32>", (tmp_path / "ir" / "quantize.mlir").read_text()))


def test_int8_rows_keep_their_groups_but_in_a_checkpoint_for_others(tmp_path):
    """The down projection's rows have a scale per 128 channels, which no other engine knows of int8."""
    policy = ("--quant=w4a8-experts", "--quant-algo=mse")
    assert row_schemes(contract.TINY, tmp_path, *policy) == {"1x?", "1x128"}
    calibrated = ("--quant-algo=gptq", f"--calibration={CALIBRATION}", "--calibration-tokens=256")
    assert row_schemes(contract.TINY, tmp_path, policy[0], *calibrated) == {"1x?", "1x128"}, "in one step"
    written = quantize(tmp_path / "written", *policy)
    assert row_schemes(written, tmp_path, "--quant=checkpoint") == {"1x?"}
    assert row_schemes(written, tmp_path, policy[0]) == {"1x?", "1x128"}, "codes as stored, rows as the policy has them"


def peak_kib(*command):
    """The largest resident set of a process that must succeed."""
    process = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, errors[-2000:]
    return usage.ru_maxrss


def test_memory_does_not_grow_with_the_number_of_layers(tmp_path):
    """A layer of 12 million plain parameters, 24 MiB: four more layers may cost less than one."""
    peaks = []
    for layers in (2, 6):
        config = {**json.load(open(os.path.join(contract.TINY, "config.json"))), "num_hidden_layers": layers, "first_k_dense_replace": layers,
                  "intermediate_size": 14336, "num_nextn_predict_layers": 0}
        config.pop("quantization_config")
        source = tmp_path / f"layers{layers}"
        source.mkdir()
        (source / "shape.json").write_text(json.dumps(config))
        subprocess.run([sys.executable, os.path.join(contract.HERE, "make_checkpoint.py"), source / "shape.json", source / "model", "--fill", "random"],
                       check=True, capture_output=True)
        peaks.append(peak_kib(tools.path_of("compile-model"), "quantize", source / "model", "-o", source / "out", "--quant=w4a16", "--jobs=1"))
    assert peaks[1] - peaks[0] < 24 * 1024, f"peak memory in KiB: {peaks}"


def test_refusals(tmp_path, gptq):
    def refused(mentions, *flags, source=contract.TINY, codes=contract.USAGE, out=tmp_path / "no"):
        tools.refuse(codes, mentions, "compile-model", "quantize", source, "-o", out, *flags)
    refused("--calibration", "--quant-algo=gptq")
    refused("looks at data", "--quant-algo=rtn", f"--calibration={CALIBRATION}")
    refused("nowhere", "--quant-algo=gptq", "--calibration=nowhere.jsonl")
    refused("w5", "--quant=w5")
    refused(("--quant", "none"), "--quant=none")
    refused(("fp8-block", "changes no weight"), "--quant=fp8-block", codes=contract.UNSUPPORTED)
    refused(("--format", "expected compressed-tensors", "gguf"), "--format=gguf")
    refused(("--jobs", "expected 1 or more"), "--jobs=0")
    refused("exists", out=gptq)
    refused("compressed-tensors", source=gptq, codes=contract.UNSUPPORTED)
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    refused("empty.txt", "--quant-algo=gptq", f"--calibration={empty}")
    assert not (tmp_path / "no").exists()


def test_the_calibration_text_is_cut_to_the_models_positions(tmp_path):
    with open(os.path.join(contract.TINY, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config["max_position_embeddings"] = 64
    config.pop("rope_scaling")
    quantize_checkpoint.write_folder(contract.TINY, str(tmp_path / "model"), config, quantize_checkpoint.raw_tensors(contract.TINY))
    done = tools.succeed("compile-model", "quantize", tmp_path / "model", "-o", tmp_path / "q", "--quant-algo=awq", f"--calibration={CALIBRATION}",
                         "--calibration-tokens=256")
    assert b"337 linears" in done.stdout


@pytest.mark.parametrize("mentions,flag", [("max_position_embeddings", "--max-model-len=10000000"), ("taps", "--taps=no_such_state")])
def test_flags_are_refused_before_the_calibration(tmp_path, mentions, flag):
    start = time.monotonic()
    tools.refuse(contract.USAGE, mentions, "compile-model", contract.TINY, "-o", tmp_path / "a.dsv3", "--quant=w4a16", "--quant-algo=gptq",
                 f"--calibration={CALIBRATION}", flag)
    assert time.monotonic() - start < 30, "calibrating takes a minute"
    assert not os.listdir(tmp_path)


def edited(folder, name, at, value):
    """The example model with one number of a bf16 or byte tensor replaced."""
    held = quantize_checkpoint.raw_tensors(contract.TINY)
    dtype, shape, data = held[name]
    size = len(value)
    held[name] = dtype, shape, data[:at * size] + value + data[(at + 1) * size:]
    with open(os.path.join(contract.TINY, "config.json"), encoding="utf-8") as f:
        quantize_checkpoint.write_folder(contract.TINY, str(folder), json.load(f), held)
    return folder


@pytest.mark.parametrize("algorithm", ("gptq", "awq"))
def test_rows_that_overflow_end_calibration(tmp_path, algorithm):
    """A norm of 1e22: sums of squares are infinite, which no factorisation survives."""
    model = edited(tmp_path / "model", "model.layers.1.post_attention_layernorm.weight", 3, np.float32(1e22).tobytes()[2:])
    line = tools.refuse(contract.BAD_CHECKPOINT, ("up to 1e15", "l1.", "channel 3"), "compile-model", "quantize", model, "-o", tmp_path / "q",
                        f"--quant-algo={algorithm}", f"--calibration={CALIBRATION}", "--calibration-tokens=256", timeout=300)
    assert "nan" not in line and sorted(os.listdir(tmp_path)) == ["model"]


def test_errors_of_calibration_name_the_layer(tmp_path):
    """Each layer runs as layer 0 of a checkpoint of its own."""
    name = "model.layers.2.mlp.experts.2.up_proj.weight"
    model = edited(tmp_path / "model", name, 5, b"\x7f")
    tools.refuse(contract.BAD_CHECKPOINT, (name, "NaN"), "compile-model", "quantize", model, "-o", tmp_path / "q", "--quant-algo=gptq",
                 f"--calibration={CALIBRATION}", "--calibration-tokens=64")


def test_a_full_disk_is_no_wrong_usage(tmp_path):
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    done = subprocess.run([tools.path_of("compile-model"), "quantize", contract.TINY, "-o", tmp_path / "q"], preexec_fn=limit, capture_output=True)
    assert done.returncode == contract.DOES_NOT_FIT and done.stderr.count(b"\n") == 1 and b"cannot write" in done.stderr, done
    assert not os.listdir(tmp_path)


def test_an_empty_story_is_refused(tiny_f32, tmp_path):
    story = tmp_path / "story.jsonl"
    story.write_text('{"text": "A cat."}\n{"text": ""}\n')
    tools.refuse(contract.USAGE, ("story.jsonl", "document 1"), "dsv3-eval", tiny_f32, "--stories", story)


def test_a_model_agrees_with_itself(tiny_f32_taps):
    stories = os.path.join(contract.DATA, "stories_heldout.jsonl")
    done = json.loads(tools.succeed("dsv3-eval", tiny_f32_taps, "--json", "--limit=2", "--stories", stories, "--against", tiny_f32_taps,
                                    "--per-layer").stdout)["stories"]
    assert done["against"]["kl"] == 0 and done["against"]["top1_agreement"] == 1
    assert set(done["against"]["states"].values()) == {0} and "l3.out" in done["against"]["states"]
    assert abs(done["bits_per_byte"] * done["bytes"] * np.log(2) / done["tokens"] - done["nll"]) < 1e-9


def test_artifacts_that_cannot_be_compared_are_refused_before_the_work(tiny_f32, tiny_f32_taps):
    stories = os.path.join(contract.DATA, "stories_heldout.jsonl")
    done = tools.run("dsv3-eval", tiny_f32, "--limit=1", "--stories", stories, "--against", tiny_f32_taps, "--per-layer")
    assert done.returncode == contract.USAGE and b"taps in common" in done.stderr and not done.stdout, done


def peak_anonymous_memory(*command):
    """The exit code of a command, and the most memory it held that is not a mapped file: weights that are read are mapped."""
    process, peak = subprocess.Popen([str(c) for c in command], stdout=subprocess.DEVNULL), 0
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status", encoding="utf-8") as f:
                for line in f:
                    if line.startswith("RssAnon:"):
                        peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            pass
        time.sleep(0.01)
    return process.returncode, peak


def test_memory_is_bounded_by_a_layer(tmp_path):
    """Calibration goes layer by layer: at most twice the largest layer, however many there are."""
    with open(os.path.join(contract.TINY, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    config.update(hidden_size=512, moe_intermediate_size=256, n_routed_experts=64, num_nextn_predict_layers=0)
    (tmp_path / "config.json").write_text(json.dumps(config))
    layer = 64 * 3 * 512 * 256 * 2  # routed experts of one layer, bf16
    peaks = []
    for layers in (2, 5):
        model = tmp_path / f"m{layers}"
        subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "make_checkpoint.py"), tmp_path / "config.json", model, "--layers",
                        str(layers), "--fill", "random", "--bf16", "--no-mtp"], check=True, stderr=subprocess.DEVNULL)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            shutil.copy(os.path.join(contract.TINY, name), model)
        code, peak = peak_anonymous_memory(tools.path_of("compile-model"), "quantize", model, "-o", tmp_path / f"q{layers}", "--quant=w4a16",
                                           "--quant-algo=gptq", f"--calibration={CALIBRATION}", "--calibration-tokens=1024")
        assert code == 0
        peaks.append(peak)
    assert peaks[1] < 2 * layer, f"{peaks[1] / layer:.2f} layers"
    assert peaks[1] - peaks[0] < layer / 4, f"{peaks} bytes for 2 and 5 layers"
