"""Read and write safetensors with numpy alone.

bf16 and E4M3, which numpy lacks, are widened to float32 (both exactly) on reading.
"""
import json
import struct

import numpy as np

_PLAIN = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?"}
_NAME = {np.dtype(v): k for k, v in _PLAIN.items()}


def _e4m3_table():
    """All 256 E4M3 codes as float32; 0x7f and 0xff are NaN, there is no infinity."""
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 15, code & 7
    size = np.where(exponent == 0, mantissa * 2.0 ** -9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    size[(code & 127) == 127] = np.nan
    return np.where(code >= 128, -size, size).astype("<f4")


E4M3 = _e4m3_table()


def header(path):
    """The header as a dict, and the offset of the data behind it."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        return json.loads(f.read(n)), 8 + n


def load(path):
    """{name: array}. Every tensor is checked to have the bytes its shape asks for."""
    meta, start = header(path)
    raw = np.fromfile(path, "u1")[start:]
    out = {}
    for name, t in meta.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        data = raw[begin:end]
        if t["dtype"] == "BF16":
            data = (data.view("<u2").astype("<u4") << 16).view("<f4")
        elif t["dtype"] == "F8_E4M3":
            data = E4M3[data]
        else:
            data = data.view(_PLAIN[t["dtype"]])
        assert data.size == int(np.prod(t["shape"])), f"{path}: {name}: {data.size} values for shape {t['shape']}"
        out[name] = data.reshape(t["shape"])
    return out


def save(path, tensors, metadata=None):
    """Write {name: array}; names sorted, so that equal contents give equal bytes."""
    head, offset, blobs = {}, 0, []
    if metadata:
        head["__metadata__"] = metadata
    for name in sorted(tensors):
        a = np.ascontiguousarray(tensors[name])
        head[name] = {"dtype": _NAME[a.dtype], "shape": list(a.shape), "data_offsets": [offset, offset + a.nbytes]}
        offset += a.nbytes
        blobs.append(a.tobytes())
    blob = json.dumps(head, separators=(",", ":")).encode()
    blob += b" " * (-len(blob) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(blob)) + blob + b"".join(blobs))
