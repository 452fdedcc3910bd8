"""Running the product's tools and reading what they write."""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile

import numpy as np

import contract
import safetensors_np

TIMEOUT = 600


def path_of(tool):
    path = os.path.join(contract.BIN, tool)
    assert os.access(path, os.X_OK), f"expected the program {path}: build it, or set DSV3_BIN to its folder"
    return path


def run(tool, *args, timeout=TIMEOUT):
    """The finished process, output as bytes. A tool killed by a signal is never right."""
    command = [path_of(tool), *map(str, args)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)
    assert done.returncode >= 0, f"{tool} died of signal {-done.returncode}: {said(done)}"
    return done


def said(done):
    """The end of what a process wrote to stderr."""
    return done.stderr[-2000:].decode(errors="replace")


def succeed(tool, *args, timeout=TIMEOUT):
    done = run(tool, *args, timeout=timeout)
    assert done.returncode == contract.OK, \
        f"{tool} {' '.join(map(str, args))[:300]}: exit code {done.returncode}: {said(done)}"
    return done


def refuse(codes, mentions, tool, *args, timeout=TIMEOUT):
    """The tool must refuse with one of `codes` and one line that contains every word of `mentions`."""
    codes = (codes,) if isinstance(codes, int) else codes
    done = run(tool, *args, timeout=timeout)
    text = done.stderr.decode()
    assert done.returncode in codes, f"expected exit code {codes}, got {done.returncode}: {text[-2000:]}"
    lines = [line for line in text.splitlines() if line.strip()]
    assert len(lines) == 1, f"expected a one-line error, got {len(lines)} lines: {text[-2000:]}"
    for word in (mentions,) if isinstance(mentions, str) else mentions:
        assert word.lower() in lines[0].lower(), f"expected the error to mention '{word}', got: {lines[0]}"
    return lines[0]


def compile_model(checkpoint, out, *flags, timeout=TIMEOUT):
    succeed("compile-model", checkpoint, "-o", out, *flags, timeout=timeout)
    return out


class Artifacts:
    """Compiled artifacts of this session. With DSV3_E2E_CACHE they stay there for the next one,
    as long as the compiler and the checkpoint do not change."""

    def __init__(self, folder):
        self.folder = os.environ.get("DSV3_E2E_CACHE", folder)
        os.makedirs(self.folder, exist_ok=True)

    def get(self, checkpoint, *flags):
        key = hashlib.sha256(repr((flags, self.stamp(checkpoint))).encode()).hexdigest()[:16]
        out = os.path.join(self.folder, key + ".dsv3")
        if not os.path.exists(os.path.join(out, "manifest.json")):
            compile_model(checkpoint, out, *flags)
        return out

    @staticmethod
    def stamp(checkpoint):
        files = [path_of("compile-model")] + [os.path.join(checkpoint, f) for f in sorted(os.listdir(checkpoint))]
        return [(f, os.stat(f).st_size, os.stat(f).st_mtime_ns) for f in files]


def ids_flag(ids):
    return "--ids=" + ",".join(str(int(i)) for i in ids)


def generate(artifact, *flags):
    """One request with --json: the object it prints."""
    return json.loads(succeed("dsv3-run", artifact, "--json", *flags).stdout)


def forward(artifact, ids, *flags, taps=False, max_tokens=1):
    """Run ids; returns (json object, {name: array} of --logits-out, and of --taps-out or None)."""
    with tempfile.TemporaryDirectory() as folder:
        logits, states = os.path.join(folder, "logits"), os.path.join(folder, "taps")
        extra = ["--taps-out", states] if taps else []
        result = generate(artifact, ids_flag(ids), "--max-tokens", max_tokens, "--ignore-eos", "--logits-out", logits,
                          *extra, *flags)
        return result, safetensors_np.load(logits), safetensors_np.load(states) if taps else None


