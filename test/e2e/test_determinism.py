"""The same request gives the same bits: alone or among others, in any slot, bucket, chunking and thread count.

Compared are the prompt's logits at every position (from the score program), the tokens generated
after it, and their log probabilities as printed, with enough digits to be exact: the first is made
by prefill, the others by decode over the cache that prefill wrote.
"""
import random

import pytest

import contract
import tools

LENGTHS = (1, 63, 64, 65, 900)
NEW_TOKENS = 8
DTYPES = ("f32", "bf16")


@pytest.fixture(scope="module")
def prompts(goldens):
    """Prompts of every length around a page boundary, different texts, and one from the goldens."""
    long = goldens["long.input_ids"].tolist()
    cut = {n: [0] + (long[1 + 97 * i:] + long[1:])[:n - 1] for i, n in enumerate(LENGTHS)}
    assert all(len(ids) == n for n, ids in cut.items())
    return {**cut, "arith": goldens["arith.input_ids"].tolist()}


@pytest.fixture(scope="module")
def alone(tiny, prompts):
    """(dtype, prompt) -> (json object, logits) of the request on its own, with the defaults."""
    done = {}

    def get(dtype, name):
        if (dtype, name) not in done:
            result, tensors, _ = tools.forward(tiny(dtype), prompts[name], max_tokens=NEW_TOKENS)
            done[dtype, name] = result, tensors["logits"]
        return done[dtype, name]
    return get


def assert_same(result, logits, reference, what):
    want, want_logits = reference
    if logits is not None:
        tools.assert_same_bits(logits, want_logits, what)
    assert len(want["ids"]) == NEW_TOKENS
    assert result["ids"] == want["ids"], f"{what}: tokens differ"
    assert result["logprobs"] == want["logprobs"], f"{what}: log probabilities differ in bits"


def check_batch(artifact, dtype, names, prompts, alone, what):
    requests = [{"ids": prompts[name], "max_tokens": NEW_TOKENS} for name in names]
    results, tensors = tools.batch(artifact, requests)
    for i, name in enumerate(names):
        assert_same(results[i], tensors.get(f"logits.{i}"), alone(dtype, name), f"{what}: request {i} (prompt {name})")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", range(4))
def test_among_others_in_any_slot(tiny, prompts, alone, dtype, order):
    names = list(prompts)
    random.Random(order).shuffle(names)
    check_batch(tiny(dtype), dtype, names, prompts, alone, f"order {names}")


def decode_buckets(artifact):
    """How many sequences a decode program has room for, for each of them."""
    return sorted({p["seqs"] for p in tools.manifest(artifact)["targets"][0]["programs"] if p["phase"] == "decode"})


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_batch_bucket(tiny, prompts, alone, dtype):
    artifact = tiny(dtype)
    buckets = decode_buckets(artifact)
    assert buckets and buckets[-1] >= contract.MAX_BATCH, f"decode buckets {buckets}"
    short = [name for name in prompts if name != 900]
    for bucket in buckets:
        names = (["arith"] + short * bucket)[:bucket]
        check_batch(artifact, dtype, names, prompts, alone, f"bucket of {bucket}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_more_requests_than_the_plan_has_room_for(tiny, prompts, alone, dtype):
    """They wait their turn; that changes no bit either."""
    names = [name for name in prompts if name != 900] * 4
    assert len(names) > contract.MAX_BATCH
    check_batch(tiny(dtype), dtype, names, prompts, alone, "waiting requests")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name,chunk", [(65, 1), (65, 7), (900, 7), (900, 64), (900, 100), (900, 899), (900, 900)])
def test_any_prefill_chunk(tiny, prompts, alone, dtype, name, chunk):
    flags = (f"--prefill-chunk={chunk}",)
    result, tensors, _ = tools.forward(tiny(dtype), prompts[name], *flags, max_tokens=NEW_TOKENS)
    assert_same(result, tensors["logits"], alone(dtype, name), f"prompt {name} in chunks of {chunk}")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", (1, 65, 900))
def test_threads(tiny, prompts, alone, dtype, name):
    for threads in (1, 2):
        result, tensors, _ = tools.forward(tiny(dtype), prompts[name], f"--threads={threads}", max_tokens=NEW_TOKENS)
        assert_same(result, tensors["logits"], alone(dtype, name), f"prompt {name} with {threads} threads")


def test_batch_with_chunks_and_one_thread(tiny, prompts, alone):
    names = list(prompts)[::-1]
    requests = [{"ids": prompts[name], "max_tokens": NEW_TOKENS} for name in names]
    results, tensors = tools.batch(tiny("f32"), requests, "--prefill-chunk=64", "--threads=1")
    for i, name in enumerate(names):
        assert_same(results[i], tensors.get(f"logits.{i}"), alone("f32", name), f"request {i} (prompt {name})")


def test_a_prefix_has_the_same_logits(tiny, prompts, alone):
    """Causality in bits: the logits of a position do not depend on what follows it."""
    whole = alone("f32", 900)[1]
    _, tensors, _ = tools.forward(tiny("f32"), prompts[900][:65])
    tools.assert_same_bits(tensors["logits"], whole[:65], "the first 65 of 900 positions")
