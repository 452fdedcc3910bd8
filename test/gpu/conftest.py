"""Fixtures of the tests that need a GPU. DSV3_GPU names the folder that prepare.py made; without it they are skipped."""
import os
import sys

import numpy as np
import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "e2e")]

pytest.register_assert_rewrite("tools", "same_bits")

import contract  # noqa: E402
import safetensors_np  # noqa: E402

FOLDER = os.environ.get("DSV3_GPU")


def pytest_collection_modifyitems(items):
    if not FOLDER:
        for item in items:
            item.add_marker(pytest.mark.skip(reason="DSV3_GPU does not name the folder of prepare.py"))


def artifact_or_skip(name):
    path = os.path.join(FOLDER, name + ".dsv3")
    if not os.path.isdir(path):
        pytest.skip(f"{path} was not carried")
    return path


@pytest.fixture(scope="session")
def bf16():
    return artifact_or_skip("bf16")


@pytest.fixture(scope="session")
def bf16_experts():
    return artifact_or_skip("bf16-experts")


@pytest.fixture(scope="session")
def kv8():
    return artifact_or_skip("kv8")


@pytest.fixture(scope="session")
def fp8_block():
    return artifact_or_skip("fp8-block")


@pytest.fixture(scope="session")
def w4a8_fp8():
    return artifact_or_skip("w4a8-fp8")


@pytest.fixture(scope="session")
def goldens():
    return safetensors_np.load(contract.GOLDENS + ".safetensors")


@pytest.fixture(scope="session")
def w8a8_goldens():
    return safetensors_np.load(contract.GOLDENS + "_w8a8.safetensors")


@pytest.fixture(scope="session")
def reference():
    """float32 logits of the x86 target, by text."""
    return {k: v.astype(np.float32) for k, v in np.load(os.path.join(FOLDER, "reference.npz")).items()}
