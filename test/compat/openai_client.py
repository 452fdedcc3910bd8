"""What programs do with the `openai` package, against a server: openai_client.py BASE_URL. Prints one line a step."""
import json
import sys

import openai

QUESTION = "Clara has 160 plums. She uses one fifth of them. How many plums does she use?"
STEPS = []


def step(f):
    STEPS.append(f)
    return f


@step
def models(c):
    """models.list and retrieve"""
    name = c.models.list().data[0].id
    assert c.models.retrieve(name).id == name
    return name


@step
def chat(c):
    """chat: greedy answer, usage, finish reason"""
    r = ask(c)
    assert "#### 32" in r.choices[0].message.content, r
    assert r.choices[0].finish_reason == "stop" and r.choices[0].message.role == "assistant"
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens > 0
    return r.choices[0].message.content.splitlines()[-1]


@step
def chat_stream(c):
    """chat, streaming: the same text, usage only when asked"""
    whole = ask(c).choices[0].message.content
    chunks = list(ask(c, stream=True))
    assert "".join(k.choices[0].delta.content or "" for k in chunks if k.choices) == whole
    assert all(not k.usage for k in chunks)
    chunks = list(ask(c, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    return f"{len(chunks)} chunks"


@step
def stream_helper(c):
    """the package's own accumulator of streams"""
    with c.chat.completions.stream(model=NAME, messages=messages(), temperature=0, max_tokens=120) as stream:
        final = stream.get_final_completion()
    assert "#### 32" in final.choices[0].message.content
    return final.choices[0].finish_reason


@step
def chat_logprobs(c):
    """chat with logprobs and top_logprobs"""
    r = ask(c, logprobs=True, top_logprobs=3, max_tokens=5)
    tokens = r.choices[0].logprobs.content
    assert len(tokens) == 5 and all(len(t.top_logprobs) == 3 and t.logprob <= 0 for t in tokens)
    assert all(t.top_logprobs[0].token == t.token for t in tokens)  # greedy
    assert b"".join(bytes(t.bytes) for t in tokens).decode() == r.choices[0].message.content
    return tokens[0].token


@step
def several(c):
    """n = 3 with a seed: three choices, the same ones again"""
    texts = [[k.message.content for k in ask(c, n=3, temperature=1.0, seed=5, max_tokens=12).choices] for _ in range(2)]
    assert len(texts[0]) == 3 and texts[0] == texts[1]
    return f"{len(set(texts[0]))} different"


@step
def stops(c):
    """stop strings are not in the text"""
    r = ask(c, stop=["####", "zzz"])
    assert "####" not in r.choices[0].message.content and r.choices[0].finish_reason == "stop"
    return repr(r.choices[0].message.content[-12:])


@step
def completions(c):
    """completions: text, list of texts, ids; echo with prompt logprobs"""
    r = c.completions.create(model=NAME, prompt=["Once upon a time", "One day"], max_tokens=8, temperature=0)
    alone = c.completions.create(model=NAME, prompt="One day", max_tokens=8, temperature=0)
    assert [k.index for k in r.choices] == [0, 1] and r.choices[1].text == alone.choices[0].text
    r = c.completions.create(model=NAME, prompt=[5, 6, 7, 8], max_tokens=1, logprobs=2, echo=True, temperature=0)
    values = r.choices[0].logprobs
    assert len(values.token_logprobs) == 5 and values.token_logprobs[0] is None and all(v <= 0 for v in values.token_logprobs[1:])
    assert all(len(t) >= 2 for t in values.top_logprobs[1:])
    return repr(alone.choices[0].text)


@step
def completions_stream(c):
    """completions, streaming"""
    whole = c.completions.create(model=NAME, prompt="One day", max_tokens=20, temperature=0).choices[0].text
    chunks = list(c.completions.create(model=NAME, prompt="One day", max_tokens=20, temperature=0, stream=True))
    assert "".join(k.choices[0].text for k in chunks if k.choices) == whole
    return f"{len(chunks)} chunks"


@step
def penalties(c):
    """penalties, logit_bias, top_p and vLLM's extra fields"""
    plain = ask(c, max_tokens=12).choices[0].message.content
    first = ask(c, max_tokens=1, logprobs=True).choices[0].logprobs.content[0].token
    ids = post(c, "/tokenize", {"prompt": first, "add_special_tokens": False})["tokens"]
    banned = ask(c, max_tokens=12, logit_bias={str(ids[0]): -100}).choices[0].message.content
    assert banned != plain
    ask(c, max_tokens=4, presence_penalty=0.5, frequency_penalty=0.5, top_p=0.9, seed=1, temperature=0.8, user="me",
        extra_body={"top_k": 5, "min_p": 0.1, "repetition_penalty": 1.1, "ignore_eos": True, "unknown_field": 1})
    return repr(banned[:12])


@step
def json_object(c):
    """response_format json_object and json_schema: text that ends with stop is valid"""
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "ok": {"type": "boolean"}}, "required": ["n", "ok"],
              "additionalProperties": False}
    for form in ({"type": "json_object"}, {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}):
        r = ask(c, response_format=form, max_tokens=120).choices[0]
        if r.finish_reason == "stop":
            value = json.loads(r.message.content)
            assert isinstance(value, dict)
            if form["type"] == "json_schema":
                assert set(value) == {"n", "ok"} and isinstance(value["n"], int) and isinstance(value["ok"], bool), value
    return r.finish_reason


