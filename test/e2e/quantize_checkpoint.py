#!/usr/bin/env python3
"""Rewrite a checkpoint (native FP8 or plain) in a quantised format that others publish, and beside it the same numbers plain.

  quantize_checkpoint.py MODEL_DIR OUT_DIR FORMAT     writes OUT_DIR/quantised and OUT_DIR/plain

Both hold the same values: `plain` stores every linear of the decoder layers as float32, dequantised here with numpy as the
format's own definition says, (code - zero point) * scale in float32. A reader that is right gives the same bits for both.

Layouts: compressed-tensors' pack_to_int32 and QuantizationArgs; AutoAWQ's WQLinear_GEMM; AutoGPTQ's QuantLinear.pack (its
first format stores zero points less one); SlimQuant W4A8 as published for DeepSeek. Codes and scales live in different shards. Rounding is to
nearest with an absmax or min-max range: this is a test of reading, not of quantising well.
"""
import json
import os
import shutil
import struct
import sys

import numpy as np

import safetensors_np

F16, F32, I8, I32, I64, FP8 = "F16", "F32", "I8", "I32", "I64", "F8_E4M3"
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
ZERO_ROW = 3  # of every linear that has more rows: all zeros


# ---- quantising a matrix [N, K] -------------------------------------------------------------------------------

class Matrix:
    """Codes [N, K] as signed integers (or E4M3 values), a scale and a zero point per row and group, the group of each column."""

    def __init__(self, codes, scale, zero, groups):
        self.codes, self.scale, self.zero, self.groups = codes, scale, zero, groups

    def values(self):
        scale = self.scale.astype(np.float32)[:, self.groups]
        if self.zero is None:
            return self.codes.astype(np.float32) * scale
        return (self.codes - self.zero[:, self.groups]).astype(np.float32) * scale


def group_index(k, group, rng=None):
    """The group of each column: in order, or of a random order of columns (act_order)."""
    index = np.arange(k) // (group or k)
    return index if rng is None else index[np.argsort(rng.permutation(k))]


def per_group(w, groups, reduce):
    return np.stack([reduce(w[:, groups == g], 1) for g in range(groups.max() + 1)], 1)


def integers(w, bits, group, scale_type=np.float32, zeros=False, rng=None, lowest_zero=None, zero_scale=1.0):
    """Integer codes. Symmetric ranges are cut so that the smallest code, -2^(b-1), occurs."""
    half, groups = 1 << (bits - 1), group_index(w.shape[1], group, rng)
    if zeros:
        low, high = np.minimum(per_group(w, groups, np.min), 0), np.maximum(per_group(w, groups, np.max), 0)
        scale = ((high - low) / (2 * half - 1)).astype(scale_type)
        scale[scale == 0] = 1
        zero = np.rint(-half - low / scale.astype(np.float32)).astype(np.int64).clip(-half if lowest_zero is None else lowest_zero, half - 1)
    else:
        scale, zero = (per_group(np.abs(w), groups, np.max) / (half - 0.5)).astype(scale_type), None
        scale[scale == 0] = zero_scale
    wide = scale.astype(np.float32)[:, groups]
    codes = np.rint(np.divide(w, wide, out=np.zeros_like(w), where=wide != 0)).astype(np.int64)
    if zeros:
        codes += zero[:, groups]
    codes = codes.clip(-half, half - 1)
    return Matrix(codes, scale, zero, groups)


def e4m3_codes(x):
    """Nearest E4M3 codes, saturating at 448."""
    table = safetensors_np.E4M3[:127]
    code = np.searchsorted((table[1:] + table[:-1]) / 2, np.abs(x)).astype("u1")
    return code | ((x < 0).astype("u1") << 7)


