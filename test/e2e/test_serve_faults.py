"""dsv3-serve when the model itself fails on a request: a weight that is not finite, in a copy of the example model."""
import pytest

import tools
from serving import Server

BAD = 2222  # its embedding is NaN
GOOD = {"prompt": "Once upon a time", "max_tokens": 120, "ignore_eos": True, "temperature": 0}
POISONED = {"prompt": [0, 17, BAD, 40], "max_tokens": 20, "temperature": 0}


@pytest.fixture(scope="module", params=("f32", "bf16"))
def poisoned(request, tiny, tmp_path_factory):
    return tools.with_bad_token(tiny(request.param), tmp_path_factory.mktemp("poisoned"), BAD)


@pytest.fixture(scope="module")
def server(poisoned):
    with Server(poisoned) as s:
        yield s
        assert s.process.poll() is None, s.log()
        after = s.wait_idle()
        assert after["dsv3:non_finite_requests_total"] == after['vllm:request_success_total{finished_reason="error"}'] > 0
        assert "the engine has failed" not in s.log()


def text(response):
    return response.json()["choices"][0]["text"]


@pytest.mark.parametrize("fields", ({}, {"temperature": 1, "seed": 3}, {"logprobs": 2}, {"echo": True, "logprobs": 1},
                                    {"presence_penalty": 1}, {"n": 3, "temperature": 1}, {"stop": ["x"]}), ids=lambda f: "-".join(f) or "greedy")
@pytest.mark.parametrize("stream", (False, True))
def test_a_request_that_overflows_fails_alone(server, fields, stream):
    want = text(server.post("/v1/completions", GOOD))
    before = server.metrics()
    with server.connect() as good, server.connect() as bad:
        good.post("/v1/completions", GOOD)
        server.wait_for(lambda m: m["vllm:num_requests_running"] == 1, "expected a running request")
        bad.post("/v1/completions", {**POISONED, **fields, "stream": stream})
        failed = bad.response()
        if stream:
            assert failed.status == 200
            errors = [e["error"] for e in failed.events() if "error" in e]
            assert len(errors) == fields.get("n", 1)
        else:
            assert failed.status == 500
            errors = [failed.error()]
        assert text(good.response()) == want, "another request runs on unharmed"
    for error in errors:
        assert error["type"] == "internal_error" and "is not finite: the weights overflow" in error["message"]
    after = server.wait_idle()
    failures = after["dsv3:non_finite_requests_total"] - before["dsv3:non_finite_requests_total"]
    assert failures == len(errors) if stream else 1 <= failures <= fields.get("n", 1)  # the others are cut off once one has failed
    assert server.get("/health").status == server.get("/ready").status == 200


def test_what_a_failed_request_wrote_is_not_found_by_others(server):
    """Two whole pages of good tokens before the bad one: a request that begins alike computes them anew, and is right."""
    prefix = [7 + i % 100 for i in range(140)]
    assert server.post("/v1/completions", {**POISONED, "prompt": prefix + [BAD]}).status == 500
    for cached in (0, 128):
        done = server.good("/v1/completions", {**POISONED, "prompt": prefix + [9]})
        assert done["usage"]["prompt_tokens_details"]["cached_tokens"] == cached


def test_chats_fail_in_the_same_shape(server):
    content = server.good("/detokenize", {"tokens": [BAD]})["prompt"]
    body = {"messages": [{"role": "user", "content": content}], "max_tokens": 5}
    ids = server.good("/tokenize", {"messages": body["messages"]})["tokens"]
    assert BAD in ids, "expected the token to come back from its text"
    assert server.post("/v1/chat/completions", body).error()["type"] == "internal_error"
    events = server.post("/v1/chat/completions", {**body, "stream": True}).events()
    assert "error" in events[-1] and not any(c["finish_reason"] for e in events[:-1] for c in e["choices"])
