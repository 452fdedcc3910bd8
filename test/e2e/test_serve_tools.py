"""Calls of tools that a request asks for: an example model with templates that know tools and reasoning, in both call formats."""
import json
import os
import shutil

import pytest

import contract
from serving import Server

TEMPLATES = os.path.join(contract.ROOT, "test", "data", "templates")
MARKERS = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>")
FIRST_UNUSED = 3560  # ids of the example model that its tokenizer has no token for

WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city.", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "unit": {"enum": ["C", "F", MARKERS[3]]}},
    "required": ["city", "unit"], "additionalProperties": False}}}
NOW = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
NOT = {"type": "function", "function": {"name": "odd", "parameters": {"type": "object", "properties": {"a": {"not": {}}}}}}


def model_with(artifact, folder, template, tokens):
    """A copy of an artifact with another template, and `tokens` that the model was not trained on."""
    copy = os.path.join(folder, "x.dsv3")
    shutil.copytree(artifact, copy)
    config, tokenizer = (os.path.join(copy, "tokenizer", name) for name in ("tokenizer_config.json", "tokenizer.json"))
    with open(config, encoding="utf-8") as f:
        fields = json.load(f)
    with open(os.path.join(TEMPLATES, template), encoding="utf-8") as f:
        fields["chat_template"] = f.read()
    with open(config, "w", encoding="utf-8") as f:
        json.dump(fields, f)
    with open(tokenizer, encoding="utf-8") as f:
        fields = json.load(f)
    for i, (content, special) in enumerate(tokens):
        fields["added_tokens"].append({"id": FIRST_UNUSED + i, "content": content, "special": special, "normalized": False,
                                       "lstrip": False, "rstrip": False, "single_word": False})
    with open(tokenizer, "w", encoding="utf-8") as f:
        json.dump(fields, f)
    return copy


KINDS = {"v3.1": ("thinking.jinja", [(m, True) for m in MARKERS] + [("</think>", False)]),
         "v3.1-markers-as-text": ("thinking.jinja", [("</think>", False)]),
         "r1": ("fenced_tools.jinja", [(m, True) for m in MARKERS] + [("</think>", False)])}


@pytest.fixture(scope="module", params=KINDS)
def server(request, tiny_f32, tmp_path_factory):
    template, tokens = KINDS[request.param]
    with Server(model_with(tiny_f32, str(tmp_path_factory.mktemp("tools")), template, tokens)) as s:
        s.kind = request.param
        s.think_end = FIRST_UNUSED + len(tokens) - 1
        yield s
        assert s.process.poll() is None, s.log()
        s.wait_idle()


def ask(server, stream=False, thinking=False, **fields):
    """{"content", "reasoning", "calls": [(name, arguments)], "finish"} of one answer."""
    body = {"messages": [{"role": "user", "content": "What is the weather in Rome?"}], "tools": [WEATHER, NOW], "temperature": 1,
            "max_tokens": 300, "chat_template_kwargs": {"thinking": thinking}, **fields}
    if thinking or server.kind == "r1":  # R1 always thinks; a bias ends it, since the example model never learnt to
        body["logit_bias"] = {str(server.think_end): 14 if thinking else 100}
    return joined(server, body, stream)


def joined(server, body, stream):
    if not stream:
        choice = server.good("/v1/chat/completions", body)["choices"][0]
        message = choice["message"]
        calls = message.get("tool_calls", [])
        assert all(c["type"] == "function" and c["id"].startswith("call_") for c in calls)
        assert message.get("reasoning") == message.get("reasoning_content")
        return {"content": message["content"] or None, "reasoning": message.get("reasoning") or "", "finish": choice["finish_reason"],
                "calls": [(c["function"]["name"], c["function"]["arguments"]) for c in calls]}
    out = {"content": None, "reasoning": "", "calls": [], "finish": None}
    for choice in (e["choices"][0] for e in server.post("/v1/chat/completions", {**body, "stream": True}).events()):
        delta = choice["delta"]
        assert delta.get("reasoning") == delta.get("reasoning_content")
        out["reasoning"] += delta.get("reasoning", "")
        if delta.get("content"):
            out["content"] = (out["content"] or "") + delta["content"]
        for call in delta.get("tool_calls", []):
            if "id" in call:
                assert call["type"] == "function" and call["index"] == len(out["calls"]) and not out["finish"]
                out["calls"].append((call["function"]["name"], ""))
            name, arguments = out["calls"][call["index"]]
            out["calls"][call["index"]] = (name, arguments + call["function"]["arguments"])
        out["finish"] = choice["finish_reason"] or out["finish"]
    return out