def fp8(w, rows, cols, scale_type=np.float32):
    """E4M3 with a scale per block; 0 is the whole dim. Returns bytes, scales [grid] and values."""
    n, k = w.shape
    rows, cols = rows or n, cols or k
    padded = np.zeros((-(-n // rows) * rows, -(-k // cols) * cols), np.float32)
    padded[:n, :k] = w
    blocks = padded.reshape(len(padded) // rows, rows, -1, cols)
    scale = (np.abs(blocks).max((1, 3)) / 448).astype(scale_type)
    scale[scale == 0] = 1
    wide = scale.astype(np.float32).repeat(rows, 0).repeat(cols, 1)[:n, :k]
    code = e4m3_codes(w / wide)
    return code, scale, safetensors_np.E4M3[code] * wide


# ---- packing ----------------------------------------------------------------------------------------------------

def words(codes, bits, axis, order=None):
    """Unsigned codes to int32 along an axis, the first in the lowest bits; the last word is filled with zeros."""
    codes, per = np.moveaxis(np.asarray(codes), axis, -1), 32 // bits
    codes = np.concatenate([codes, np.zeros(codes.shape[:-1] + (-codes.shape[-1] % per,), codes.dtype)], -1)
    codes = codes.reshape(codes.shape[:-1] + (-1, per))
    assert codes.min() >= 0 and codes.max() < 1 << bits
    if order:
        codes = codes[..., order]
    packed = (codes.astype(np.uint64) << (np.arange(per, dtype=np.uint64) * np.uint64(bits))).sum(-1).astype("<u4").view("<i4")
    return np.moveaxis(packed, -1, axis)


def numbers(array, dtype):
    kind = {F16: "<f2", F32: "<f4", I8: "i1", I32: "<i4", I64: "<i8", FP8: "u1"}[dtype]
    array = np.ascontiguousarray(array).astype(kind)
    return dtype, array.shape, array.tobytes()


def compressed_fp8(rows, cols, scale_type=np.float32, dtype=F32, shape=None):
    def linear(name, w, rng):
        code, scale, values = fp8(w, rows, cols, scale_type)
        scale = scale.reshape(shape) if shape else scale
        return {"weight": numbers(code, FP8), "weight_scale": numbers(scale, dtype)}, values
    return linear


def compressed_int8(zeros=False, group=0):
    def linear(name, w, rng):
        m = integers(w, 8, group, zeros=zeros, zero_scale=0.0)
        parts = {"weight": numbers(m.codes, I8), "weight_scale": numbers(m.scale, F32)}
        if zeros:
            parts["weight_zero_point"] = numbers(m.zero, I8)
        return parts, m.values()
    return linear


def compressed_packed(bits, group, zeros=False, actorder=False):
    half = 1 << (bits - 1)

    def linear(name, w, rng):
        m = integers(w, bits, group, np.float16, zeros, rng if actorder else None)
        parts = {"weight_packed": numbers(words(m.codes + half, bits, 1), I32), "weight_scale": numbers(m.scale, F16),
                 "weight_shape": numbers(np.array(w.shape), I64)}
        if zeros:
            parts["weight_zero_point"] = numbers(words(m.zero + half, bits, 0), I32)
        if actorder:
            parts["weight_g_idx"] = numbers(m.groups, I32)
        return parts, m.values()
    return linear


def awq(name, w, rng):
    m = integers(w, 4, 128, np.float16, True)
    return {"qweight": numbers(words((m.codes + 8).T, 4, 1, AWQ_ORDER), I32), "scales": numbers(m.scale.T, F16),
            "qzeros": numbers(words((m.zero + 8).T, 4, 1, AWQ_ORDER), I32)}, m.values()


def signed(w, group):
    """4 bits whose full range is used: the largest number of a group is the code -8, so that scales have a sign (AutoRound)."""
    groups = group_index(w.shape[1], group)
    low, high = per_group(w, groups, np.min), per_group(w, groups, np.max)
    scale = (np.where(high > -low, -high, -low) / 8).astype(np.float16)
    scale[scale == 0] = 1
    assert (scale < 0).any() and (scale > 0).any()
    return Matrix(np.rint(w / scale.astype(np.float32)[:, groups]).astype(np.int64).clip(-8, 7), scale, None, groups)


def autoround(name, w, rng):
    """As GPTQ stores symmetric weights."""
    m = signed(w, 128)
    zero = np.zeros(m.scale.shape, np.int64)
    return {"qweight": numbers(words((m.codes + 8).T, 4, 0), I32), "scales": numbers(m.scale.T, F16),
            "qzeros": numbers(words((zero + 7).T, 4, 1), I32), "g_idx": numbers(m.groups, I32)}, m.values()


def gptq(bits, group, version, zeros=True, desc_act=False):
    half = 1 << (bits - 1)

    def linear(name, w, rng):
        # The first format stores one less, and has no place for a zero point of 0.
        m = integers(w, bits, group, np.float16, zeros, rng if desc_act else None, 1 - half if version == 1 else None)
        zero = np.zeros(m.scale.shape, np.int64) if m.zero is None else m.zero
        return {"qweight": numbers(words((m.codes + half).T, bits, 0), I32), "scales": numbers(m.scale.T, F16),
                "qzeros": numbers(words((zero + half - (version == 1)).T, bits, 1), I32), "g_idx": numbers(m.groups, I32)}, m.values()
    return linear


def slimquant(name, w, rng):
    if ".mlp.experts." not in name:
        return compressed_int8()(name, w, rng)
    m = integers(w, 4, 0, zero_scale=0.0)
    nibbles = (m.codes & 15).astype("u1")
    return {"weight": numbers((nibbles[:, 0::2] << 4 | nibbles[:, 1::2]).view("i1"), I8),
            "weight_scale": numbers(m.scale / np.float32(16), F32)}, m.values()


# ---- formats ----------------------------------------------------------------------------------------------------

def compressed(fmt, weights, inputs=None, ignore=()):
    return {"quant_method": "compressed-tensors", "format": fmt, "quantization_status": "compressed", "kv_cache_scheme": None,
            "ignore": ["lm_head", "re:.*eh_proj", *ignore], "global_compression_ratio": None,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"dynamic": False, "symmetric": True, **weights},
                                          "input_activations": inputs, "output_activations": None}}}


def gptq_config(bits, group, sym, desc_act, version):
    return {"quant_method": "gptq", "bits": bits, "group_size": group, "sym": sym, "desc_act": desc_act, "damp_percent": 0.01,
            "true_sequential": True, **({"checkpoint_format": "gptq_v2"} if version == 2 else {})}


FP8_ARGS = {"num_bits": 8, "type": "float"}
TOKEN = {"dynamic": True, "symmetric": True, "strategy": "token"}
# The MTP layer, and a fused name as engines write it.
KEPT = ["re:.*\\.layers\\.6\\..*", "model.layers.0.mlp.gate_up_proj"]
KEPT_PLAIN = ("model.layers.6.", "model.layers.0.mlp.gate_proj", "model.layers.0.mlp.up_proj")

# name: (quantization_config, linear, prefixes of linears that stay plain)
FORMATS = {
    "fp8-channel": (compressed("float-quantized", {**FP8_ARGS, "strategy": "channel"}, {**FP8_ARGS, **TOKEN}),
                    compressed_fp8(1, 0, np.float16, F16), ()),
    "fp8-tensor": (compressed("float-quantized", {**FP8_ARGS, "strategy": "tensor"}), compressed_fp8(0, 0, shape=(1,)), ()),
    "fp8-block": (compressed("float-quantized", {**FP8_ARGS, "strategy": "block", "block_structure": [128, 128]}),
                  compressed_fp8(128, 128), ()),
    "int8": (compressed("int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, {"num_bits": 8, "type": "int", **TOKEN}),
             compressed_int8(), ()),
    "int8-zeros": (compressed("int-quantized", {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 96, "symmetric": False}),
                   compressed_int8(True, 96), ()),
    "int4-g128": (compressed("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}, ignore=KEPT),
                  compressed_packed(4, 128), KEPT_PLAIN),
    "int4-channel": (compressed("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "channel"}), compressed_packed(4, 0), ()),
    "int4-zeros": (compressed("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 96, "symmetric": False}),
                   compressed_packed(4, 96, zeros=True), ()),
    "int4-actorder": (compressed("pack-quantized", {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 64, "symmetric": False,
                                                    "actorder": "group"}), compressed_packed(4, 64, zeros=True, actorder=True), ()),
    "int8-packed": (compressed("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "group", "group_size": 128}), compressed_packed(8, 128), ()),
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm",
             "modules_to_not_convert": ["layers.6.", "layers.0.mlp.gate_up_proj"]}, awq, KEPT_PLAIN),
    "gptq": (gptq_config(4, 128, False, False, 1), gptq(4, 128, 1), ()),
    "gptq-symmetric": (gptq_config(4, 96, True, False, 1), gptq(4, 96, 1, zeros=False), ()),
    "gptq-signed": (gptq_config(4, 128, True, False, 1), autoround, ()),
    "gptq-v2-actorder": (gptq_config(4, 64, False, True, 2), gptq(4, 64, 2, desc_act=True), ()),
    "gptq-8bit": (gptq_config(8, -1, False, False, 1), gptq(8, 0, 1), ()),
    "slimquant": ({"quant_method": "slimquant_w4a8", "ignore": ["re:.*\\.layers\\.6\\.self_attn\\..*"]}, slimquant, ("model.layers.6.self_attn.",)),
}


# ---- folders ------------------------------------------------------------------------------------------------------

def raw_tensors(folder):
    """{name: (dtype, shape, bytes)} of all shards."""
    out = {}
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".safetensors"):
            continue
        meta, start = safetensors_np.header(os.path.join(folder, file))
        with open(os.path.join(folder, file), "rb") as f:
            data = f.read()[start:]
        for name, t in meta.items():
            if name != "__metadata__":
                out[name] = t["dtype"], tuple(t["shape"]), data[slice(*t["data_offsets"])]
    return out


def linears(folder):
    """{module: float32 [N, K]} of the linears of decoder layers, dequantised."""
    tensors = {}
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            tensors.update(safetensors_np.load(os.path.join(folder, file)))
    out = {}
    for name, w in tensors.items():
        module = name[:-len(".weight")]
        if not (name.endswith("_proj.weight") or name.endswith("kv_a_proj_with_mqa.weight")) or module.endswith("eh_proj"):
            continue
        scale = tensors.get(name + "_scale_inv")
        if scale is not None:
            w = w * scale.repeat(128, 0).repeat(128, 1)[:w.shape[0], :w.shape[1]]
        w = np.array(w, np.float32)
        if len(w) > ZERO_ROW:
            w[ZERO_ROW] = 0
        out[module] = w
    return out


def write_folder(source, out, config, tensors):
    """Codes and plain tensors in one shard, all other parts of quantised linears in another."""
    os.makedirs(out)
    for file in os.listdir(source):
        if not file.endswith(".safetensors") and file not in ("config.json", "model.safetensors.index.json"):
            shutil.copy(os.path.join(source, file), out)
    shards = [{}, {}]
    for name, tensor in tensors.items():
        shards[name.rsplit(".", 1)[1] not in ("weight", "weight_packed", "qweight", "e_score_correction_bias")][name] = tensor
    weight_map = {}
    for i, shard in enumerate(s for s in shards if s):
        file, head, offset = f"model-{i + 1:05d}.safetensors", {}, 0
        for name, (dtype, shape, data) in shard.items():
            head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(data)]}
            offset += len(data)
            weight_map[name] = file
        blob = json.dumps(head).encode()
        blob += b" " * (-len(blob) % 8)
        with open(os.path.join(out, file), "wb") as f:
            f.write(struct.pack("<Q", len(blob)) + blob)
            f.writelines(data for _, _, data in shard.values())
    with open(os.path.join(out, "model.safetensors.index.json"), "w") as f:
        json.dump({"weight_map": weight_map}, f)
    with open(os.path.join(out, "config.json"), "w") as f:
        json.dump(config, f)


def convert(source, out, name):
    quantization, linear, kept = FORMATS[name]
    with open(os.path.join(source, "config.json")) as f:
        config = json.load(f)
    config.pop("quantization_config", None)
    matrices, rng = linears(source), np.random.RandomState(7)
    rest = {n: t for n, t in raw_tensors(source).items()
            if n.rsplit(".", 1)[0] not in matrices}
    quantised, plain = dict(rest), dict(rest)
    for module, w in matrices.items():
        if kept and module.startswith(tuple(kept)):
            quantised[module + ".weight"] = plain[module + ".weight"] = numbers(w, F32)
            continue
        parts, values = linear(module, w, rng)
        assert values.dtype == np.float32 and np.isfinite(values).all()
        quantised.update({f"{module}.{part}": tensor for part, tensor in parts.items()})
        plain[module + ".weight"] = numbers(values, F32)
    write_folder(source, os.path.join(out, "plain"), config, plain)
    write_folder(source, os.path.join(out, "quantised"), {**config, "quantization_config": quantization}, quantised)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[3] not in FORMATS:
        sys.exit(f"usage: quantize_checkpoint.py MODEL_DIR OUT_DIR FORMAT\n  FORMAT: {' '.join(FORMATS)}")
    convert(*sys.argv[1:])
