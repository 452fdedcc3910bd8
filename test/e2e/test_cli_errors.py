"""Wrong usage and damaged artifacts: the documented exit code and one line that names the thing."""
import glob
import json
import os
import shutil

import pytest

import contract
import odd_configs
import tools
from contract import BAD_CHECKPOINT, UNSUPPORTED, USAGE

STORY = ("--prompt", "Once upon a time")


def refuse_run(codes, mentions, artifact, *flags):
    return tools.refuse(codes, mentions, "dsv3-run", artifact, *flags)


# --- dsv3-run: flags and input

@pytest.mark.parametrize("mentions,flags", [
    ("--no-such-flag", (*STORY, "--no-such-flag")),
    ("max-tokens", (*STORY, "--max-tokens=many")),
    ("max-tokens", (*STORY, "--max-tokens=-1")),
    ("temperature", (*STORY, "--temperature=-1")),
    ("temperature", (*STORY, "--temperature=nan")),
    ("top-p", (*STORY, "--temperature=1", "--top-p=1.5")),
    ("top-k", (*STORY, "--temperature=1", "--top-k=-3")),
    ("min-p", (*STORY, "--temperature=1", "--min-p=2")),
    ("repetition-penalty", (*STORY, "--repetition-penalty=0")),
    ("threads", (*STORY, "--threads=-2")),
    ("prefill-chunk", (*STORY, "--prefill-chunk=-5")),
    ("stop", (*STORY, "--stop=")),
    ("ids", ("--ids=1,x",)),
    ("ids", ("--ids=1,,2",)),
    ("ids", ("--ids=",)),
    ("prompt", (*STORY, "--ids=1")),
    ("prompt", ()),
])
def test_bad_flags(tiny_f32, mentions, flags):
    refuse_run(USAGE, mentions, tiny_f32, *flags)


@pytest.mark.parametrize("ids,mentions", [("0,3584", "3584"), ("0,-1", "-1"), ("9" * 20, "9" * 20)])
def test_id_out_of_range(tiny_f32, ids, mentions):
    refuse_run(USAGE, mentions, tiny_f32, f"--ids={ids}")


def test_prompt_longer_than_the_plan(tiny_f32):
    longer = contract.MAX_MODEL_LEN + 1
    refuse_run(USAGE, (str(longer), str(contract.MAX_MODEL_LEN)), tiny_f32, tools.ids_flag([5] * longer))


def test_the_longest_prompt_of_the_plan_runs(tiny_f32):
    ids = tools.ids_flag([5] * (contract.MAX_MODEL_LEN - 1))
    result = tools.generate(tiny_f32, ids, "--max-tokens", 50, "--ignore-eos")
    assert result["finish_reason"] == "length" and 1 <= len(result["ids"]) <= 2


def test_prompt_without_a_tokenizer(artifacts, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for f in os.listdir(contract.TINY):
        if not f.startswith("tokenizer"):
            (bare / f).symlink_to(os.path.join(contract.TINY, f))
    artifact = tools.compile_model(str(bare), str(tmp_path / "bare.dsv3"), "--max-model-len=256")
    refuse_run(USAGE, ("--prompt", "tokenizer"), artifact, *STORY)
    refuse_run(USAGE, ("--chat", "tokenizer"), artifact, "--chat", "Hello")
    assert len(tools.generate(artifact, "--ids=0,2037", "--max-tokens", 3, "--ignore-eos")["ids"]) == 3


@pytest.mark.parametrize("content,mentions", [
    ('{"ids": [0, 1}\n', "line 1"), ('{"ids": [0]}\n{"ids": [3584]}\n', "3584"), ('{"max_tokens": 3}\n', "line 1"),
    ('{"ids": [0], "max_tokens": "x"}\n', "max_tokens"), ("", "batch"), ("[1, 2]\n", "line 1")])
def test_bad_batch_files(tiny_f32, tmp_path, content, mentions):
    source = tmp_path / "batch.jsonl"
    source.write_text(content)
    refuse_run(USAGE, mentions, tiny_f32, "--batch", source)


def test_missing_batch_file(tiny_f32, tmp_path):
    refuse_run(USAGE, "nowhere.jsonl", tiny_f32, "--batch", tmp_path / "nowhere.jsonl")


def test_unwritable_logits(tiny_f32):
    path = "/proc/nowhere/logits"
    refuse_run(USAGE, path, tiny_f32, "--ids=0", "--max-tokens", 1, "--logits-out", path)


def test_taps_that_were_not_compiled(tiny_f32, tmp_path):
    refuse_run(USAGE, "taps", tiny_f32, "--ids=0", "--max-tokens", 1, "--taps-out", tmp_path / "taps")


# --- damaged artifacts

@pytest.fixture
def copy(tiny_f32, tmp_path):
    return shutil.copytree(tiny_f32, tmp_path / "copy.dsv3")


def only(pattern):
    found = sorted(glob.glob(str(pattern), recursive=True))
    assert found, f"the artifact has no {pattern}"
    return found


def edit_manifest(artifact, edit):
    data = tools.manifest(artifact)
    edit(data)
    with open(os.path.join(artifact, "manifest.json"), "w") as f:
        json.dump(data, f)


def flip_byte(path, at):
    with open(path, "r+b") as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 0x40]))


