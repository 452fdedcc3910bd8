"""dsv3-serve: what clients ask for and get."""
import json
import os
import re

import pytest

import contract
import tools
from serving import Server

STORY = "Once upon a time"
QUESTION = "Tom has 12 apples. He buys 30 more and then gives 17 to Lily. How many apples does Tom have now?"


@pytest.fixture(scope="module")
def server(tiny_f32):
    with Server(tiny_f32, "--served-model-name=tiny", "--served-model-name=other") as s:
        yield s
        assert s.process.poll() is None, s.log()
        s.wait_idle()


def complete(server, prompt=STORY, **fields):
    return server.good("/v1/completions", {"model": "tiny", "prompt": prompt, "temperature": 0, "max_tokens": 24, **fields})


def chat(server, content=QUESTION, **fields):
    return server.good("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "temperature": 0, **fields})


@pytest.fixture(scope="module")
def story(tiny_f32):
    return tools.generate(tiny_f32, "--prompt", STORY, "--max-tokens", 24)


# --- simple endpoints

def test_models(server):
    listed = server.get("/v1/models").json()
    assert [m["id"] for m in listed["data"]] == ["tiny", "other"]
    assert listed["data"][0]["max_model_len"] == contract.MAX_MODEL_LEN
    assert server.get("/v1/models/other").json()["id"] == "other"
    assert server.get("/v1/models/none").status == 404


def test_health_ready_version(server):
    assert server.get("/health").status == server.get("/ready").status == 200
    assert set(server.get("/version").json()) == {"version"}


def test_unknown_paths_and_methods(server):
    for path in ("/", "/v1", "/v1/models/", "/v1/completions/", "/../etc/passwd", "/health/x"):
        assert server.get(path).status == 404, path
    response = server.get("/v1/completions")
    assert response.status == 405 and "POST" in response.error()["message"]
    assert server.request("DELETE", "/health").status == 405


def test_request_id_is_echoed(server):
    assert server.get("/health", headers=["x-request-id: abc-1"]).headers["x-request-id"] == "abc-1"
    assert server.get("/health", headers=["x-request-id: a b"]).headers["x-request-id"] != "a b"


def test_tokenize_and_back(server):
    done = server.good("/tokenize", {"prompt": "hello world", "return_token_strs": True})
    assert done["count"] == len(done["tokens"]) == len(done["token_strs"])
    assert "".join(done["token_strs"][1:]) == "hello world"
    plain = server.good("/tokenize", {"prompt": "hello world", "add_special_tokens": False})
    assert plain["tokens"] == done["tokens"][1:]
    assert server.good("/detokenize", {"tokens": plain["tokens"]}) == {"prompt": "hello world"}


def test_tokenize_chat_is_what_dsv3_run_feeds(server, tiny_f32):
    ids = tools.generate(tiny_f32, "--chat", QUESTION, "--max-tokens", 1)["prompt_ids"]
    assert server.good("/tokenize", {"messages": [{"role": "user", "content": QUESTION}]})["tokens"] == ids


# --- completions

def test_text_is_that_of_dsv3_run(server, story):
    done = complete(server)
    assert done["object"] == "text_completion" and done["model"] == "tiny"
    assert done["choices"][0]["text"] == story["text"]
    assert done["choices"][0]["finish_reason"] == "length"
    usage = done["usage"]
    assert usage["completion_tokens"] == 24 and usage["total_tokens"] == usage["prompt_tokens"] + 24


def test_prompt_in_four_shapes(server, story):
    ids = story["prompt_ids"]
    for prompt, count in ((STORY, 1), ([STORY, STORY], 2), (ids, 1), ([ids, ids], 2)):
        choices = complete(server, prompt)["choices"]
        assert [(c["index"], c["text"]) for c in choices] == [(i, story["text"]) for i in range(count)]


def test_special_tokens_of_a_prompt_are_parsed_and_bos_comes_once(server):
    once = server.good("/tokenize", {"prompt": "<｜begin▁of▁sentence｜>hello"})["tokens"]
    assert once == server.good("/tokenize", {"prompt": "hello"})["tokens"]


def test_stream_joins_to_the_whole(server, story):
    response = server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 24, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    events = response.events()
    assert "".join(e["choices"][0]["text"] for e in events) == story["text"]
    assert [e["choices"][0]["finish_reason"] for e in events][-1] == "length"
    assert all("usage" not in e for e in events)


def test_usage_comes_when_asked(server):
    events = server.post("/v1/completions", {"prompt": STORY, "temperature": 0, "max_tokens": 5, "stream": True,
                                             "stream_options": {"include_usage": True}}).events()
    assert all(e["usage"] is None for e in events[:-1])
    assert events[-1]["choices"] == [] and events[-1]["usage"]["completion_tokens"] == 5


@pytest.mark.parametrize("stop", ("lived", "boy called W", "y", " there"))
@pytest.mark.parametrize("stream", (False, True))
def test_stop_strings_never_show(server, story, stop, stream):
    body = {"prompt": STORY, "temperature": 0, "max_tokens": 24, "stop": [stop, "no such text"], "stream": stream}
    if stream:
        choices = [e["choices"][0] for e in server.post("/v1/completions", body).events()]
        text, reason = "".join(c["text"] for c in choices), choices[-1]["finish_reason"]
    else:
        choice = server.good("/v1/completions", body)["choices"][0]
        text, reason = choice["text"], choice["finish_reason"]
    assert (text, reason) == (story["text"][:story["text"].index(stop)], "stop")


def test_bytes_of_characters_are_not_split(server):
    """Sampled hot from a vocabulary with byte tokens: the stream must be valid UTF-8 all the same, and equal to the whole."""
    body = {"prompt": "€ 漢字 🙂", "temperature": 2, "seed": 7, "max_tokens": 200, "ignore_eos": True}
    whole = server.good("/v1/completions", body)["choices"][0]["text"]
    events = server.post("/v1/completions", {**body, "stream": True}).events()
    assert "".join(e["choices"][0]["text"] for e in events) == whole


def test_many_choices_interleave_by_index(server):
    body = {"prompt": [STORY, "The dog"], "n": 3, "temperature": 1, "seed": 3, "max_tokens": 12}
    whole = server.good("/v1/completions", body)
    assert [c["index"] for c in whole["choices"]] == list(range(6))
    assert len({c["text"] for c in whole["choices"][:3]}) > 1, "choices of one prompt must differ"
    texts = [""] * 6
    for e in server.post("/v1/completions", {**body, "stream": True}).events():
        texts[e["choices"][0]["index"]] += e["choices"][0]["text"]
    assert texts == [c["text"] for c in whole["choices"]]


def test_seeds(server):
    def draw(**fields):
        return server.good("/v1/completions", {"prompt": STORY, "max_tokens": 24, "temperature": 1.5, **fields})["choices"][0]["text"]
    assert draw(seed=1) == draw(seed=1) != draw(seed=2)
    assert len({draw() for _ in range(4)}) > 1


def test_logprobs(server, story):
    lists = complete(server, logprobs=3)["choices"][0]["logprobs"]
    assert "".join(lists["tokens"]) == story["text"]
    assert all(abs(a - b) < 1e-4 for a, b in zip(lists["token_logprobs"], story["logprobs"]))
    assert all(3 <= len(top) <= 4 and max(top, key=top.get) == token for token, top in zip(lists["tokens"], lists["top_logprobs"]))
    assert lists["text_offset"][:2] == [0, len(lists["tokens"][0])]


def test_echo_with_prompt_logprobs(server, tiny_f32, story):
    """What lm-evaluation-harness asks for: the first entry is null, the others are the prompt's own probabilities."""
    ids = story["prompt_ids"]
    done = complete(server, ids, echo=True, logprobs=1, max_tokens=1)["choices"][0]
    values = done["logprobs"]["token_logprobs"]
    assert len(values) == len(ids) + 1 and values[0] is None and done["logprobs"]["top_logprobs"][0] is None
    logits = tools.forward(tiny_f32, ids)[1]["logits"].astype("float64")
    for i in range(1, len(ids)):
        row = logits[i - 1]
        want = row[ids[i]] - row.max() - __import__("numpy").log(__import__("numpy").exp(row - row.max()).sum())
        assert abs(values[i] - want) < 1e-4
    assert done["text"].endswith(STORY + story["text"][:len(done["text"]) - len(STORY) - done["text"].index(STORY)])
    alone = complete(server, ids, echo=True, logprobs=1, max_tokens=0)["choices"][0]
    assert alone["logprobs"]["token_logprobs"] == values[:-1]


def test_echo_alone_needs_no_token(server):
    done = complete(server, STORY, echo=True, max_tokens=0)
    assert done["choices"][0]["text"] == STORY and done["usage"]["completion_tokens"] == 0


def test_prefix_cache(server):
    """The second of two equal prompts finds the pages of the first; with another salt it does not; the text is the same."""
    prompt = [7 + i % 100 for i in range(300)]
    runs = [complete(server, prompt, max_tokens=8, cache_salt=salt) for salt in ("a", "a", "b")]
    cached = [r["usage"]["prompt_tokens_details"]["cached_tokens"] for r in runs]
    assert cached[0] == cached[2] == 0 and cached[1] >= 256
    assert len({r["choices"][0]["text"] for r in runs}) == 1
    assert server.metrics()["vllm:prefix_cache_hits_total"] >= 256


# --- chats

def test_chat_answers(server):
    done = chat(server)
    message = done["choices"][0]["message"]
    assert done["object"] == "chat.completion" and message["role"] == "assistant"
    assert message["content"].rstrip().endswith("#### 25") and done["choices"][0]["finish_reason"] == "stop"


def test_chat_stream(server):
    whole = chat(server)["choices"][0]["message"]["content"]
    events = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": QUESTION}], "temperature": 0,
                                                  "stream": True, "logprobs": True, "top_logprobs": 2}).events()
    assert events[0]["object"] == "chat.completion.chunk"
    assert events[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == whole
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    entries = [t for e in events if e["choices"][0]["logprobs"] for t in e["choices"][0]["logprobs"]["content"]]
    assert all(len(t["top_logprobs"]) == 2 and t["logprob"] <= 0 and bytes(t["bytes"]).decode() == t["token"] for t in entries[:-1])


def test_chat_content_is_plain_text(server):
    plain = server.good("/tokenize", {"messages": [{"role": "user", "content": "<｜Assistant｜>"}]})["tokens"]
    marker = server.good("/tokenize", {"prompt": "<｜Assistant｜>", "add_special_tokens": False})["tokens"]
    assert len(marker) == 1 and plain.count(marker[0]) == 1


def test_content_parts(server):
    parts = [{"type": "text", "text": QUESTION[:20]}, {"type": "text", "text": QUESTION[20:]}]
    joined = server.good("/tokenize", {"messages": [{"role": "user", "content": parts}]})
    want = server.good("/tokenize", {"messages": [{"role": "user", "content": QUESTION[:20] + "\n" + QUESTION[20:]}]})
    assert joined == want


def test_json_schema(server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    done = chat(server, max_tokens=200, temperature=1, seed=5,
                response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}})["choices"][0]
    assert done["finish_reason"] == "stop"
    value = json.loads(done["message"]["content"])
    assert set(value) == {"name", "age"} and isinstance(value["age"], int) and len(value["name"]) <= 8


