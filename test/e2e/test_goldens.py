"""float32 against HuggingFace transformers on the example model."""
import numpy as np
import pytest

import contract
import tools


@pytest.fixture(scope="module")
def arith_taps(tiny_f32_taps, goldens):
    """(logits, states) of `arith` from the artifact that keeps every state."""
    _, tensors, states = tools.forward(tiny_f32_taps, goldens["arith.input_ids"], taps=True)
    return tensors["logits"], states


@pytest.fixture(scope="module")
def mtp_run(tiny_f32, goldens):
    return tools.forward(tiny_f32, goldens["mtp.input_ids"])[1]


def arith_states(goldens):
    """Golden name -> tap name of every stored state of `arith`."""
    names = [k[len("arith."):] for k in goldens if k.startswith("arith.")]
    return {name: contract.tap_of(name) for name in names if contract.tap_of(name)}


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_last_logits(golden_runs, goldens, name):
    want = goldens[f"{name}.last_logits"]
    tools.assert_close(golden_runs(name)[1][-1], want, contract.LOGIT_TOLERANCE, f"{name}: last logits")


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_top20_of_every_position(golden_runs, goldens, name):
    logits = golden_runs(name)[1]
    assert len(logits) == len(goldens[f"{name}.input_ids"])
    tools.assert_top_close(logits, goldens[f"{name}.top20_ids"], goldens[f"{name}.top20_logits"],
                           contract.LOGIT_TOLERANCE, f"{name}: top 20")


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_greedy_tokens(golden_runs, goldens, name):
    want, got = goldens[f"{name}.greedy_ids"].tolist(), golden_runs(name)[0]["ids"]
    first = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), None)
    margin = "" if first is None else f", where the best leads by {goldens[f'{name}.greedy_margin'][first]:.1e}"
    assert got == want, f"{name}: greedy tokens differ first at {first}{margin}"


@pytest.mark.parametrize("name", contract.PROMPTS)
def test_decode_agrees_with_prefill(tiny_f32, golden_runs, goldens, name):
    """The log probabilities of the generated tokens, from the absorbed attention of decode and its cache,
    against the same text given as a prompt."""
    ids = np.concatenate((goldens[f"{name}.input_ids"], goldens[f"{name}.greedy_ids"]))
    logits = tools.forward(tiny_f32, ids)[1]["logits"][-contract.GREEDY_TOKENS - 1:-1].astype(np.float64)
    best = logits.max(-1, keepdims=True)
    chosen = np.take_along_axis(logits, goldens[f"{name}.greedy_ids"][:, None].astype(np.int64), -1)
    want = (chosen - best - np.log(np.exp(logits - best).sum(-1, keepdims=True)))[:, 0]
    tools.assert_close(np.array(golden_runs(name)[0]["logprobs"]), want, contract.LOGIT_TOLERANCE, f"{name}: logprobs")


def test_all_logits_of_arith(golden_runs, goldens):
    tools.assert_close(golden_runs("arith")[1], goldens["arith.logits"], contract.LOGIT_TOLERANCE, "arith: all logits")


def test_the_goldens_hold_states_of_every_layer(goldens):
    """Guards the tests below against a golden file that lost its states."""
    taps = set(arith_states(goldens).values())
    assert {"embed", "final_norm"} <= taps
    assert {f"l{i}.{s}" for i in range(6) for s in ("input_norm", "q_b", "kv_a", "kv_b", "o", "mlp", "out")} <= taps
    assert {f"l{i}.{s}" for i in range(1, 6) for s in ("router", "route.ids", "route.weights")} <= taps


def test_states_of_arith(arith_taps, goldens):
    states, wrong = arith_taps[1], []
    for name, tap in arith_states(goldens).items():
        want = goldens[f"arith.{name}"]
        if tap not in states:
            wrong.append(f"{tap}: not in --taps-out")
        elif tap.endswith((".route.ids", ".route.weights")):
            continue                            # compared below, row by row in id order
        else:
            got = states[tap].reshape(len(want), -1)
            error = np.abs(got.astype(np.float64) - want).max() if got.shape == want.shape else np.inf
            if not error <= contract.STATE_TOLERANCE * np.abs(want).max():
                wrong.append(f"{tap}: off by {error / np.abs(want).max():.1e} of the largest value")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("layer", range(1, 6))
def test_experts_of_arith(arith_taps, goldens, layer):
    states, name = arith_taps[1], f"arith.layers.{layer}"
    got_ids, got_weights = tools.sorted_choices(states[f"l{layer}.route.ids"], states[f"l{layer}.route.weights"])
    ids, weights = tools.sorted_choices(goldens[name + ".topk_ids"], goldens[name + ".topk_weights"])
    np.testing.assert_array_equal(got_ids, ids, err_msg=f"layer {layer}: experts")
    allowed = contract.STATE_TOLERANCE * np.abs(weights).max()
    tools.assert_close(got_weights, weights, allowed, f"layer {layer}: expert weights")


def test_taps_change_no_bit(arith_taps, golden_runs):
    tools.assert_same_bits(arith_taps[0], golden_runs("arith")[1], "arith with and without taps")


def test_mtp_logits(mtp_run, goldens):
    tools.assert_close(mtp_run["mtp_logits"], goldens["mtp.logits"], contract.LOGIT_TOLERANCE, "mtp logits")


def test_mtp_choices(mtp_run, golden_texts):
    assert mtp_run["mtp_logits"].argmax(-1).tolist() == golden_texts["mtp_argmax_ids"]
