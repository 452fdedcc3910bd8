"""A request that overflows on the GPU, where the token is chosen and the next step runs already, ends alone."""
import pytest

import tools
from serving import Server

BAD = 2222
GOOD = {"prompt": "Once upon a time", "max_tokens": 400, "ignore_eos": True, "temperature": 0}
POISONED = {"prompt": [0, 17, BAD, 40], "max_tokens": 20}


@pytest.fixture(scope="module")
def server(bf16, tmp_path_factory):
    with Server(tools.with_bad_token(bf16, tmp_path_factory.mktemp("faults"), BAD), "--device=cuda") as s:
        yield s
        assert s.process.poll() is None, s.log()
        s.wait_idle()


@pytest.mark.parametrize("fields", ({"temperature": 0}, {"temperature": 1, "seed": 3}, {"logprobs": 2}, {"echo": True, "logprobs": 1}),
                         ids=("greedy", "drawn", "by-the-host", "judged"))
@pytest.mark.parametrize("stream", (False, True))
def test_it_ends_alone(server, fields, stream):
    def text(response):
        return response.json()["choices"][0]["text"]
    want = text(server.post("/v1/completions", GOOD))
    before = server.metrics()
    with server.connect() as good, server.connect() as bad:
        good.post("/v1/completions", GOOD)
        server.wait_for(lambda m: m["vllm:num_requests_running"] == 1, "expected a running request")
        bad.post("/v1/completions", {**POISONED, **fields, "stream": stream})
        failed = bad.response()
        error = failed.events()[-1]["error"] if stream else failed.error()
        assert text(good.response()) == want
    assert "is not finite: the weights overflow" in error["message"] and failed.status == (200 if stream else 500)
    after = server.wait_idle()
    assert after["dsv3:non_finite_requests_total"] - before["dsv3:non_finite_requests_total"] == 1
    assert server.get("/health").status == 200
