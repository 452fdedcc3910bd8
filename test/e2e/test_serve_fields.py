"""Fields of vLLM's API that OpenAI's does not have."""
import json

import pytest

import tools
from serving import Server

STORY = "Once upon a time"
END = 1  # of the example model


@pytest.fixture(scope="module")
def server(tiny_f32):
    with Server(tiny_f32) as s:
        yield s
        assert s.process.poll() is None, s.log()
        s.wait_idle()


@pytest.fixture(scope="module")
def story(tiny_f32):
    return tools.generate(tiny_f32, "--prompt", STORY, "--max-tokens", 40)


def complete(server, stream=False, **fields):
    body = {"prompt": STORY, "temperature": 0, "max_tokens": 40, **fields}
    if not stream:
        choice = server.good("/v1/completions", body)["choices"][0]
        return choice["text"], choice["finish_reason"]
    choices = [e["choices"][0] for e in server.post("/v1/completions", {**body, "stream": True}).events()]
    return "".join(c["text"] for c in choices), choices[-1]["finish_reason"]


def chat(server, content="What is 2 + 3?", **fields):
    return server.good("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "temperature": 0, **fields})


# --- min_tokens

@pytest.mark.parametrize("stream", (False, True))
def test_min_tokens_puts_off_the_end(server, stream):
    """With a bias the end token is the likeliest at once: it comes as the first that is allowed."""
    for least in (0, 1, 7):
        body = {"prompt": STORY, "temperature": 0, "max_tokens": 30, "min_tokens": least, "logit_bias": {str(END): 100}, "stream": stream}
        if stream:
            body["stream_options"] = {"include_usage": True}
            usage = server.post("/v1/completions", body).events()[-1]["usage"]
        else:
            usage = server.good("/v1/completions", body)["usage"]
        assert usage["completion_tokens"] == least + 1


def test_min_tokens_puts_off_stop_ids_and_strings(server, story):
    ids = story["ids"]
    text, reason = complete(server, stop_token_ids=[ids[4]], min_tokens=4)
    assert reason == "stop" and text == tools_text(server, ids[:4])
    text, reason = complete(server, stop_token_ids=[ids[4]], min_tokens=5)
    assert not text.startswith(tools_text(server, ids[:5])), "another token takes its place"
    word = tools_text(server, ids)[:len(tools_text(server, ids[:6]))].split()[-1]  # a word that is complete after 6 tokens
    for least, stops in ((5, True), (12, False)):
        text, reason = complete(server, stop=word, min_tokens=least)
        whole = story["text"]
        again = whole.find(word, len(tools_text(server, ids[:12])) - len(word) + 1)
        want = whole[:whole.index(word)] if stops else whole if again < 0 else whole[:again]
        assert text == want, (least, word)


def tools_text(server, ids):
    return server.good("/detokenize", {"tokens": ids})["prompt"]


def test_min_tokens_changes_no_token_that_may_come(server, story):
    assert complete(server, min_tokens=40)[0] == complete(server, ignore_eos=True, min_tokens=40)[0] == story["text"]


# --- stops that show

@pytest.mark.parametrize("stream", (False, True))
def test_include_stop_str_in_output(server, story, stream):
    word = story["text"].split()[3]
    end = story["text"].index(word) + len(word)
    assert complete(server, stream, stop=[word], include_stop_str_in_output=True) == (story["text"][:end], "stop")
    ids = story["ids"]
    first = ids.index(ids[5])
    assert complete(server, stream, stop_token_ids=[ids[5]], include_stop_str_in_output=True) == (tools_text(server, ids[:first + 1]), "stop")
    assert complete(server, stream, stop_token_ids=[ids[5]]) == (tools_text(server, ids[:first]), "stop")


# --- prompts

def test_truncate_prompt_tokens(server):
    ids = list(range(10, 60))
    body = {"max_tokens": 8, "temperature": 0}
    for most in (1, 7, 50, 60, -1):
        cut = server.good("/v1/completions", {**body, "prompt": ids, "truncate_prompt_tokens": most})
        want = server.good("/v1/completions", {**body, "prompt": ids if most < 0 else ids[-most:]})
        assert cut["choices"] == want["choices"] and cut["usage"]["prompt_tokens"] == want["usage"]["prompt_tokens"]
    text = "There was a boy called Tom who liked apples."
    tokens = server.good("/tokenize", {"prompt": text})["tokens"]
    cut = server.good("/v1/completions", {**body, "prompt": text, "truncate_prompt_tokens": 5, "echo": True})
    want = server.good("/v1/completions", {**body, "prompt": tokens[:1] + tokens[-4:], "echo": True})
    assert cut["choices"] == want["choices"], "the begin token stays"
    long = server.good("/v1/completions", {**body, "prompt": ids * 200, "truncate_prompt_tokens": -1, "max_tokens": 1})
    assert long["usage"]["prompt_tokens"] == server.get("/v1/models").json()["data"][0]["max_model_len"]
    assert chat(server, truncate_prompt_tokens=3, max_tokens=1)["usage"]["prompt_tokens"] == 3


def test_continue_final_message(server):
    messages = [{"role": "user", "content": "What is 2 + 3?"}, {"role": "assistant", "content": "The sum of <｜User｜> is"}]
    fields = {"add_generation_prompt": False, "continue_final_message": True}
    tokens = server.good("/tokenize", {"messages": messages, **fields})["tokens"]
    closed = server.good("/tokenize", {"messages": messages, "add_generation_prompt": False})["tokens"]
    assert closed == tokens + [END]
    done = server.good("/v1/chat/completions", {"messages": messages, "max_tokens": 6, "temperature": 0, **fields})
    want = server.good("/v1/completions", {"prompt": tokens, "max_tokens": 6, "temperature": 0})
    assert done["choices"][0]["message"]["content"] == want["choices"][0]["text"]


def test_prompt_logprobs(server):
    ids = [0, 100, 200, 300]
    done = server.good("/v1/completions", {"prompt": ids, "max_tokens": 1, "prompt_logprobs": 2})["choices"][0]
    echoed = server.good("/v1/completions", {"prompt": ids, "max_tokens": 1, "echo": True, "logprobs": 2})["choices"][0]["logprobs"]
    listed = done["prompt_logprobs"]
    assert len(listed) == 4 and listed[0] is None and "prompt_logprobs" not in echoed
    for i in range(1, 4):
        own = listed[i][str(ids[i])]
        assert own["logprob"] == echoed["token_logprobs"][i] and own["decoded_token"] == echoed["tokens"][i] and own["rank"] >= 1
        others = sorted((e["rank"], e["logprob"]) for e in listed[i].values())
        assert [r for r, _ in others][:2] == [1, 2] and others == sorted(others, key=lambda e: -e[1])
    assert len(chat(server, max_tokens=1, prompt_logprobs=0)["prompt_logprobs"]) > 3


# --- guided answers under vLLM's names

@pytest.mark.parametrize("path", ("/v1/completions", "/v1/chat/completions"))
def test_structured_outputs(server, path):
    schema = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1, "maximum": 99}}, "required": ["a"]}
    start = {"prompt": STORY} if "chat" not in path else {"messages": [{"role": "user", "content": STORY}]}
    for fields in ({"structured_outputs": {"json": schema}}, {"structured_outputs": {"json": json.dumps(schema), "regex": None}}, {"guided_json": schema}):
        choice = server.good(path, {**start, "max_tokens": 60, "temperature": 1, "seed": 4, **fields})["choices"][0]
        value = json.loads(choice.get("text") or choice["message"]["content"])
        assert choice["finish_reason"] == "stop" and 1 <= value["a"] <= 99
    for fields in ({"structured_outputs": {"choice": ["yes, sir", "no"]}}, {"guided_choice": ["yes, sir", "no"]}):
        choice = server.good(path, {**start, "max_tokens": 60, **fields})["choices"][0]
        assert choice["finish_reason"] == "stop" and (choice.get("text") or choice["message"]["content"]) in ("yes, sir", "no")


