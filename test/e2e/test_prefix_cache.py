"""A prompt whose beginning is in the prefix cache gets the bits it gets without: tokens and their log probabilities are equal."""
import pytest

import contract
from served import Served

SHARED = [(7 * i) % 3000 + 3 for i in range(300)]
OWN = ([11, 12, 13], [21], [31] * 70)


def answers(server):
    """(ids, log probabilities) of each prompt, and how many of its tokens were cached."""
    out, cached = [], []
    for own in OWN:
        status, _, body = server.ask("POST", "/v1/completions", {"prompt": SHARED + own, "max_tokens": 24, "temperature": 0, "logprobs": 1, "ignore_eos": True})
        assert status == 200, body
        choice = body["choices"][0]
        out.append((choice["text"], choice["logprobs"]["token_logprobs"]))
        cached.append(body["usage"]["prompt_tokens_details"]["cached_tokens"])
    return out, cached


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_cached_beginnings_change_no_bit(artifacts, dtype):
    artifact = artifacts.get(contract.TINY, f"--dtype={dtype}")
    with Served(artifact, "--prefix-cache=off") as server:
        plain, cached = answers(server)
        assert cached == [0, 0, 0]
    with Served(artifact, "--prefix-cache=on") as server:
        found, cached = answers(server)
        assert cached == [0, 256, 256]
    with Served(artifact, "--prefix-cache=on", "--prefill-chunk=48") as server:
        chunked, _ = answers(server)
    assert found == plain and chunked == plain
