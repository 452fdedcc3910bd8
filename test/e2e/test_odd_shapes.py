"""Shapes and options that the example model does not have.

Against HuggingFace transformers on the configurations of odd_configs.py, whose goldens are in
test/goldens/odd; and against dsv3-interpret on shapes drawn from a printed seed (DSV3_SHAPES_SEED
repeats one). Both checkpoints are random, with a gain at which every part of the model matters.
"""
import json
import os
import random
import time

import numpy as np
import pytest

import contract
import odd_configs
import safetensors_np
import tools

DRAWN = 4
SEED = int(os.environ.get("DSV3_SHAPES_SEED", time.time_ns() % 10 ** 9))
SIZES = ("--max-model-len=512", "--max-batch=4")


class Odd:
    """One configuration: its golden, and its artifact's output for every golden prompt."""

    def __init__(self, name, folder, artifacts):
        with open(os.path.join(odd_configs.GOLDENS, name + ".json")) as f:
            about = json.load(f)
        self.golden = safetensors_np.load(os.path.join(odd_configs.GOLDENS, name + ".safetensors"))
        self.checkpoint = odd_configs.make_checkpoint(odd_configs.config_file(name), folder, odd_configs.SEEDS[name])
        made = odd_configs.checkpoint_hash(self.checkpoint)
        assert made == about["checkpoint_sha256"], \
            f"make_checkpoint.py wrote other weights for '{name}' than the golden was made of (SHA-256 {made[:12]}, " \
            f"expected {about['checkpoint_sha256'][:12]}): make the goldens anew, see README.md"
        taps = r"--taps=embed|final_norm|l[0-9]+\.(out|route\.ids|route\.weights)"
        self.artifact = artifacts.get(self.checkpoint, "--dtype=f32", taps, *SIZES)
        self.runs = {n: tools.forward(self.artifact, self.golden[f"p{n}.input_ids"], taps=True,
                                      max_tokens=odd_configs.GREEDY) for n in odd_configs.LENGTHS}

    def states(self, prompt):
        """Golden name -> (stored, ours) for everything a tap keeps of p{prompt}."""
        prefix = f"p{prompt}."
        names = [k[len(prefix):] for k in self.golden if k.startswith(prefix)]
        taps = self.runs[prompt][2]
        return {n: (self.golden[prefix + n], taps[contract.tap_of(n)]) for n in names if contract.tap_of(n)}


@pytest.fixture(scope="module", params=list(odd_configs.SEEDS))
def odd(request, tmp_path_factory, artifacts):
    return Odd(request.param, str(tmp_path_factory.mktemp(request.param)), artifacts)


@pytest.mark.parametrize("length", odd_configs.LENGTHS)
def test_logits(odd, length):
    golden, logits = odd.golden, odd.runs[length][1]["logits"]
    assert len(logits) == length
    tools.assert_close(logits[-1], golden[f"p{length}.last_logits"], contract.LOGIT_TOLERANCE, "last logits")
    tools.assert_top_close(logits, golden[f"p{length}.top20_ids"], golden[f"p{length}.top20_logits"],
                           contract.LOGIT_TOLERANCE, "top 20")


def test_all_logits_of_p7(odd):
    tools.assert_close(odd.runs[7][1]["logits"], odd.golden["p7.logits"], contract.LOGIT_TOLERANCE, "all logits")


@pytest.mark.parametrize("length", odd_configs.LENGTHS)
def test_greedy_tokens(odd, length):
    assert odd.runs[length][0]["ids"] == odd.golden[f"p{length}.greedy_ids"].tolist()


@pytest.mark.parametrize("length", odd_configs.LENGTHS)
def test_experts(odd, length):
    for name, (want, got) in odd.states(length).items():
        if name.endswith(".topk_ids"):
            np.testing.assert_array_equal(tools.sorted_choices(got), tools.sorted_choices(want), err_msg=name)


def test_states_of_p7(odd):
    states = odd.states(7)
    assert "embed" in states and "layers.0.out" in states and "final_norm" in states
    for name, (want, got) in states.items():
        if name.endswith(".topk_weights"):
            ids_want, ids_got = states[name.replace("weights", "ids")]
            want, got = tools.sorted_choices(ids_want, want)[1], tools.sorted_choices(ids_got, got)[1]
        if not name.endswith(".topk_ids"):
            tools.assert_close(got, want, contract.ODD_STATE_TOLERANCE * np.abs(want).max(), name)