def test_the_copy_itself_is_good(copy):
    assert tools.generate(copy, "--ids=0,2037", "--verify", "--max-tokens", 2, "--ignore-eos")["ids"]


def test_no_artifact_at_all(tmp_path):
    refuse_run(BAD_CHECKPOINT, "nowhere.dsv3", tmp_path / "nowhere.dsv3", *STORY)
    (tmp_path / "empty.dsv3").mkdir()
    refuse_run(BAD_CHECKPOINT, "manifest.json", tmp_path / "empty.dsv3", *STORY)


def test_a_checkpoint_is_not_an_artifact():
    refuse_run(BAD_CHECKPOINT, "manifest.json", contract.TINY, *STORY)


def test_manifest_missing(copy):
    os.unlink(copy / "manifest.json")
    refuse_run(BAD_CHECKPOINT, "manifest.json", copy, *STORY)


def test_manifest_cut_short(copy):
    os.truncate(copy / "manifest.json", 300)
    refuse_run(BAD_CHECKPOINT, "manifest.json", copy, *STORY)


@pytest.mark.parametrize("key", ("model", "config", "targets", "kv", "taps", "ignored"))
def test_manifest_lacks_a_part(copy, key):
    edit_manifest(copy, lambda m: m.pop(key))
    refuse_run(BAD_CHECKPOINT, key, copy, *STORY)


@pytest.mark.parametrize("key", ("format", "abi"))
def test_manifest_of_another_version(copy, key):
    edit_manifest(copy, lambda m: m.update({key: 9999}))
    refuse_run(BAD_CHECKPOINT, (key, "9999", "version"), copy, *STORY)


@pytest.mark.parametrize("pattern", ("weights/**/*.bin", "code/**/*.so"))
def test_file_missing(copy, pattern):
    found = only(copy / pattern)
    for path in found:
        os.unlink(path)
    refuse_run(BAD_CHECKPOINT, os.path.splitext(pattern)[1], copy, *STORY)


@pytest.mark.parametrize("keep", (0, 4096, -1))
def test_weights_truncated(copy, keep):
    path = only(copy / "weights/**/*.bin")[0]
    os.truncate(path, keep if keep >= 0 else os.path.getsize(path) + keep)
    refuse_run(BAD_CHECKPOINT, os.path.basename(path), copy, *STORY)


@pytest.mark.parametrize("keep", (0, 4096, -1))
def test_code_truncated(copy, keep):
    for path in only(copy / "code/**/*.so"):
        os.truncate(path, keep if keep >= 0 else os.path.getsize(path) + keep)
    refuse_run(BAD_CHECKPOINT, ".so", copy, *STORY)


