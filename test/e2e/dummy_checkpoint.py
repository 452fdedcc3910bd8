"""Writes to disk what --load-format=dummy draws: a second implementation of runtime/core/Dummy.h, in numpy.

Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011).
"""
import json
import math
import os
import struct

import numpy as np

import make_checkpoint
from safetensors_np import E4M3

U32 = np.uint64(0xffffffff)


def key_of(name):
    h = 0xcbf29ce484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001b3 % 2 ** 64
    return h


def blocks(name, count):
    """Four words for each index: [4, count] of uint64."""
    key = key_of(name)
    index = np.arange(count, dtype=np.uint64)
    c = [index & U32, index >> np.uint64(32), np.zeros_like(index), np.zeros_like(index)]
    k = [key & 0xffffffff, key >> 32]
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), p1 & U32, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), p0 & U32]
        k = [(k[0] + 0x9E3779B9) % 2 ** 32, (k[1] + 0xBB67AE85) % 2 ** 32]
    return np.stack(c)


def normal(name, count):
    return ((blocks(name, count).sum(0).astype(np.float64) * 2.0 ** -32 - 2.0) * 1.7320508075688772).astype(np.float32)


def to_bf16(x):
    u = x.view(np.uint32)
    return ((u + 0x7fff + ((u >> 16) & 1)) >> 16).astype("<u2")


def to_e4m3(x):
    """Nearest code, ties to the even one; nothing drawn exceeds the largest."""
    sizes = E4M3[:127].astype(np.float64)
    size = np.abs(x).astype(np.float64)
    high = np.clip(np.searchsorted(sizes, size), 1, 126)
    low = high - 1
    middle = (sizes[low] + sizes[high]) / 2
    up = (size > middle) | ((size == middle) & (high % 2 == 0))
    return (np.where(up, high, low) | np.where(np.signbit(x), 128, 0)).astype("u1")


def draw(name, dtype, shape, columns, powers_of_two):
    """The bytes of one tensor. `columns`: of the matrix whose scales these are."""
    count = math.prod(shape)
    if name.endswith("_scale_inv"):
        base = 1 / (math.sqrt(columns) * 128)
        word = blocks(name, count)[0]
        if powers_of_two:
            return (2.0 ** round(math.log2(base)) * np.where(word >> np.uint64(31), 1.0, 0.5)).astype("<f4")
        return (base * (0.75 + word.astype(np.float64) * 2.0 ** -33)).astype("<f4")
    n = normal(name, count)
    if dtype == make_checkpoint.FP8:
        return to_e4m3(np.float32(128) * n)
    if len(shape) == 1 and name.endswith(".weight"):
        x = np.float32(1) + np.float32(0.125) * n
    elif len(shape) == 1:
        x = np.float32(0.03125) * n
    else:
        x = np.float32(1 if name.endswith("embed_tokens.weight") else 1 / math.sqrt(shape[1])) * n
    return to_bf16(x) if dtype == make_checkpoint.BF16 else x.astype("<f4")


def write(config, folder):
    """A checkpoint folder for `config`, without what an MTP module shares with the model."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    quantisation = config.get("quantization_config")
    mtp = config.get("num_nextn_predict_layers", 0)
    head, offset, data, shapes = {}, 0, [], {}
    for name, dtype, shape in make_checkpoint.tensors(config, mtp > 0, not quantisation):
        if int((name.split("layers.") + ["-1"])[1].split(".")[0]) >= config["num_hidden_layers"] and ("embed_tokens" in name or "shared_head.head" in name):
            continue
        shapes[name] = shape
        columns = shapes.get(name.removesuffix("_scale_inv"), shape)[-1]
        raw = draw(name, dtype, shape, columns, bool(quantisation) and quantisation.get("scale_fmt") == "ue8m0").tobytes()
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
        data.append(raw)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(data))
