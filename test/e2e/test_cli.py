"""dsv3-run on good input: what it prints, how it samples, where it stops, how it streams."""
import json
import os
import subprocess

import numpy as np
import pytest

import contract
import tools

STORY = "Once upon a time"
QUESTION = "Tom has 12 apples. He buys 30 more and then gives 17 to Lily. How many apples does Tom have now?"
FIELDS = {"prompt_ids", "ids", "text", "finish_reason", "logprobs"}
TIMINGS = {"load_ms", "ttft_ms", "tpot_ms", "tokens_per_second"}


def story(artifact, *flags, tokens=32):
    return tools.generate(artifact, "--prompt", STORY, "--max-tokens", tokens, *flags)


@pytest.fixture(scope="module")
def greedy(tiny_f32):
    return story(tiny_f32)


# --- prompts and fields

@pytest.mark.parametrize("name", contract.PROMPTS)
def test_prompt_is_encoded_as_stored(tiny_f32, golden_texts, name):
    """BOS is added and the special tokens in the text are parsed."""
    result = tools.generate(tiny_f32, "--prompt", golden_texts[name]["text"], "--max-tokens", 1)
    assert result["prompt_ids"] == golden_texts[name]["input_ids"]


def test_ids_are_verbatim(tiny_f32):
    assert tools.generate(tiny_f32, "--ids=2037,660", "--max-tokens", 1)["prompt_ids"] == [2037, 660]


def test_text_is_the_stored_text(tiny_f32, golden_texts):
    want = golden_texts["short"]
    assert all(3 < i < 3553 for i in want["greedy_ids"]), "this test wants a text without special tokens"
    result = story(tiny_f32, tokens=contract.GREEDY_TOKENS)
    assert (result["ids"], result["text"]) == (want["greedy_ids"], want["greedy_text"])


def test_chat_answers_and_stops(tiny_f32, golden_texts):
    result = tools.generate(tiny_f32, "--chat", QUESTION, "--max-tokens", 200)
    assert result["prompt_ids"] == golden_texts["arith"]["input_ids"]
    assert result["text"].rstrip().endswith("#### 25")
    assert result["finish_reason"] == "stop"


def test_chat_content_never_parses_special_tokens(tiny_f32):
    special = "<｜Assistant｜>"
    plain = tools.generate(tiny_f32, "--chat", special, "--max-tokens", 1)["prompt_ids"]
    parsed = tools.generate(tiny_f32, "--prompt", special, "--max-tokens", 1)["prompt_ids"]
    assert len(parsed) == 2
    assert plain.count(parsed[1]) == 1, "only the template's own <｜Assistant｜> is a special token"


def test_json_fields(greedy):
    assert FIELDS <= set(greedy)
    timings = greedy.get("timings", greedy)
    assert TIMINGS <= set(timings)
    assert all(isinstance(timings[k], (int, float)) and timings[k] >= 0 for k in TIMINGS)
    assert len(greedy["logprobs"]) == len(greedy["ids"]) == 32
    assert all(x <= 0 for x in greedy["logprobs"])


def test_logprobs_belong_to_the_logits(tiny_f32, goldens):
    result, tensors, _ = tools.forward(tiny_f32, goldens["arith.input_ids"])
    last = tensors["logits"][-1].astype(np.float64)
    want = last[result["ids"][0]] - last.max() - np.log(np.exp(last - last.max()).sum())
    assert abs(result["logprobs"][0] - want) < 1e-5


# --- where it stops

@pytest.mark.parametrize("count", (1, 2, 17))
def test_max_tokens(tiny_f32, greedy, count):
    result = story(tiny_f32, tokens=count)
    assert result["ids"] == greedy["ids"][:count]
    assert result["finish_reason"] == "length"


def test_ignore_eos_runs_past_the_end_token(tiny_f32, goldens):
    ids = tools.ids_flag(goldens["arith.input_ids"])
    stopped = tools.generate(tiny_f32, ids, "--max-tokens", 64)
    past = tools.generate(tiny_f32, ids, "--max-tokens", 64, "--ignore-eos")
    assert stopped["finish_reason"] == "stop" and past["finish_reason"] == "length"
    assert len(past["ids"]) == 64 > len(stopped["ids"])
    assert past["ids"][:len(stopped["ids"])] == stopped["ids"]


@pytest.mark.parametrize("stop", ("lived", "boy called W", "y", " there"))
def test_stop_string(tiny_f32, greedy, stop):
    """Cut before it, wherever it lies against token boundaries."""
    assert stop in greedy["text"]
    result = story(tiny_f32, "--stop", stop)
    assert result["text"] == greedy["text"][:greedy["text"].index(stop)]
    assert result["finish_reason"] == "stop"
    assert len(result["ids"]) < len(greedy["ids"])


