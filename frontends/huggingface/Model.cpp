#include "frontends/huggingface/Model.h"

namespace dsv3::hf {

Result<Model> readModel(const std::string &dir, const TensorOptions &options) {
  Result<ModelConfig> config = readModelConfig(dir);
  if (!config)
    return config.error();
  Result<Checkpoint> checkpoint = Checkpoint::open(dir);
  if (!checkpoint)
    return checkpoint.error();
  auto owned = std::make_unique<Checkpoint>(std::move(*checkpoint));
  Result<ModelTensors> tensors = bindTensors(*config, *owned, options);
  if (!tensors)
    return tensors.error();
  return Model{std::move(*config), std::move(owned), std::move(*tensors)};
}

} // namespace dsv3::hf
