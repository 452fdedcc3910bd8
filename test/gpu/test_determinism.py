"""The same request gives the same bits: alone, among 63 others of mixed lengths, in every bucket."""
import random

import pytest

import tools

CUDA = "--device=cuda"
LENGTHS = (1, 2, 15, 16, 17, 63, 64, 65, 127, 128, 129, 511, 512, 513, 900, 1500, 4000)
NEW_TOKENS = 8


def prompt_of(goldens, length, salt):
    """A text of `length` tokens that starts differently for every salt."""
    long = goldens["long.input_ids"].tolist()
    at = 1 + 13 * salt % (len(long) - 1)
    return ([0] + (long[at:] + long[1:] * 5))[:length]


@pytest.fixture(scope="module")
def alone(bf16, goldens):
    done = {}

    def get(length, salt):
        if (length, salt) not in done:
            ids = prompt_of(goldens, length, salt)
            result, tensors, _ = tools.forward(bf16, ids, CUDA, max_tokens=NEW_TOKENS)
            done[length, salt] = result, tensors["logits"]
        return done[length, salt]
    return get


def check(bf16, goldens, alone, requests, judged, *flags):
    results, tensors = tools.batch(
        bf16, [{"ids": prompt_of(goldens, *r), "max_tokens": NEW_TOKENS} for r in requests], CUDA, *flags)
    for i in judged:
        want, logits = alone(*requests[i])
        assert results[i]["ids"] == want["ids"], f"request {requests[i]}: tokens differ"
        assert results[i]["logprobs"] == want["logprobs"], f"request {requests[i]}: log probabilities differ in bits"
        if f"logits.{i}" in tensors:
            tools.assert_same_bits(tensors[f"logits.{i}"], logits, f"request {requests[i]}")


@pytest.mark.parametrize("order", range(2))
def test_among_63_others(bf16, goldens, alone, order):
    rng = random.Random(order)
    requests = [(LENGTHS[i % len(LENGTHS)], i % 5) for i in range(64)]
    rng.shuffle(requests)
    check(bf16, goldens, alone, requests, range(0, 64, 7))


def test_every_bucket(bf16, goldens, alone):
    buckets = sorted({p["seqs"] for p in tools.manifest(bf16)["targets"][0]["programs"] if p["phase"] == "decode"})
    assert buckets[-1] >= 64, f"decode buckets {buckets}"
    for bucket in buckets:
        check(bf16, goldens, alone, ([(65, 1), (900, 2)] + [(17, i) for i in range(bucket)])[:bucket], range(min(bucket, 2)))


@pytest.mark.parametrize("chunk", (16, 100, 256))
def test_any_prefill_chunk(bf16, goldens, alone, chunk):
    check(bf16, goldens, alone, [(900, 2)], [0], f"--prefill-chunk={chunk}")
