"""Fixtures of the end to end tests. Everything slow happens once a session, on first use."""
import json
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

pytest.register_assert_rewrite("tools")

import contract  # noqa: E402
import safetensors_np  # noqa: E402
import tools  # noqa: E402

SIZES = (f"--max-model-len={contract.MAX_MODEL_LEN}", f"--max-batch={contract.MAX_BATCH}")


@pytest.fixture(scope="session")
def artifacts(tmp_path_factory):
    return tools.Artifacts(str(tmp_path_factory.mktemp("artifacts")))


@pytest.fixture(scope="session")
def tiny_f32(artifacts):
    return artifacts.get(contract.TINY, "--dtype=f32", *SIZES)


@pytest.fixture(scope="session")
def tiny_bf16(artifacts):
    return artifacts.get(contract.TINY, "--dtype=bf16", *SIZES)


@pytest.fixture(scope="session")
def tiny_f32_taps(artifacts):
    return artifacts.get(contract.TINY, "--dtype=f32", "--taps=" + contract.TAPS, *SIZES)


@pytest.fixture(scope="session")
def tiny(request):
    """The artifact of a dtype, compiled only when asked for."""
    return lambda dtype: request.getfixturevalue(f"tiny_{dtype}")


@pytest.fixture(scope="session")
def goldens():
    """Tensors of goldens_fp8.safetensors."""
    return safetensors_np.load(contract.GOLDENS + ".safetensors")


@pytest.fixture(scope="session")
def golden_texts():
    """The json beside them: texts, greedy_text, argmax_ids per prompt."""
    with open(contract.GOLDENS + ".json", encoding="utf-8") as f:
        return json.load(f)


@pytest.fixture(scope="session")
def golden_runs(tiny_f32, goldens):
    """name -> (json object, logits [T, V]) of a golden prompt and its 64 greedy tokens in float32, each run once."""
    done = {}

    def get(name):
        if name not in done:
            ids = goldens[f"{name}.input_ids"]
            result, tensors, _ = tools.forward(tiny_f32, ids, max_tokens=contract.GREEDY_TOKENS)
            done[name] = result, tensors["logits"]
        return done[name]
    return get
