"""Quantised checkpoints as others publish them, against the same numbers dequantised by numpy and stored as float32.

Each format of quantize_checkpoint.py is the example model rewritten. Reading is exact, so that everything that follows has
the same bits: logits of the reference for every format, logits of the compiled model for one of each packing.
"""
import os
import shutil

import numpy as np
import pytest

import contract
import quantize_checkpoint
import tools

IDS = (0, 17, 3000, 5, 512, 77, 1999)
SIZES = ("--max-model-len=128", "--max-batch=2")
# One of each packing that x86 dequantises when it packs weights.
COMPILED = ("int8-zeros", "int4-actorder", "awq", "gptq", "slimquant")


class Converted:
    def __init__(self, name, folder):
        self.name = name
        quantize_checkpoint.convert(contract.TINY, folder, name)
        self.quantised, self.plain = (os.path.join(folder, f) for f in ("quantised", "plain"))
        self.work = folder


@pytest.fixture(scope="module")
def converted(request, tmp_path_factory):
    folder = str(tmp_path_factory.mktemp(request.param))
    yield Converted(request.param, folder)
    shutil.rmtree(folder)  # 100 MB each


@pytest.mark.parametrize("converted", quantize_checkpoint.FORMATS, indirect=True)
def test_reference_computes_the_same_bits(converted):
    got = tools.interpret(converted.quantised, IDS, converted.work)
    want = tools.interpret(converted.plain, IDS, converted.work)
    tools.assert_same_bits(got, want, f"{converted.name}: logits")
    original = tools.interpret(contract.TINY, IDS, converted.work)
    assert (tools.bits(got) != tools.bits(original)).any(), "the format changed no number: the test says nothing"


def compile_with_output(checkpoint, out, *flags):
    done = tools.succeed("compile-model", checkpoint, "-o", out, *SIZES, *flags)
    return done.stderr.decode()


@pytest.mark.parametrize("converted", COMPILED, indirect=True)
def test_compiled_model_computes_the_same_bits(converted, tmp_path):
    logits = []
    for name in ("quantised", "plain"):
        out = str(tmp_path / name)
        said = compile_with_output(getattr(converted, name), out, "--dtype=bf16")
        assert ("dequantised for x86-64" in said) == (name == "quantised"), said
        logits.append(tools.forward(out, IDS)[1]["logits"])
    tools.assert_same_bits(*logits, f"{converted.name}: logits of the artifact")


@pytest.mark.parametrize("converted", [f for f in quantize_checkpoint.FORMATS if f.startswith("fp8")], indirect=True)
def test_fp8_stays_fp8(converted, tmp_path):
    """The x86 kernels read FP8 with a scale per row, block or tensor: the codes are packed as they are, and multiplied in the
    GEMM. Only the absorbed key half of kv_b, whose rows become columns, is dequantised where scales are per row."""
    out = str(tmp_path / "artifact")
    said = compile_with_output(converted.quantised, out, "--dtype=f32")
    assert "1x?" not in said and ("?x1" in said) == (converted.name == "fp8-channel"), said
    logits = tools.forward(out, IDS)[1]["logits"]
    tools.assert_close(logits, tools.interpret(converted.quantised, IDS, converted.work), contract.LOGIT_TOLERANCE, converted.name)


def test_codes_of_every_kind_occur():
    """The converter itself: the smallest codes, an all-zero row, zero points, permuted groups."""
    w = np.random.RandomState(1).standard_normal((16, 300)).astype(np.float32)
    w[quantize_checkpoint.ZERO_ROW] = 0
    symmetric = quantize_checkpoint.integers(w, 4, 96)
    assert symmetric.codes.min() == -8 and symmetric.codes.max() == 7 and symmetric.scale.shape == (16, 4)
    assert not symmetric.values()[quantize_checkpoint.ZERO_ROW].any()
    asymmetric = quantize_checkpoint.integers(w, 4, 96, np.float16, zeros=True, rng=np.random.RandomState(2))
    assert len(np.unique(asymmetric.zero)) > 3 and (np.diff(asymmetric.groups) < 0).any()
    assert np.abs(asymmetric.values() - w).max() < 0.6 * asymmetric.scale.max()
    words = quantize_checkpoint.words(np.arange(10)[None] % 16, 4, 1)
    assert words.view("<u4").tolist() == [[0x76543210, 0x98]]
