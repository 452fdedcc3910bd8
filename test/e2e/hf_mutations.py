"""Planted bugs: what a wrong implementation would do to the logits of an odd configuration.

Each entry takes (config, weights) copies and returns a model with one mistake, or None where the
configuration cannot show it. make_goldens.py records by how much each moves the logits: a golden
that a mistake does not move proves nothing.
"""
import copy
import math

import torch
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as hf

import hf_reference

MUTATIONS = {}


def mutation(fn):
    MUTATIONS[fn.__name__] = fn
    return fn


def model_of(config, weights):
    return hf_reference.build(config, weights)[0]


def routers(model):
    return [layer.mlp.gate for layer in model.model.layers if hasattr(layer.mlp, "gate")]


def attentions(model):
    return [layer.self_attn for layer in model.model.layers]


def with_weights(config, weights, part, change):
    """The model with `change` applied to every weight of the trunk whose name ends in `part`."""
    changed = {k: change(v) if k.endswith(part) else v for k, v in weights.items()}
    return model_of(config, changed)


@mutation
def router_bias_dropped(config, weights):
    return with_weights(config, weights, "e_score_correction_bias", torch.zeros_like)


@mutation
def router_bias_in_the_weights(config, weights):
    model = model_of(config, weights)
    for gate in routers(model):
        def forward(x, gate=gate):
            logits, _, ids = hf_reference.release_router(gate, x)
            w = (logits.sigmoid() + gate.e_score_correction_bias).gather(1, ids)
            w = w / (w.sum(-1, keepdim=True) + 1e-20) if gate.norm_topk_prob else w
            return logits, w * gate.routed_scaling_factor, ids
        gate.forward = forward
    return model


@mutation
def group_score_of_the_best_expert_only(config, weights):
    if config["topk_group"] == config["n_group"]:
        return None
    model = model_of(config, weights)
    for gate in routers(model):
        gate.group_best = 1
    return model


@mutation
def dropped_groups_masked_with_zero(config, weights):
    if config["topk_group"] == config["n_group"]:
        return None
    model = model_of(config, weights)
    for gate in routers(model):
        gate.masked_score = 0.0
    return model


@mutation
def groups_ignored(config, weights):
    if config["topk_group"] == config["n_group"]:
        return None
    return model_of(dict(config, topk_group=config["n_group"]), weights)


@mutation
def topk_not_normalised_or_normalised(config, weights):
    return model_of(dict(config, norm_topk_prob=not config["norm_topk_prob"]), weights)


@mutation
def routed_scaling_ignored(config, weights):
    if config["routed_scaling_factor"] == 1.0:
        return None
    return model_of(dict(config, routed_scaling_factor=1.0), weights)


@mutation
def shared_experts_forgotten(config, weights):
    return with_weights(config, weights, "shared_experts.down_proj.weight", torch.zeros_like)


@mutation
def rope_layout_swapped(config, weights):
    return model_of(dict(config, rope_interleave=not config["rope_interleave"]), weights)


@mutation
def rope_forgotten(config, weights):
    model = model_of(config, weights)
    model.model.rotary_emb.inv_freq.zero_()
    return model


@mutation
def yarn_ignored(config, weights):
    if not config["rope_scaling"]:
        return None
    return model_of(dict(config, rope_scaling=None), weights)


@mutation
def yarn_frequencies_ignored(config, weights):
    if not config["rope_scaling"]:
        return None
    model = model_of(config, weights)
    model.model.rotary_emb.inv_freq.copy_(model_of(dict(config, rope_scaling=None), weights).model.rotary_emb.inv_freq)
    return model


@mutation
def yarn_cos_sin_factor_ignored(config, weights):
    model = model_of(config, weights)
    if model.model.rotary_emb.attention_scaling == 1.0:
        return None
    model.model.rotary_emb.attention_scaling = 1.0
    return model


@mutation
def softmax_scale_of_the_nope_part(config, weights):
    model = model_of(config, weights)
    ratio = (config["qk_nope_head_dim"] + config["qk_rope_head_dim"]) / config["qk_nope_head_dim"]
    for attention in attentions(model):
        attention.scaling *= math.sqrt(ratio)
    return model


@mutation
def attention_norms_with_the_models_eps(config, weights):
    if config["rms_norm_eps"] == 1e-6:
        return None
    model = model_of(config, weights)
    for attention in attentions(model):
        attention.kv_a_layernorm.variance_epsilon = config["rms_norm_eps"]
        if attention.q_a_layernorm is not None:
            attention.q_a_layernorm.variance_epsilon = config["rms_norm_eps"]
    return model


@mutation
def norms_with_eps_1e_6(config, weights):
    if config["rms_norm_eps"] == 1e-6:
        return None
    return model_of(dict(config, rms_norm_eps=1e-6), weights)


@mutation
def latent_norm_forgotten(config, weights):
    return with_weights(config, weights, "kv_a_layernorm.weight", torch.ones_like)


@mutation
def gate_and_up_swapped(config, weights):
    def other(name):
        for a, b in (("gate_proj", "up_proj"), ("up_proj", "gate_proj")):
            if f".{a}." in name:
                return name.replace(a, b)
        return name
    return model_of(config, {k: weights[other(k)] for k in weights})


@mutation
def last_column_of_intermediate_lost(config, weights):
    def change(w):
        w = w.clone()
        w[:, -1] = 0
        return w
    return with_weights(config, weights, "down_proj.weight", change)


@mutation
def attention_sees_one_key_less(config, weights):
    """The oldest key of every context is masked, as by an off-by-one in a page or split boundary."""
    model = copy.deepcopy(model_of(config, weights))
    for attention in attentions(model):
        def forward(*args, attention=attention, attention_mask=None, **kw):
            mask = attention_mask.clone()
            mask[..., 1:, 0] = torch.finfo(mask.dtype).min
            return hf.DeepseekV3Attention.forward(attention, *args, attention_mask=mask, **kw)
        attention.forward = forward
    return model


def mtp_of(config, weights, changes):
    """The model and an MTP module with some of the module's own weights replaced."""
    prefix = f"model.layers.{config['num_hidden_layers']}."
    changed = {prefix + k: make({n[len(prefix):]: w for n, w in weights.items() if n.startswith(prefix)})
               for k, make in changes.items()}
    return hf_reference.build(config, {**weights, **changed})


MTP_MUTATIONS = {
    "mtp_halves_swapped": {"eh_proj.weight": lambda w: w["eh_proj.weight"].roll(w["eh_proj.weight"].shape[0], 1)},
    "mtp_norms_swapped": {"enorm.weight": lambda w: w["hnorm.weight"], "hnorm.weight": lambda w: w["enorm.weight"]},
    "mtp_head_norm_forgotten": {"shared_head.norm.weight": lambda w: torch.ones_like(w["shared_head.norm.weight"])},
    "mtp_router_bias_dropped": {"mlp.gate.e_score_correction_bias":
                                lambda w: torch.zeros_like(w["mlp.gate.e_score_correction_bias"])},
}
