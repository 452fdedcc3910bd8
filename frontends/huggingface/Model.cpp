#include "frontends/huggingface/Model.h"

#include <algorithm>

namespace dsv3::hf {

static Result<Model> bindModel(ModelConfig config, Checkpoint checkpoint, const TensorOptions &options) {
  auto owned = std::make_unique<Checkpoint>(std::move(checkpoint));
  Result<ModelTensors> tensors = bindTensors(config, *owned, options);
  if (!tensors)
    return tensors.error();
  return Model{std::move(config), std::move(owned), std::move(*tensors)};
}

Result<Model> readModel(const std::string &dir, const TensorOptions &options) {
  Result<ModelConfig> config = readModelConfig(dir);
  if (!config)
    return config.error();
  Result<Checkpoint> checkpoint = Checkpoint::open(dir);
  if (!checkpoint)
    return checkpoint.error();
  return bindModel(std::move(*config), std::move(*checkpoint), options);
}

//===-- Without a checkpoint ----------------------------------------------===//

/// The tensors of one weight, scales included.
static void addTensors(const ModelConfig &config, const WeightSpec &spec, std::vector<StoredTensor> &tensors) {
  std::vector<int64_t> shape;
  for (const Dim &dim : spec.dims)
    shape.push_back(dim.value);
  bool fp8 = config.quant && spec.quantisable;
  DType type = fp8 ? DType::F8E4M3 : spec.role == Role::RouterBias ? DType::F32 : DType::BF16;
  for (int64_t e = 0; e < std::max<int64_t>(1, spec.members); ++e) {
    tensors.push_back({spec.tensor(e), type, shape, {}});
    if (!fp8)
      continue;
    auto blocks = [](int64_t n, int64_t block) { return (n + block - 1) / block; };
    const StoredScheme &scheme = config.quant->groups.front().scheme;
    tensors.push_back({spec.module(e) + "." + scheme.names.scale, DType::F32, {blocks(shape[0], scheme.blockRows), blocks(shape[1], scheme.blockCols)}, {}});
  }
}

Result<Model> drawModel(const std::string &dir) {
  Result<ModelConfig> config = readModelConfig(dir);
  if (!config)
    return config.error();
  if (config->quant && config->quant->method != "fp8")
    return unsupportedError(dir + ": weights of quant_method \"" + config->quant->method + "\" cannot be drawn, only \"fp8\" or plain ones");
  std::vector<StoredTensor> tensors;
  for (const WeightSpec &spec : mainWeights(*config))
    addTensors(*config, spec, tensors);
  for (int64_t m = 0; m < config->mtpModules; ++m)
    for (const WeightSpec &spec : mtpWeights(*config, m))
      if (spec.role != Role::MtpEmbedding && spec.role != Role::MtpHead)
        addTensors(*config, spec, tensors);
  Result<Checkpoint> checkpoint = Checkpoint::drawn(dir, std::move(tensors));
  if (!checkpoint)
    return checkpoint.error();
  TensorOptions options;
  options.checkValues = false; // there are none
  return bindModel(std::move(*config), std::move(*checkpoint), options);
}

} // namespace dsv3::hf