def batch(artifact, requests, *flags):
    """Run all requests (dicts: ids or prompt or chat, max_tokens, ...) together.

    --json prints one object a line, each with the `index` of its request; --logits-out holds
    `logits.INDEX`. Returns the objects in request order and the tensors."""
    with tempfile.TemporaryDirectory() as folder:
        source, logits = os.path.join(folder, "batch.jsonl"), os.path.join(folder, "logits")
        with open(source, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in requests)
        done = succeed("dsv3-run", artifact, "--batch", source, "--json", "--logits-out", logits, "--ignore-eos",
                       *flags)
        results = [json.loads(line) for line in done.stdout.splitlines() if line.strip()]
        assert sorted(r["index"] for r in results) == list(range(len(requests)))
        tensors = safetensors_np.load(logits) if os.path.exists(logits) else {}
        return sorted(results, key=lambda r: r["index"]), tensors


def interpret(checkpoint, ids, folder):
    """The reference's float32 logits [T, V]: dsv3-interpret walks the imported program. All knowledge of its flags is here."""
    with tempfile.TemporaryDirectory(dir=folder) as work:
        dump, out = os.path.join(work, "dump"), os.path.join(work, "logits.safetensors")
        compile_model(checkpoint, os.path.join(work, "none.dsv3"), "--dtype=f32", "--stop-after=import",
                      "--dump-after=import", f"--dump-dir={dump}")
        succeed("dsv3-interpret", os.path.join(dump, "import.mlir"), "--program=trunk_head",
                f"--checkpoint={checkpoint}", ids_flag(ids), f"--logits-out={out}")
        return safetensors_np.load(out)["logits"]


def manifest(artifact):
    with open(os.path.join(artifact, "manifest.json")) as f:
        return json.load(f)


def with_bad_token(artifact, folder, token):
    """A copy of a bf16 or f32 artifact of one target where the embedding of `token` is NaN."""
    copy = os.path.join(str(folder), "bad-token.dsv3")
    shutil.copytree(artifact, copy)
    weights = manifest(copy)["targets"][0]["weights"]
    embed = next(w for w in weights["tensors"] if w["name"] == "embed")
    assert embed["scheme"] == "bf16"
    row = embed["shape"][1] * 2
    with open(os.path.join(copy, weights["file"]), "r+b") as f:
        f.seek(embed["offset"] + token * row)
        f.write(b"\xc0\x7f" * (row // 2))
    return copy


def bits(array):
    """float32 as integers: equal bits, not merely equal values."""
    return np.ascontiguousarray(array, dtype=np.float32).view(np.uint32)


def assert_same_bits(a, b, what):
    assert a.shape == b.shape, f"{what}: shape {a.shape} against {b.shape}"
    differing = np.argwhere(bits(a) != bits(b))
    assert not len(differing), \
        f"{what}: {len(differing)} of {a.size} values differ in bits, first at {tuple(differing[0])}: " \
        f"{a[tuple(differing[0])]!r} against {b[tuple(differing[0])]!r}"


def assert_close(got, want, tolerance, what):
    assert got.shape == want.shape, f"{what}: expected shape {want.shape}, got {got.shape}"
    assert np.isfinite(got).all(), f"{what}: not finite"
    error = np.abs(got.astype(np.float64) - want)
    worst = np.unravel_index(error.argmax(), error.shape) if error.size else ()
    assert error.size == 0 or error.max() <= tolerance, \
        f"{what}: off by {error.max():.2e} at {tuple(map(int, worst))}, allowed {tolerance:.2e}"


def assert_top_close(logits, ids, values, tolerance, what):
    """The stored best values, at their ids and as the best that we have."""
    assert_close(np.take_along_axis(logits, ids.astype(np.int64), -1), values, tolerance, f"{what} at the stored ids")
    best = -np.sort(-logits, -1)[:, :values.shape[1]]
    assert_close(best, values, tolerance, f"{what}, our own best")


def sorted_choices(ids, weights=None):
    """Experts of each row in id order (the order within a row means nothing), weights along."""
    order = np.argsort(ids, -1)
    ids = np.take_along_axis(ids, order, -1)
    return ids if weights is None else (ids, np.take_along_axis(weights, order, -1))
