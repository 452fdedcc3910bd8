// Binds the weights a configuration asks for to the tensors a checkpoint holds.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "frontends/huggingface/Ledger.h"
#include "frontends/huggingface/ModelConfig.h"
#include "frontends/huggingface/TensorList.h"

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace dsv3::hf {

/// A weight that the checkpoint holds. Its source as a recipe: `file(tensor(0), scale
/// scaleTensor(0))` when `spec.members` is 0, else `stack` over the members.
struct Weight {
  WeightSpec spec;
  DType dtype;                ///< as stored; the same for all members
  std::optional<DType> scale; ///< of the scale grid, when `dtype` is F8E4M3

  std::string tensor(int64_t member = 0) const { return spec.tensor(member); }
  std::string scaleTensor(int64_t member = 0) const { return tensor(member) + "_scale_inv"; }
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
  /// Also read small tensors: router biases must be finite, weight scales finite and
  /// above 0. Off for checkpoints that are all header.
  bool checkValues = true;
};

/// Every expected weight with its shape, dtype and scale grid. BadCheckpoint errors name
/// the tensor and, for a shape, the fields of config.json it contradicts. A missing MTP
/// module is legal and noted. Afterwards the ledger is complete.
Result<ModelTensors> bindTensors(const ModelConfig &config, const Checkpoint &checkpoint,
                                 const TensorOptions &options = {});

/// The value checks of `TensorOptions::checkValues`, for one bound weight.
Status checkValues(const Weight &weight, const Checkpoint &checkpoint);

} // namespace dsv3::hf
