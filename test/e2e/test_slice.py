"""dsv3-bench slice on the CPU: what checks a full-width slice on a GPU, here on a narrow model.

Every launch of prefill and decode steps must be as the reference has it, and a change of one number must be seen."""
import json
import os
import shutil

import pytest

import contract
import tools
from contract import OK, UNSUPPORTED, USAGE
from test_dummy_weights import CONFIGS

STEPS = ("--step=prefill:0+130", "--step=prefill:100+30/0+7/64+1", "--step=decode:1x200", "--step=decode:5@256")
FLAGS = ("--load-format=dummy", "--op-list", "--cpu-features=avx2", "--max-batch=5", "--max-model-len=256")


@pytest.fixture(scope="module", params=("fp8", "bf16"))
def artifact(request, artifacts, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slice")
    (folder / "config.json").write_text(json.dumps(CONFIGS[request.param]))
    return artifacts.get(str(folder), *FLAGS)


def run_slice(artifact, out, *flags):
    done = tools.run("dsv3-bench", "slice", artifact, "--device=cpu", "--check", "--samples=5", f"--json={out}", *STEPS, *flags)
    with open(out) as f:
        return done, json.load(f)


def test_every_launch_is_as_the_reference_has_it(artifact, tmp_path):
    done, report = run_slice(artifact, tmp_path / "slice.json")
    assert done.returncode == OK, done.stdout.decode()[-3000:]
    assert b"every launch is as the reference has it" in done.stdout
    assert report["weight_bytes_compared"] > 1000
    assert len(report["steps"]) == len(STEPS)
    seen = set()
    for step in report["steps"]:
        for launch in step["launches"]:
            assert launch["rows"] > 0, f"{step['step']} {launch['site']} was not compared"
            seen.add(launch["op"])
    assert {"attn_prefill", "attn_decode", "kv_append", "kv_expand", "grouped_gated_gemm", "grouped_gemm", "combine", "route", "dispatch"} <= seen


@pytest.mark.parametrize("op, key, value", [("norm", "eps", 0.1), ("attn_decode", "scale", 0.1), ("rope", "theta", 9000.0), ("route", "top", 1)])
def test_another_number_is_seen(artifact, tmp_path, op, key, value):
    """The reference is told something else than what was compiled."""
    shutil.copytree(artifact, tmp_path / "a.dsv3")
    path = os.path.join(tmp_path, "a.dsv3", "code", "x86-64", "ops.json")
    with open(path) as f:
        ops = json.load(f)
    for program in ops["programs"]:
        for launch in program["ops"]:
            if launch["op"] == op:
                launch["attributes"][key] = value
    with open(path, "w") as f:
        json.dump(ops, f)
    done, report = run_slice(str(tmp_path / "a.dsv3"), tmp_path / "slice.json")
    assert done.returncode == 1
    wrong = {launch["op"] for step in report["steps"] for launch in step["launches"] if launch.get("problem")}
    assert wrong == {op}, "only the launches that were told wrong"


def test_refusals(artifact):
    tools.refuse(UNSUPPORTED, ["expected a GPU"], "dsv3-bench", "slice", artifact, "--device=cpu", "--time", "--step=decode:1x3")
    tools.refuse(USAGE, ["--step", "decode:"], "dsv3-bench", "slice", artifact, "--device=cpu", "--step=decode:0x3")
    tools.refuse(UNSUPPORTED, ["no program"], "dsv3-bench", "slice", artifact, "--device=cpu", "--check", "--step=decode:6x3")