@pytest.mark.parametrize("pattern,flags", [("weights/**/*.bin", ("--verify",)), ("code/**/*.so", ())])
def test_hash_mismatch(copy, pattern, flags):
    """Code is always compared; weights only when asked, since that reads all of them."""
    for path in only(copy / pattern):
        flip_byte(path, os.path.getsize(path) // 2)
    refuse_run(BAD_CHECKPOINT, ("hash", os.path.splitext(pattern)[1]), copy, *STORY, *flags)


def test_tokenizer_damaged(copy):
    os.truncate(copy / "tokenizer" / "tokenizer.json", 1000)
    refuse_run(BAD_CHECKPOINT, "tokenizer.json", copy, *STORY)


# --- compile-model

def refuse_compile(codes, mentions, out, *flags, checkpoint=contract.TINY):
    tools.refuse(codes, mentions, "compile-model", checkpoint, "-o", out, *flags)


@pytest.mark.parametrize("mentions,flag", [
    ("--no-such-flag", "--no-such-flag"), ("dtype", "--dtype=f15"), ("determinism", "--determinism=maybe"),
    ("max-batch", "--max-batch=0"), ("max-batch", "--max-batch=x"), ("max-model-len", "--max-model-len=0"),
    ("max-model-len", "--max-model-len=-7"), ("stop-after", "--stop-after=lunch"),
    ("dump-after", "--dump-after=lunch"), ("taps", "--taps=("), ("jobs", "--jobs=-1"),
    ("policy that quantises", "--quant-algo=mse")])
def test_compile_bad_flags(tmp_path, mentions, flag):
    refuse_compile(USAGE, mentions, tmp_path / "out.dsv3", flag)
    assert not os.listdir(tmp_path)


def test_dump_of_a_stage_that_does_not_run(tmp_path):
    flags = ("--stop-after=fuse", "--dump-after=pack", "--dump-dir", tmp_path / "dumps")
    refuse_compile(USAGE, ("--dump-after=pack", "--stop-after=fuse"), tmp_path / "out.dsv3", *flags)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("mentions,flag", [("sparc", "--target=sparc"), ("sse2", "--cpu-features=sse2"),
                                           ("nonsense", "--quant=nonsense"),
                                           ("default, rtn, mse", "--quant-algo=best")])
def test_compile_unsupported(tmp_path, mentions, flag):
    refuse_compile((USAGE, UNSUPPORTED), mentions, tmp_path / "out.dsv3", flag)
    assert not os.listdir(tmp_path)


def test_quant_config(tmp_path):
    """One line that names the file, the group and what is wrong; nothing is written."""
    file = tmp_path / "quant.json"
    out = tmp_path / "out.dsv3"
    for text, mentions in [
            ('{"config_groups": {"a": {"targets": ["routed_experts"], "weights": {"num_bits": 3}}}}', ("quant.json", "config_groups.a.weights.num_bits", "4 or 8")),
            ('{"config_groups": {"a": {"targets": ["re:.*no_such_proj"], "weights": {"num_bits": 8}}}}', ("config_groups.a.targets", "no_such_proj", "matches no linear")),
            ('{"config_groups": {"a": {"targets": ["re:.*experts\\\\.3\\\\..*"], "weights": {"num_bits": 4}}}}', ("matches 1 of the 16 experts of l1.", "all or none")),
            ('{"config_groups": {"a": {"targets": ["kv_b"], "weights": {"num_bits": 8}}}}', ("config_groups.a", "l0.kv_b", "left as it is stored")),
            ('{"config_groups": {"a": {"targets": ["routed_experts.up"], "weights": {"num_bits": 4}}}}', ("l1.gate", "l1.up", "one product", "as stored", "int4 per channel", "quant.json: config_groups.a")),
            ('{"config_groups": {"a": {"targets": ["re:(.*)*(.*)*(.*)*(.*)*(.*)*zz"], "weights": {"num_bits": 4}}}}', ("quant.json: config_groups.a.targets", "cannot be matched")),
            ('{"ignore": ["lm_head", 5]}', ("quant.json: ignore", "got 5")),
            ('{"policy": "w8a8",', ("quant.json",))]:
        file.write_text(text)
        refuse_compile(USAGE, mentions, out, f"--quant-config={file}")
    refuse_compile(USAGE, "--quant", out, f"--quant-config={file}", "--quant=w8a8")
    assert os.listdir(tmp_path) == ["quant.json"]


def test_variant_this_cpu_lacks(tiny_f32):
    """Every artifact has code for AMX; a processor without it is told what is missing."""
    with open("/proc/cpuinfo", encoding="ascii", errors="replace") as f:
        if "amx_bf16" in f.read():
            pytest.skip("this processor has AMX")
    refuse_run(UNSUPPORTED, ("amx-tile", "amx-bf16", "amx-int8"), tiny_f32, "--cpu-features=amx", *STORY)


def test_taps_that_match_nothing(tmp_path):
    refuse_compile(USAGE, "l77.out", tmp_path / "out.dsv3", "--taps=l77.out")
    assert not os.listdir(tmp_path)


def test_no_checkpoint(tmp_path):
    refuse_compile((USAGE, BAD_CHECKPOINT), "nowhere", tmp_path / "out.dsv3", checkpoint=tmp_path / "nowhere")
    tools.refuse(USAGE, "-o", "compile-model", contract.TINY)
    assert not os.listdir(tmp_path)


def test_unwritable_output(tmp_path):
    """Below a regular file and below /proc: refused for root too."""
    (tmp_path / "file").write_text("")
    refuse_compile(USAGE, "file", tmp_path / "file" / "out.dsv3")
    refuse_compile(USAGE, "/proc", "/proc/out.dsv3")
    refuse_compile(USAGE, "missing", tmp_path / "missing" / "out.dsv3")
    assert os.listdir(tmp_path) == ["file"]


def small_checkpoint(folder):
    return odd_configs.make_checkpoint(odd_configs.config_file("bf16-tied-halves"), str(folder / "checkpoint"), 0)


def test_existing_output_needs_force(tmp_path):
    """A small checkpoint, compiled twice: refused, then replaced; a folder that is no artifact is never replaced."""
    checkpoint = small_checkpoint(tmp_path)
    out, flags = tmp_path / "out.dsv3", ("--max-model-len=256", "--max-batch=1")
    tools.compile_model(checkpoint, str(out), *flags)
    before = (out / "manifest.json").read_bytes()
    refuse_compile(USAGE, ("out.dsv3", "--force"), out, *flags, checkpoint=checkpoint)
    assert (out / "manifest.json").read_bytes() == before
    tools.compile_model(checkpoint, str(out), *flags, "--force", "--dtype=f32")
    assert tools.manifest(str(out))["config"]["dtype"] == "f32"
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "letter.txt").write_text("dear")
    refuse_compile(USAGE, "precious", precious, *flags, "--force", checkpoint=checkpoint)
    assert (precious / "letter.txt").read_text() == "dear"
    assert sorted(os.listdir(tmp_path)) == ["checkpoint", "out.dsv3", "precious"]


def files_of(root):
    return sorted(os.path.relpath(os.path.join(folder, f), root) for folder, _, names in os.walk(root) for f in names)


def test_two_compilations_give_equal_bytes(tmp_path):
    checkpoint = small_checkpoint(tmp_path)
    flags = ("--max-model-len=256", "--max-batch=1")
    one, two = (tools.compile_model(checkpoint, str(tmp_path / name), *flags) for name in "ab")
    assert files_of(one) == files_of(two)
    for name in files_of(one):
        with open(os.path.join(one, name), "rb") as a, open(os.path.join(two, name), "rb") as b:
            assert a.read() == b.read(), f"{name} differs between two compilations"


# --- the other tools

@pytest.mark.parametrize("tool", ("compile-model", "dsv3-run", "dsv3-eval", "dsv3-interpret"))
def test_help_and_nothing(tool):
    assert b"--" in tools.succeed(tool, "--help").stdout
    done = tools.run(tool)
    assert done.returncode == USAGE, f"{tool} without arguments: exit code {done.returncode}"