def test_mtp(odd):
    golden = odd.golden
    if "mtp.logits" not in golden:
        assert "mtp_logits" not in odd.runs[7][1], "an artifact without an MTP module has no mtp_logits"
        return
    tools.assert_close(odd.runs[7][1]["mtp_logits"], golden["mtp.logits"], contract.LOGIT_TOLERANCE, "mtp logits")
    last = odd.runs[130][1]["mtp_logits"]
    tools.assert_close(last[-1], golden["mtp.last_logits"], contract.LOGIT_TOLERANCE, "mtp logits, last position")
    assert last.argmax(-1).tolist() == golden["mtp.argmax"].tolist()


def test_prompt_needs_a_tokenizer(odd):
    tools.refuse(contract.USAGE, "tokenizer", "dsv3-run", odd.artifact, "--prompt", "hello")


def draw(rng):
    """A configuration that the front end must accept: every size drawn apart from the others."""
    eights = lambda low, high: 8 * rng.randint(low, high)
    group, groups = rng.randint(2, 5), rng.randint(1, 6)
    keep = rng.randint(1, groups)
    layers = rng.randint(1, 3)
    with open(odd_configs.config_file("moe-first")) as f:
        config = json.load(f)
    yarn = dict(config["rope_scaling"], original_max_position_embeddings=rng.choice((32, 4096)),
                mscale=rng.choice((1.0, 0.7)))
    heads = rng.randint(1, 6)
    config.update(
        vocab_size=rng.randint(40, 1200), hidden_size=eights(4, 40), intermediate_size=eights(2, 40),
        moe_intermediate_size=eights(2, 24), num_attention_heads=heads, num_key_value_heads=heads,
        q_lora_rank=rng.choice((None, eights(2, 24))), kv_lora_rank=eights(4, 40), qk_rope_head_dim=eights(1, 8),
        qk_nope_head_dim=eights(1, 16), v_head_dim=eights(1, 16), n_routed_experts=group * groups, n_group=groups,
        topk_group=keep, num_experts_per_tok=rng.randint(1, min(8, keep * group)), n_shared_experts=rng.randint(1, 2),
        num_hidden_layers=layers, first_k_dense_replace=rng.randint(0, layers), rope_scaling=rng.choice((None, yarn)),
        num_nextn_predict_layers=0, rope_interleave=rng.random() < 0.5, norm_topk_prob=rng.random() < 0.5,
        routed_scaling_factor=rng.choice((1.0, 2.5)), tie_word_embeddings=rng.random() < 0.25)
    if rng.random() < 0.4:
        del config["quantization_config"]
    elif rng.random() < 0.4:
        config["quantization_config"]["scale_fmt"] = "ue8m0"
    return config


@pytest.mark.parametrize("index", range(DRAWN))
def test_drawn_shapes_match_the_reference(index, tmp_path, artifacts):
    print(f"DSV3_SHAPES_SEED={SEED} repeats this")
    rng = random.Random(SEED * 1000 + index)
    config = draw(rng)
    print(json.dumps(config))
    (tmp_path / "config.json").write_text(json.dumps(config))
    checkpoint = odd_configs.make_checkpoint(tmp_path / "config.json", str(tmp_path / "checkpoint"), SEED + index)
    artifact = artifacts.get(checkpoint, "--dtype=f32", *SIZES)
    ids = [rng.randrange(config["vocab_size"]) for _ in range(rng.choice((1, 5, 64, 77)))]
    logits = tools.forward(artifact, ids)[1]["logits"]
    reference = tools.interpret(checkpoint, ids, tmp_path)
    tools.assert_close(logits, reference, contract.LOGIT_TOLERANCE, f"seed {SEED}, shape {index}: logits")


def test_drawing_covers_the_options():
    """The generator itself: two hundred draws reach both sides of every choice, and keep the rules of the router."""
    drawn = [draw(random.Random(i)) for i in range(200)]
    for key in ("q_lora_rank", "rope_scaling", "rope_interleave", "norm_topk_prob", "tie_word_embeddings"):
        assert {bool(c[key]) for c in drawn} == {True, False}, key
    assert {"quantization_config" in c for c in drawn} == {True, False}
    assert all(c["topk_group"] * (c["n_routed_experts"] // c["n_group"]) >= c["num_experts_per_tok"] for c in drawn)
    assert {c["first_k_dense_replace"] == c["num_hidden_layers"] for c in drawn} == {True, False}
