"""The same request gives the same tokens and log probabilities whoever chooses them: the device, or the host from its logits."""
import random

import tools

CUDA = "--device=cuda"


def request_of(goldens, i):
    """Every kind: greedy, plain draws, each filter alone and together, and a penalty, which only the host does."""
    rng = random.Random(i)
    long = goldens["long.input_ids"].tolist()
    length = rng.choice((1, 17, 64, 200))
    request = {"ids": [0] + long[1 + i:length + i], "max_tokens": 24, "seed": 1000 + i}
    if i % 8:
        request["temperature"] = rng.choice((0.3, 0.7, 1.0, 1.0, 1.6, 4.0))
    if i % 2:
        request["top_p"] = rng.choice((0.3, 0.8, 0.95, 0.999))
    if i % 3 == 1:
        request["top_k"] = rng.choice((1, 5, 50, 1000))
    if i % 5 == 2:
        request["min_p"] = rng.choice((0.001, 0.05, 0.5))
    if i % 16 == 11:
        request["repetition_penalty"] = 1.2
    return request


def test_whoever_chooses(bf16, goldens):
    requests = [request_of(goldens, i) for i in range(64)]
    device, _ = tools.batch(bf16, requests, CUDA)
    host, _ = tools.batch(bf16, requests, CUDA, "--host-sampling")
    assert len({tuple(r["ids"]) for r in device}) > 40, "requests that draw differ"
    for i, (got, want) in enumerate(zip(device, host)):
        assert got["ids"] == want["ids"], f"request {i} {requests[i]}: tokens differ"
        assert got["logprobs"] == want["logprobs"], f"request {i} {requests[i]}: log probabilities differ in bits"


def test_alone_and_among_others(bf16, goldens):
    requests = [request_of(goldens, i) for i in range(64)]
    together, _ = tools.batch(bf16, requests, CUDA)
    for i in (0, 3, 11, 18, 37, 58):
        alone, _ = tools.batch(bf16, [requests[i]], CUDA)
        assert alone[0]["ids"] == together[i]["ids"], f"request {i} {requests[i]}: tokens differ"
        assert alone[0]["logprobs"] == together[i]["logprobs"], f"request {i}: log probabilities differ in bits"
