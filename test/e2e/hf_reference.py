"""DeepSeek-V3 by HuggingFace transformers: the oracle behind test/goldens/odd.

float32 (or float64), eager attention, on exactly dequantised weights. The FP8 blocks are dequantised
here, because transformers' own loader refuses partial edge blocks. The router is replaced by the
release's rule (see `release_router`). Needs torch and transformers 5; nothing at test time does.
"""
import json
import os

import numpy as np
import torch
import torch.nn.functional as F
import transformers
from transformers.models.deepseek_v3 import modeling_deepseek_v3 as hf

import safetensors_np

torch.set_grad_enabled(False)
BLOCK = 128


def dequantise(weight, scale):
    """weight [N, K] times its block's scale [ceil(N/128), ceil(K/128)], one float32 product per value."""
    n, k = weight.shape
    assert scale.shape == (-(-n // BLOCK), -(-k // BLOCK)), (weight.shape, scale.shape)
    return weight * scale.repeat(BLOCK, 0)[:n].repeat(BLOCK, 1)[:, :k]


def read_checkpoint(folder):
    """(config, {name: float32 tensor}), FP8 weights dequantised and their scales dropped."""
    config = json.load(open(os.path.join(folder, "config.json")))
    index = json.load(open(os.path.join(folder, "model.safetensors.index.json")))["weight_map"]
    raw = {}
    for shard in sorted(set(index.values())):
        raw.update(safetensors_np.load(os.path.join(folder, shard)))
    assert set(raw) == set(index), "the shards and the index name different tensors"
    weights = {}
    for name, value in raw.items():
        if name.endswith("_scale_inv"):
            continue
        scale = raw.get(name + "_scale_inv")
        value = dequantise(value, scale) if scale is not None else value
        weights[name] = torch.from_numpy(np.array(value, dtype="f4"))
    return config, weights


def release_router(self, x):
    """DeepseekV3TopkRouter.forward with the release's rule: outside the kept groups a score is minus
    infinity. Older versions of transformers put 0.0 there, which picks other experts as soon as the
    kept scores are negative. The attributes `group_best` and `masked_score` exist for hf_mutations."""
    x = x.view(-1, self.hidden_dim)
    logits = F.linear(x, self.weight.type(x.dtype))
    scores = logits.sigmoid()
    biased = scores + self.e_score_correction_bias
    groups = biased.view(len(x), self.num_group, -1)
    group_scores = groups.topk(getattr(self, "group_best", 2), dim=-1)[0].sum(-1)
    kept = torch.zeros_like(group_scores).scatter_(1, group_scores.topk(self.topk_group, dim=-1)[1], 1) > 0
    masked = groups.masked_fill(~kept[..., None], getattr(self, "masked_score", float("-inf"))).flatten(1)
    order = masked.sort(dim=-1, descending=True, stable=True)
    ids = order[1][:, :self.top_k]
    self.margins = choice_margins(group_scores, order[0], self.topk_group, self.top_k)
    weights = scores.gather(1, ids)
    if self.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return logits, weights * self.routed_scaling_factor, ids


def choice_margins(group_scores, sorted_scores, keep, top):
    """How far each row is from choosing other groups or experts: below float32 noise a test would be a coin toss."""
    experts = sorted_scores[:, top - 1] - sorted_scores[:, top]
    if keep == group_scores.shape[1]:
        return experts
    groups = group_scores.sort(dim=-1, descending=True)[0]
    return torch.minimum(experts, groups[:, keep - 1] - groups[:, keep])


hf.DeepseekV3TopkRouter.forward = release_router


def stack_experts(weights, prefix, count):
    """transformers keeps all experts of a layer in two tensors: [E, 2F, D] gate over up, and [E, D, F]."""
    def expert(e, part):
        return weights[f"{prefix}.{e}.{part}_proj.weight"]
    return {"gate_up_proj": torch.stack([torch.cat((expert(e, "gate"), expert(e, "up"))) for e in range(count)]),
            "down_proj": torch.stack([expert(e, "down") for e in range(count)])}


def fill(module, weights, prefix, experts, tied=False):
    """Load every parameter of `module` from the checkpoint's names; a missing or misshapen one is an error."""
    state = {}
    for name, target in module.state_dict().items():
        full = prefix + name
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            folder, part = full.rsplit(".", 1)
            value = stack_experts(weights, folder, experts)[part]
        elif tied and name == "lm_head.weight":
            value = weights["model.embed_tokens.weight"]
        else:
            value = weights[full]
        assert value.shape == target.shape, (full, tuple(value.shape), tuple(target.shape))
        state[name] = value
    module.load_state_dict(state)
    return module


class Mtp:
    """The MTP module, which DeepseekV3ForCausalLM does not run, on transformers' own decoder layer."""

    def __init__(self, model, weights):
        config = model.config
        prefix = f"model.layers.{config.num_hidden_layers}."
        dtype = model.lm_head.weight.dtype
        self.model = model
        self.w = {k[len(prefix):]: v.to(dtype) for k, v in weights.items() if k.startswith(prefix)}
        layer = hf.DeepseekV3DecoderLayer(config, config.num_hidden_layers)
        self.layer = fill(layer, weights, prefix, config.n_routed_experts).to(dtype).eval()

    def norm(self, x, name):
        norm = hf.DeepseekV3RMSNorm(x.shape[-1], eps=self.model.config.rms_norm_eps)
        norm.weight.data = self.w[name + ".weight"]
        return norm(x)

    def __call__(self, ids, hidden):
        """ids [T], hidden [T, D] the main model's final-norm output -> logits [T-1, V]; row i predicts token i+2."""
        embedded = self.w["embed_tokens.weight"][ids[1:]]
        pair = torch.cat((self.norm(embedded, "enorm"), self.norm(hidden[:-1], "hnorm")), -1)
        x = F.linear(pair, self.w["eh_proj.weight"])[None]
        n = x.shape[1]
        mask = torch.full((n, n), torch.finfo(x.dtype).min, dtype=x.dtype).triu(1)[None, None]
        at = torch.arange(n)[None]
        y = self.layer(x, attention_mask=mask, position_ids=at, position_embeddings=self.model.model.rotary_emb(x, at))
        y = (y[0] if isinstance(y, tuple) else y)[0]
        return F.linear(self.norm(y, "shared_head.norm"), self.w["shared_head.head.weight"])


def build(config, weights, dtype=torch.float32):
    """(model, Mtp or None) from a checkpoint's config.json and its dequantised weights."""
    plain = {k: v for k, v in config.items() if k not in ("quantization_config", "torch_dtype")}
    hf_config = transformers.DeepseekV3Config(**plain)
    hf_config._attn_implementation = "eager"
    hf_config._experts_implementation = "eager"
    tied = config.get("tie_word_embeddings", False)
    model = fill(hf.DeepseekV3ForCausalLM(hf_config), weights, "", config["n_routed_experts"], tied).to(dtype).eval()
    return model, Mtp(model, weights) if config.get("num_nextn_predict_layers") else None
