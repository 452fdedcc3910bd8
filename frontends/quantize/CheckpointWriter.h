// Writes a quantised checkpoint folder in the compressed-tensors format, shard by shard.
//
// Source of names, layouts and arguments: compressors/ and quantization/quant_args.py of
// https://github.com/vllm-project/compressed-tensors. vLLM and our own reader (frontends/huggingface) load it.
#pragma once

#include "frontends/quantize/Inputs.h"
#include "runtime/core/Json.h"
#include "runtime/core/Result.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::quantize {

/// A tensor of the folder to be.
struct OutTensor {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  std::string owned;     ///< the bytes, or
  std::string_view view; ///< bytes that somebody else keeps

  std::string_view data() const { return owned.empty() ? view : std::string_view(owned); }
};

/// How a linear is stored, for config.json.
struct StoredModule {
  std::optional<Scheme> weight, activation; ///< none: plain

  /// Eight int4 codes to a word. With int8 activations a code has a byte of its own, as compressed-tensors writes that pair and vLLM
  /// reads it of experts (`int-quantized`).
  bool packed() const;

  bool operator<(const StoredModule &other) const;
};

/// The tensors of a quantised linear: `MODULE.weight_packed` (eight int4 codes + 8 in an int32, the first column lowest) with
/// `weight_shape` where `stored` is packed, else `MODULE.weight` (a byte a code), and `MODULE.weight_scale`.
std::vector<OutTensor> tensorsOf(const std::string &module, const StoredModule &stored, const QuantizedMatrix &matrix);

/// `quantization_config` of these linears: a group per way of storing, with its modules as `targets`; plain ones are ignored. Modules
/// that differ only in the number of their layer or expert become one `re:` pattern where all of them are stored alike, else one
/// per layer. The group with most modules targets "Linear", as engines expect of experts.
OrderedJson quantizationConfig(const std::map<std::string, StoredModule> &modules);

/// The same modules as other engines can run them: int8 activations with a scale per token, also where our own policy has one per 128
/// channels. These scales are made while serving, so nothing stored changes.
std::map<std::string, StoredModule> forOtherEngines(std::map<std::string, StoredModule> modules);

/// Writes into an existing folder.
class CheckpointWriter {
public:
  CheckpointWriter(std::string folder, int64_t shards) : folder(std::move(folder)), shards(shards) {}

  /// Writes model-0000I-of-0000N.safetensors with these tensors. Usage error when the disk is full or the folder not writable.
  Status shard(const std::vector<OutTensor> &tensors);

  /// The index of all shards, and config.json: `config` with its `quantization_config` replaced.
  Status finish(Json config, const OrderedJson &quantization);

private:
  Status write(const std::string &name, const std::string &content);

  std::string folder;
  int64_t shards, written = 0;
  uint64_t bytes = 0;
  std::map<std::string, std::string> fileOf; ///< of each tensor
};

} // namespace dsv3::quantize