BAD = [({"structured_outputs": {"regex": "a+"}}, "structured_outputs.regex"), ({"structured_outputs": {"json": {"not": {}}}}, "structured_outputs.json"),
       ({"structured_outputs": {"json": {}, "choice": ["a"]}}, "structured_outputs.choice"), ({"structured_outputs": {"choice": []}}, "structured_outputs.choice"),
       ({"structured_outputs": {"choice": ["a\u0000"]}}, "structured_outputs.choice"), ({"structured_outputs": "x"}, "structured_outputs"),
       ({"guided_json": "{"}, "guided_json"), ({"guided_json": "choice\u0000a"}, "guided_json"), ({"guided_choice": [1]}, "guided_choice"), ({"guided_regex": "a"}, "guided_regex"),
       ({"guided_json": {}, "response_format": {"type": "json_object"}}, None), ({"guided_choice": ["a"], "response_format": {"type": "json_object"}}, "guided_choice"),
       ({"guided_choice": ["a"], "min_tokens": 2}, "min_tokens"), ({"min_tokens": 41}, "min_tokens"), ({"best_of": 2}, "best_of"),
       ({"use_beam_search": True}, "use_beam_search"), ({"bad_words": ["a"]}, "bad_words"), ({"allowed_token_ids": [1]}, "allowed_token_ids"),
       ({"suffix": "x"}, "suffix"), ({"truncate_prompt_tokens": 0}, "truncate_prompt_tokens")]


@pytest.mark.parametrize("fields, param", BAD, ids=[f"{i}-{p}" for i, (_, p) in enumerate(BAD)])
def test_refused(server, fields, param):
    response = server.post("/v1/completions", {"prompt": STORY, "max_tokens": 40, **fields})
    assert param is None or (response.status == 400 and response.error()["param"] == param), response.body[:300]


def test_chat_refusals(server):
    user, answer = {"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}
    for body, param in (({"messages": [user, answer], "continue_final_message": True}, "continue_final_message"),
                        ({"messages": [user], "continue_final_message": True, "add_generation_prompt": False}, "continue_final_message"),
                        ({"messages": [user], "echo": True}, "echo")):
        response = server.post("/v1/chat/completions", body)
        assert response.status == 400 and response.error()["param"] == param, response.body


def test_what_says_nothing_is_ignored(server, story):
    """Clients that send every field they know, with its default."""
    text, _ = complete(server, best_of=1, use_beam_search=False, length_penalty=1.0, min_tokens=0, suffix="", bad_words=[], allowed_token_ids=None,
                       guided_regex=None, structured_outputs={}, include_stop_str_in_output=False, spaces_between_special_tokens=True,
                       truncate_prompt_tokens=None, detokenize=True, request_id="x", kv_transfer_params={}, guided_decoding_backend="auto")
    assert text == story["text"]