@step
def tools_are_refused(c):
    """tools: this model's chat template knows none, which is said instead of leaving them out"""
    tool = {"type": "function", "function": {"name": "add", "description": "adds", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}}}}}
    try:
        ask(c, tools=[tool], tool_choice="auto", max_tokens=8)
    except openai.BadRequestError as e:
        assert e.param == "tools", (e.param, e.message)
    else:
        raise AssertionError("expected a 400")
    return "400"


@step
def errors(c):
    """errors are the package's exceptions, with the parameter named"""
    for fields, name in (({"temperature": -1}, "temperature"), ({"max_tokens": 0}, "max_tokens"), ({"n": "three"}, "n"),
                         ({"logit_bias": {"0": 1000}}, "logit_bias"), ({"stop": ["a"] * 5}, "stop")):
        try:
            ask(c, **fields)
        except openai.BadRequestError as e:
            assert e.param and e.param.split(".")[0].split("[")[0] == name, (name, e.param, e.message)
        else:
            raise AssertionError(f"expected a 400 for {fields}")
    try:
        c.chat.completions.create(model="no-such-model", messages=messages())
    except openai.NotFoundError as e:
        assert e.param == "model" or "no-such-model" in e.message
    else:
        raise AssertionError("expected a 404 for an unknown model")
    return "400, 404"


@step
def abandoned(c):
    """a stream that is closed half-way"""
    stream = ask(c, stream=True, extra_body={"ignore_eos": True}, max_tokens=400)
    next(iter(stream))
    stream.close()
    return "closed"


def messages():
    return [{"role": "user", "content": QUESTION}]


def ask(c, **fields):
    return c.chat.completions.create(**{"model": NAME, "messages": messages(), "temperature": 0, "max_tokens": 120, **fields})


def post(c, path, body):
    return c._client.post(str(c.base_url).replace("/v1/", "") + path, json=body).json()


if __name__ == "__main__":
    client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0, timeout=120)
    NAME = client.models.list().data[0].id
    failed = 0
    for f in STEPS:
        try:
            print(f"ok      {f.__doc__}: {f(client)}", flush=True)
        except Exception as e:
            failed += 1
            print(f"FAILED  {f.__doc__}: {type(e).__name__}: {str(e)[:400]}", flush=True)
    sys.exit(failed > 0)