def check_call(name, arguments):
    value = json.loads(arguments)
    if name == "now":
        return value == {}
    return name == "get_weather" and set(value) == {"city", "unit"} and len(value["city"]) <= 12 and value["unit"] in ("C", "F", MARKERS[3])


def test_required(server):
    names = set()
    for seed in range(8):
        fields = {"seed": seed, "tool_choice": "required", "parallel_tool_calls": seed % 2 == 0}
        whole = ask(server, **fields)
        assert whole == ask(server, stream=True, **fields)
        assert whole["content"] is None and whole["calls"]
        done = whole["calls"] if whole["finish"] == "tool_calls" else whole["calls"][:-1]  # the model may call for ever
        assert all(check_call(*call) for call in done), whole
        if seed % 2:
            assert whole["finish"] == "tool_calls" and len(whole["calls"]) == 1
        names |= {name for name, _ in done}
    assert names and names <= {"get_weather", "now"}


def test_named(server):
    """vLLM and OpenAI end such an answer with "stop"."""
    for name in ("get_weather", "now"):
        for seed in (1, 2):
            fields = {"seed": seed, "tool_choice": {"type": "function", "function": {"name": name}}}
            whole = ask(server, **fields)
            assert whole == ask(server, stream=True, **fields)
            assert whole["finish"] == "stop" and [n for n, _ in whole["calls"]] == [name] and check_call(*whole["calls"][0])
            assert whole["content"] is None


@pytest.mark.parametrize("choice", ("required", {"type": "function", "function": {"name": "get_weather"}}), ids=("required", "named"))
def test_reasoning_comes_first(server, choice):
    thought = 0
    for seed in range(6):
        fields = {"seed": seed, "thinking": True, "tool_choice": choice, "parallel_tool_calls": False}
        whole = ask(server, **fields)
        assert whole == ask(server, stream=True, **fields)
        if whole["finish"] == "length":  # it thought to the end
            assert not whole["calls"]
            continue
        assert whole["finish"] == ("tool_calls" if choice == "required" else "stop")
        assert len(whole["calls"]) == 1 and check_call(*whole["calls"][0]) and whole["content"] is None
        thought += len(whole["reasoning"]) > 0
    assert thought > 0, "expected a seed with which the model thinks before it calls"


def test_a_marker_in_an_argument_is_text(server):
    tool = {"type": "function", "function": {"name": "echo", "parameters": {
        "type": "object", "properties": {"a": {"const": "x" + "".join(MARKERS) + "\n```"}, "b": {"const": 1}}, "required": ["a", "b"]}}}
    whole = ask(server, tools=[tool], tool_choice="required", parallel_tool_calls=False)
    assert [json.loads(a) for _, a in whole["calls"]] == [{"a": "x" + "".join(MARKERS) + "\n```", "b": 1}]


def test_the_tools_are_told_to_the_model(server):
    def count(**fields):
        return server.good("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1, **fields})["usage"]["prompt_tokens"]
    assert count(tools=[WEATHER], tool_choice="required", max_tokens=20) == count(tools=[WEATHER]) > count(tools=[WEATHER], tool_choice="none")


@pytest.mark.parametrize("fields, param", (
    ({"tools": [WEATHER, NOT], "tool_choice": "required"}, "tools[1].function.parameters"),
    ({"tools": [WEATHER, NOT], "tool_choice": {"type": "function", "function": {"name": "odd"}}}, "tools[1].function.parameters"),
    ({"tools": [{"type": "function", "function": {"name": "a b", "parameters": {"type": "object", "properties": {}}}}], "tool_choice": "required"}, "tools[0].function.name"),
    ({"tool_choice": {"type": "function", "function": {"name": "none"}}}, "tool_choice.function.name"),
    ({"tool_choice": {"type": "function"}}, "tool_choice.function.name"),
    ({"tool_choice": {"type": "tool"}}, "tool_choice"), ({"tool_choice": "always"}, "tool_choice"), ({"tool_choice": 5}, "tool_choice"),
    ({"tools": None, "tool_choice": "required"}, "tool_choice"), ({"tool_choice": "required", "stop": "x"}, "stop"),
    ({"tool_choice": "required", "ignore_eos": True}, "ignore_eos"),
    ({"tool_choice": "required", "response_format": {"type": "json_object"}}, "response_format")), ids=str)
def test_refused(server, fields, param):
    response = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "tools": [WEATHER], **fields})
    assert response.status == 400 and response.error()["param"] == param, response.body


def test_a_tool_that_is_not_supported_may_stay_uncalled(server):
    """Only those that are forced need a schema that can be guided."""
    whole = ask(server, tools=[WEATHER, NOT], tool_choice={"type": "function", "function": {"name": "get_weather"}}, seed=1)
    assert whole["finish"] == "stop" and check_call(*whole["calls"][0])
