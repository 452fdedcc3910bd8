// Binds the weights a configuration asks for to the tensors a checkpoint holds.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "frontends/huggingface/Ledger.h"
#include "frontends/huggingface/ModelConfig.h"
#include "frontends/huggingface/QuantTensors.h"
#include "frontends/huggingface/TensorList.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace dsv3::hf {

/// A weight that the checkpoint holds. Its source as a recipe: `file(tensor(0), scale
/// scaleTensor(0), ...)` when `spec.members` is 0, else `stack` over the members.
struct Weight {
  WeightSpec spec;
  DType dtype;                ///< as stored; the same for all members. Of codes when quantised
  std::optional<DType> scale; ///< of the scales, when quantised
  std::optional<StoredScheme> scheme; ///< none: stored plain
  bool indexed = false;       ///< the groups of columns stand in a tensor (act_order)

  std::string tensor(int64_t member = 0) const { return scheme ? part(scheme->names.data, member) : spec.tensor(member); }
  /// Only when quantised; those of zero points and indices only where the scheme has them.
  std::string scaleTensor(int64_t member = 0) const { return part(scheme->names.scale, member); }
  std::string zeroTensor(int64_t member = 0) const { return part(scheme->names.zero, member); }
  std::string indexTensor(int64_t member = 0) const { return part(scheme->names.index, member); }
  /// "model.layers.0.mlp.up_proj." and the name of a part.
  std::string part(const std::string &name, int64_t member) const { return spec.module(member) + "." + name; }
  /// With the number of members in front when stacked: [E, N, K].
  std::vector<int64_t> shape() const;
};

/// All weights of the model, in release order.
struct ModelTensors {
  std::vector<Weight> weights;
  int64_t mtpModules = 0; ///< present in the checkpoint; config.json may promise more
  std::vector<std::string> notes; ///< what a user should know, one line each
  Ledger ledger;

  /// nullptr when the model has no such weight ("lm_head" when tied, "l6.embed" when it is
  /// a copy of "embed").
  const Weight *find(const std::string &site) const;
  /// The weight that serves as the embedding or head of the MTP module at `layer`.
  const Weight *mtpEmbedding(int64_t layer) const;
  const Weight *mtpHead(int64_t layer) const;
  const Weight *lmHead() const;

  std::unordered_map<std::string, size_t> bySite;
};

struct TensorOptions {
  /// Also read small tensors: router biases must be finite, and what checkPartValues() looks at. Off for
  /// checkpoints that are all header.
  bool checkValues = true;
};

/// Every expected weight with its shape, dtype and scale grid. BadCheckpoint errors name
/// the tensor and, for a shape, the fields of config.json it contradicts. A missing MTP
/// module is legal and noted. Afterwards the ledger is complete.
Result<ModelTensors> bindTensors(const ModelConfig &config, const Checkpoint &checkpoint,
                                 const TensorOptions &options = {});

} // namespace dsv3::hf
