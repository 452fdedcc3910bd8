// A checkpoint folder, read and checked: what the importer and other tools start from.
#pragma once

#include "frontends/huggingface/Checkpoint.h"
#include "frontends/huggingface/ModelConfig.h"
#include "frontends/huggingface/Tensors.h"

#include <memory>

namespace dsv3::hf {

struct Model {
  ModelConfig config;
  /// On the heap: `tensors` points into it.
  std::unique_ptr<Checkpoint> checkpoint;
  ModelTensors tensors;
};

/// config.json, then the files, then the tensors; the first error ends it.
Result<Model> readModel(const std::string &dir, const TensorOptions &options = {});

/// A model of config.json alone: the tensors that a checkpoint in the native format would hold (FP8 where the configuration
/// says so, else BF16), with numbers that are drawn. MTP modules share embedding and head with the main model.
Result<Model> drawModel(const std::string &dir);

} // namespace dsv3::hf
