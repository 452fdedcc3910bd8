// Which tensors a DeepSeek-V3 checkpoint of a given configuration holds: names as in the
// public release, shapes as formulas over config.json's fields.
#pragma once

#include "frontends/huggingface/ModelConfig.h"

#include <string>
#include <vector>

namespace dsv3::hf {

/// What a weight is for. Shapes in brackets are of one member: [rows, columns] of a
/// linear are [out, in]. D = hidden_size, V = vocab_size.
enum class Role {
  Embedding,       ///< [V, D]
  FinalNorm,       ///< [D]
  LmHead,          ///< [V, D]
  InputNorm,       ///< [D]
  QA,              ///< [q_lora_rank, D]
  QANorm,          ///< [q_lora_rank]
  QB,              ///< [heads (nope + rope), q_lora_rank]; `Q` in models without q_lora_rank
  Q,               ///< [heads (nope + rope), D]
  KvA,             ///< [kv_lora_rank + rope, D]
  KvANorm,         ///< [kv_lora_rank]
  KvB,             ///< [heads (nope + v), kv_lora_rank]
  O,               ///< [D, heads v]
  PostNorm,        ///< [D], post_attention_layernorm
  Gate, Up, Down,  ///< dense FFN: [intermediate, D], the same, [D, intermediate]
  Router,          ///< [experts, D]
  RouterBias,      ///< [experts]
  ExpertGate, ExpertUp, ExpertDown, ///< one member per expert: [moe_intermediate, D], ...
  SharedGate, SharedUp, SharedDown, ///< [shared moe_intermediate, D], ...
  MtpEmbedding,    ///< [V, D], normally a copy of Embedding
  MtpEmbedNorm,    ///< [D], enorm
  MtpHiddenNorm,   ///< [D], hnorm
  MtpProjection,   ///< [D, 2 D], eh_proj; columns are [embedding | hidden]
  MtpHeadNorm,     ///< [D], shared_head.norm
  MtpHead,         ///< [V, D], normally a copy of LmHead
};

/// A dimension and the formula it comes from: 1536, "num_attention_heads 8 x
/// (qk_nope_head_dim 128 + qk_rope_head_dim 64)".
struct Dim {
  int64_t value;
  std::string formula;
};

/// One weight of the model before the checkpoint is looked at. The experts of a layer are
/// one weight with `members` tensors, so that later stages see one stacked operand.
struct WeightSpec {
  std::string site;  ///< the name used from here on: "l3.q_b", "embed", "l6.eh_proj"
  Role role;
  int64_t layer = -1; ///< decoder layer, or that of the MTP module; -1: none
  std::string prefix, suffix; ///< around the member's number, or the whole name and ""
  int64_t members = 0; ///< 0: a single tensor, not stacked
  std::vector<Dim> dims; ///< of one member
  bool quantisable = false; ///< a linear of a decoder layer, which formats store quantised

  /// Checkpoint name of member `i` (0 for a single tensor).
  std::string tensor(int64_t i = 0) const {
    return members ? prefix + std::to_string(i) + suffix : prefix;
  }
  /// Of a linear: the module that the tensor "MODULE.weight" belongs to.
  std::string module(int64_t i = 0) const {
    std::string name = tensor(i);
    return name.substr(0, name.rfind('.'));
  }
};

/// The main model, in release order. `lm_head` is in it unless it is tied.
std::vector<WeightSpec> mainWeights(const ModelConfig &config);

/// MTP module `m` (0-based), stored as layer `config.layers + m`. Embedding and head come
/// first and last; checkpoints may leave these two out.
std::vector<WeightSpec> mtpWeights(const ModelConfig &config, int64_t m);

} // namespace dsv3::hf
