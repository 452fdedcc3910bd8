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

} // namespace dsv3::hf