def test_the_first_of_several_stop_strings(tiny_f32, greedy):
    result = story(tiny_f32, "--stop", "lived", "--stop", "called", "--stop", "never written")
    assert result["text"] == greedy["text"][:greedy["text"].index("called")]


def test_a_stop_string_that_never_comes(tiny_f32, greedy):
    """`little bog` begins as the text does: what was held back must come out in the end."""
    result = story(tiny_f32, "--stop", "little bog")
    assert (result["text"], result["finish_reason"]) == (greedy["text"], "length")


# --- sampling

def test_sampling_repeats_with_its_seed(tiny_f32):
    one, again, other = (story(tiny_f32, "--temperature", 1.5, "--seed", s)["ids"] for s in (7, 7, 8))
    assert one == again != other


@pytest.mark.parametrize("flags", (("--temperature", 0), ("--temperature", 1, "--top-k", 1),
                                   ("--temperature", 1, "--top-p", 1e-6), ("--temperature", 1, "--min-p", 1)))
def test_limits_of_sampling_are_greedy(tiny_f32, greedy, flags):
    assert story(tiny_f32, *flags, "--seed", 3)["ids"] == greedy["ids"]


def test_repetition_penalty(tiny_f32, greedy):
    def repeats(ids):
        return len(ids) - len(set(ids))
    result = story(tiny_f32, "--repetition-penalty", 1.5)
    assert repeats(greedy["ids"]) > 3 and repeats(result["ids"]) < repeats(greedy["ids"])


# --- streaming

def stream(artifact, *flags):
    """The pieces of stdout as they arrive, and the exit code."""
    command = [tools.path_of("dsv3-run"), artifact, *map(str, flags)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        pieces = list(iter(lambda: os.read(process.stdout.fileno(), 1 << 16), b""))
        return pieces, process.wait(timeout=tools.TIMEOUT)


def without_last_newline(text):
    return text[:-1] if text.endswith("\n") else text


def test_streamed_text_is_the_text(tiny_f32):
    flags = ("--max-tokens", 200, "--ignore-eos")
    pieces, code = stream(tiny_f32, "--prompt", STORY, *flags)
    assert code == contract.OK
    assert len(pieces) > 1, "the text came in one piece, not as it was written"
    want = tools.generate(tiny_f32, "--prompt", STORY, *flags)["text"]
    assert without_last_newline(b"".join(pieces).decode()) == without_last_newline(want)


def test_streamed_text_stops_like_the_text(tiny_f32, greedy):
    pieces, _ = stream(tiny_f32, "--prompt", STORY, "--max-tokens", 32, "--stop", "boy called W")
    assert without_last_newline(b"".join(pieces).decode()) == greedy["text"][:greedy["text"].index("boy called W")]


@pytest.mark.parametrize("seed", range(6))
def test_never_broken_utf8(tiny_f32, golden_texts, seed):
    """Hot sampling draws lone bytes and halves of characters; every piece must still decode by itself."""
    flags = ("--prompt", golden_texts["unicode"]["text"], "--temperature", 5, "--seed", seed, "--max-tokens", 200,
             "--ignore-eos")
    pieces, code = stream(tiny_f32, *flags)
    assert code == contract.OK
    text = "".join(piece.decode("utf-8") for piece in pieces)
    assert without_last_newline(text) == without_last_newline(tools.generate(tiny_f32, *flags)["text"])


# --- batches

def test_batch_of_mixed_requests(tiny_f32, greedy):
    requests = [{"prompt": STORY, "max_tokens": 32}, {"ids": [0], "max_tokens": 3}, {"chat": QUESTION, "max_tokens": 5}]
    results, tensors = tools.batch(tiny_f32, requests)
    assert results[0]["ids"] == greedy["ids"] and results[0]["text"] == greedy["text"]
    assert [len(r["ids"]) for r in results] == [32, 3, 5]
    assert results[1]["prompt_ids"] == [0]
    for i, result in enumerate(results):
        assert FIELDS <= set(result)
        if tensors:
            assert len(tensors[f"logits.{i}"]) == len(result["prompt_ids"])


def test_logits_out_has_the_documented_shape(tiny_f32, tmp_path):
    out = tmp_path / "logits.safetensors"
    tools.generate(tiny_f32, "--ids=0,2037,660", "--max-tokens", 4, "--logits-out", out)
    with open(out, "rb") as f:
        size = int.from_bytes(f.read(8), "little")
        header = json.loads(f.read(size))
    assert (header["logits"]["dtype"], header["logits"]["shape"]) == ("F32", [3, 3584])
    assert (header["mtp_logits"]["dtype"], header["mtp_logits"]["shape"]) == ("F32", [2, 3584])