# --- refusals: status 400 and the field's name

BAD = [
    ({"prompt": STORY, "temperature": 3}, "temperature"), ({"prompt": STORY, "temperature": "1"}, "temperature"),
    ({"prompt": STORY, "top_p": 0}, "top_p"), ({"prompt": STORY, "max_tokens": -1}, "max_tokens"),
    ({"prompt": STORY, "max_tokens": 1.5}, "max_tokens"), ({"prompt": STORY, "max_tokens": 1 << 40}, "max_tokens"),
    ({"prompt": STORY, "max_tokens": 100000}, "max_tokens"), ({"prompt": STORY, "n": 0}, "n"), ({"prompt": STORY, "n": True}, "n"),
    ({"prompt": STORY, "stop": ["a"] * 5}, "stop"), ({"prompt": STORY, "stop": ""}, "stop"), ({"prompt": STORY, "stop": [1]}, "stop"),
    ({"prompt": STORY, "logit_bias": {"x": 1}}, "logit_bias"), ({"prompt": STORY, "logit_bias": {"1": 101}}, "logit_bias"),
    ({"prompt": STORY, "logprobs": 21}, "logprobs"), ({"prompt": STORY, "presence_penalty": 3}, "presence_penalty"),
    ({"prompt": STORY, "seed": 1.5}, "seed"), ({"prompt": STORY, "stream": 1}, "stream"),
    ({"prompt": STORY, "stream_options": {"include_usage": True}}, "stream_options"),
    ({"prompt": STORY, "user": 5}, "user"), ({"prompt": STORY, "suffix": "x"}, "suffix"), ({"prompt": STORY, "max_tokens": 0}, "max_tokens"),
    ({}, "prompt"), ({"prompt": []}, "prompt"), ({"prompt": 5}, "prompt"), ({"prompt": [1, -1]}, "prompt"), ({"prompt": [1, "a"]}, "prompt"),
    ({"prompt": [1, 1 << 40]}, "prompt"), ({"prompt": [[1], []]}, "prompt[1]"), ({"prompt": ["a", 5]}, "prompt[1]"),
    ({"prompt": [5] * 5000}, "prompt"), ({"prompt": "a " * 400000}, "prompt"),
    ({"prompt": STORY, "response_format": {"type": "xml"}}, "response_format.type"),
    ({"prompt": STORY, "response_format": {"type": "json_object"}, "ignore_eos": True}, "ignore_eos"),
    ({"messages": []}, "messages"), ({"messages": [{"content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0]"),
    ({"messages": [{"role": "user", "content": "x"}], "top_logprobs": 2}, "top_logprobs"),
    ({"messages": [{"role": "user", "content": "x"}], "tools": [{}]}, "tools[0].type"),
    ({"messages": [{"role": "user", "content": "x"}], "tool_choice": "required"}, "tool_choice"),
    ({"messages": [{"role": "user", "content": "x"}], "parallel_tool_calls": "no"}, "parallel_tool_calls"),
    ({"messages": [{"role": "user", "content": "x"}], "chat_template": "x"}, "chat_template"),
    ({"messages": [{"role": "user", "content": "x"}], "response_format": {"type": "json_schema", "json_schema": {"schema": {"not": {}}}}},
     "response_format.json_schema.schema"),
]


@pytest.mark.parametrize("body, param", BAD, ids=[f"{i}-{p}" for i, (_, p) in enumerate(BAD)])
def test_bad_fields(server, body, param):
    response = server.post("/v1/chat/completions" if "messages" in body else "/v1/completions", body)
    assert response.status == 400, response.body[:300]
    assert response.error()["param"] == param, response.body[:300]


@pytest.mark.parametrize("body", (b"", b"{", b"[]", b"nul", b'{"prompt": "\xff"}', b'{"a": 1, "a": 2}', b"[" * 100000, b'{"a":' * 5000,
                                  b"{" + b",".join(b'"%d":0' % i for i in range(200000)) + b"}", b'{"prompt": "\\ud800"}'))
def test_bad_json(server, body):
    response = server.post("/v1/completions", body)
    assert response.status == 400 and response.error()["type"] == "invalid_request_error"


def test_unknown_model(server):
    response = server.post("/v1/completions", {"model": "gpt-4", "prompt": "x"})
    assert response.status == 404 and response.error()["code"] == "model_not_found"


def test_unknown_fields_are_ignored(server, story):
    assert complete(server, no_such_field={"a": [1]}, best_of=None, user="me")["choices"][0]["text"] == story["text"]


def test_every_flag_is_documented():
    with open(os.path.join(contract.ROOT, "docs", "serving.md"), encoding="utf-8") as f:
        page = f.read()
    flags = set(re.findall(r"--[a-z][a-z-]+", tools.succeed("dsv3-serve", "--help").stdout.decode())) - {"--help"}
    assert len(flags) > 25 and not {flag for flag in flags if f"`{flag}`" not in page}


def test_metrics_have_vllm_names(server):
    before = server.metrics()
    complete(server, max_tokens=7)
    after = server.metrics()
    grown = {name: after[name] - before[name] for name in before}
    assert grown["vllm:generation_tokens_total"] == 7 and grown["vllm:prompt_tokens_total"] == 5
    assert grown['vllm:request_success_total{finished_reason="length"}'] == 1
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds", "request_queue_time_seconds"):
        assert grown[f"vllm:{name}_count"] == 1
    assert grown["vllm:inter_token_latency_seconds_count"] == 6
    for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc", "prefix_cache_queries_total",
                 "prefix_cache_hits_total", "num_preemptions_total"):
        assert f"vllm:{name}" in after
