// config.json of `deepseek_v3`, checked field by field.
//
// Field names and meaning: the configuration of the public DeepSeek-V3 release and of
// HuggingFace transformers (versions 4 and 5, which spell RoPE and dtype differently).
#pragma once

#include "frontends/huggingface/QuantConfig.h"
#include "runtime/core/DType.h"
#include "runtime/core/Json.h"
#include "runtime/core/Result.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::hf {

/// YaRN scaling of RoPE (https://arxiv.org/abs/2309.00071, as the release implements it).
struct YarnConfig {
  double factor;          ///< context extension, >= 1
  int64_t original;       ///< original_max_position_embeddings
  double betaFast = 32;   ///< turns over `original` above which a dim is not interpolated
  double betaSlow = 1;    ///< turns below which it is fully interpolated
  double mscale = 1;      ///< cos and sin are scaled by m(mscale) / m(mscaleAllDim)
  double mscaleAllDim = 0; ///< the softmax scale is multiplied by m(mscaleAllDim)^2

  /// m(s) = 0.1 s ln(factor) + 1, and 1 when factor <= 1.
  double magnitude(double s) const;
};

struct RopeConfig {
  double theta;
  bool interleaved = true;        ///< pairs are dims (2i, 2i+1), not (i, i + half)
  std::optional<YarnConfig> yarn; ///< none: plain RoPE

  /// Factor on the softmax scale beyond 1/sqrt(qk head dim).
  double softmaxFactor() const;
  /// Factor on cos and sin.
  double cosSinFactor() const;
};

/// The mixture-of-experts part; only meaningful when a layer uses it.
struct MoeConfig {
  int64_t experts = 0;      ///< n_routed_experts
  int64_t sharedExperts = 0; ///< n_shared_experts; one FFN of that many times `intermediate`
  int64_t intermediate = 0; ///< moe_intermediate_size
  int64_t perToken = 0;     ///< num_experts_per_tok
  int64_t groups = 0;       ///< n_group
  int64_t keptGroups = 0;   ///< topk_group
  int64_t layerFreq = 1;    ///< moe_layer_freq
  bool normalise = true;    ///< norm_topk_prob
  double scaling = 1;       ///< routed_scaling_factor
};

struct ModelConfig {
  int64_t hidden, layers, firstDense, vocab, maxPosition;
  int64_t intermediate;            ///< width of the dense FFN
  int64_t heads;
  std::optional<int64_t> qLoraRank; ///< null: queries come from one q_proj
  int64_t kvLoraRank, nopeDim, ropeDim, valueDim;
  double rmsNormEps;               ///< not used by the two norms inside attention: 1e-6
  MoeConfig moe;
  RopeConfig rope;
  std::optional<QuantConfig> quant; ///< none: weights are stored plain
  std::optional<DType> dtype;      ///< `dtype` or `torch_dtype`, for information
  bool tieEmbeddings = false;
  int64_t mtpModules = 0;          ///< num_nextn_predict_layers
  std::optional<int64_t> bos;
  std::vector<int64_t> eos;        ///< config.json's, then generation_config.json's

  /// Layers of the main model only; the layer inside an MTP module is always MoE.
  bool isMoe(int64_t layer) const {
    return layer >= firstDense && layer % moe.layerFreq == 0;
  }
  /// Whether any layer, MTP included, has experts.
  bool hasMoe() const;
  int64_t qkDim() const { return nopeDim + ropeDim; }
  /// (nope + rope)^-0.5, times YaRN's factor.
  double softmaxScale() const;
};

/// Reads DIR/config.json and, when present, DIR/generation_config.json (end tokens).
/// BadCheckpoint: a field missing, of a wrong type, or contradicting another; names it.
/// Unsupported: a valid value we do not implement; says which are.
Result<ModelConfig> readModelConfig(const std::string &dir);

/// The same from parsed JSON; `where` names the file in errors.
Result<ModelConfig> parseModelConfig(const Json &config, const std::string &where = "config.json");

/// Part of parseModelConfig.
Result<RopeConfig> parseRope(const Json &config, const std::string &where);

/// "config.json: hidden_act \"gelu\" is not supported, only \"silu\""
Error notSupported(const JsonFields &fields, const char *key, const std::string &supported);

} // namespace dsv3::hf
