// `quantization_config` of config.json: which linears of a checkpoint are quantised, and how they are stored.
//
// Formats: DeepSeek's FP8 blocks; compressed-tensors (https://github.com/vllm-project/compressed-tensors);
// AutoAWQ's GEMM version (https://github.com/casper-hansen/AutoAWQ); GPTQ as AutoGPTQ and GPTQModel write it;
// SlimQuant W4A8.
#pragma once

#include "frontends/huggingface/NamePattern.h"
#include "runtime/core/Json.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::hf {

/// How the codes of a matrix [N, K] lie in their tensor: `packed` of `#dsv3.file`, which has the bits.
enum class Packing { Plain, Words, Gptq, GptqV2, Awq, HighFirst };

/// Names of a quantised linear's tensors, behind "model.layers.0.mlp.up_proj."; empty: the format has none.
struct PartNames {
  std::string data = "weight", scale = "weight_scale", zero, index, shape;
};

/// How activations [T, K] are stored where they meet a linear: scales computed at run time, from each row alone.
struct ActivationScheme {
  bool integer = true;   ///< int8, else FP8 (E4M3)
  int64_t blockCols = 0; ///< channels of a row that share a scale; 0: all
  bool ue8m0 = false;    ///< scales are rounded up to powers of two

  /// "int8 per token", "fp8 per token and 128 channels".
  std::string text() const;
};

/// How a linear [N, K] is stored: value = (code - zero point) * scale.
struct StoredScheme {
  enum class Code { F8E4M3, I8, I4 };

  Code code = Code::F8E4M3;
  int64_t blockRows = 128, blockCols = 128; ///< elements that share a scale; 0: the whole dim
  bool zeroPoints = false;
  bool ue8m0 = false;    ///< scales are powers of two
  bool mayIndex = false; ///< a part `index` may say which group a column belongs to (act_order)
  bool f16Scales = true; ///< F16 is a legal type of scales, besides F32 and BF16
  Packing packing = Packing::Plain;
  PartNames names;
  std::optional<ActivationScheme> activation; ///< what the checkpoint asks of the linear's input; none: nothing

  int bits() const { return code == Code::I4 ? 4 : 8; }
  bool isFp8() const { return code == Code::F8E4M3; }
  /// Scales and zero points stand as [groups, N], not [N, groups].
  bool transposedGrid() const { return packing == Packing::Gptq || packing == Packing::GptqV2 || packing == Packing::Awq; }
  /// "int4 in groups of 128", "fp8 in blocks of 128x128", "int8 per channel".
  std::string text() const;
};

/// The module's name, and what it is called where it is fused with a sibling (gate_up_proj, fused_qkv_a_proj).
std::vector<std::string> moduleNames(const std::string &module);

/// Linears of one scheme.
struct QuantGroup {
  std::vector<NamePattern> targets;
  bool allLinears = false; ///< targets "Linear": what no name or expression of any group matches
  StoredScheme scheme;
};

struct QuantConfig {
  std::string method;      ///< `quant_method`
  std::string unmetActivations; ///< what the checkpoint asks of activations and nothing here does, "int8 per tensor, static"; empty: nothing
  bool fp8Cache = false;   ///< the checkpoint asks for a cache in FP8 (E4M3); its own scales, if any, are of no use to ours per token
  std::vector<QuantGroup> groups;
  std::vector<NamePattern> ignored;

  /// The scheme of a linear: of the group that names it, else of the one whose expression matches, else of the
  /// one for all linears; null when none does, or when it is ignored.
  Result<const StoredScheme *> schemeOf(const std::string &module) const;
  /// Whether the module is ignored under its own name, or under that of a fusion it takes part in (gate_up_proj,
  /// fused_qkv_a_proj), as engines that fuse write it.
  Result<bool> ignores(const std::string &module) const;
};

/// From the whole of config.json: `quantization_config`, or `compression_config`, its older name. None when there is
/// neither. Unsupported: a legal value that is not read; says which are.
Result<std::optional<QuantConfig>> parseQuantization(const Json &config, const std::string &where);

// Parts of parseQuantization.
Result<QuantConfig> parseCompressedTensors(const JsonFields &fields);
/// A list of names under `key`; empty when missing or null.
Result<std::vector<std::string>> stringList(const JsonFields &fields, const char *key);
Result<std::vector<NamePattern>> patternList(const JsonFields &fields, const char *key);
/// A group size: positive, or -1 (0 here) for whole rows.
Result<int64_t> groupSize(const JsonFields &fields, const char *key);
Result<int64_t> groupSizeOr(const JsonFields &fields, const char *key, int64_t fallback);

} // namespace dsv3::hf
