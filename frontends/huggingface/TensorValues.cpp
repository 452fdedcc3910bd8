// Checks of the values of small tensors, whose damage would spoil every output silently.
#include "frontends/huggingface/Tensors.h"

#include <algorithm>
#include <cmath>

namespace dsv3::hf {

/// The first element for which `ok` does not hold, or nullopt.
template <typename Predicate>
static std::optional<size_t> findBad(const CheckpointTensor &tensor, Predicate ok) {
  size_t count = tensor.data().size() / byteSize(tensor.dtype());
  for (size_t i = 0; i < count; ++i)
    if (!ok(loadAsFloat(tensor.dtype(), tensor.data().data(), i)))
      return i;
  return std::nullopt;
}

static Error badValue(const CheckpointTensor &tensor, size_t i, const char *expected) {
  float value = loadAsFloat(tensor.dtype(), tensor.data().data(), i);
  return checkpointError(tensor.name() + ": element " + std::to_string(i) + " is " +
                         std::to_string(value) + ", expected " + expected);
}

Status checkValues(const Weight &weight, const Checkpoint &checkpoint) {
  if (weight.spec.role == Role::RouterBias) {
    const CheckpointTensor &bias = *checkpoint.find(weight.tensor());
    if (auto i = findBad(bias, [](float x) { return std::isfinite(x); }))
      return badValue(bias, *i, "a finite value");
  }
  for (int64_t e = 0; weight.scale && e < std::max<int64_t>(1, weight.spec.members); ++e) {
    const CheckpointTensor &scale = *checkpoint.find(weight.scaleTensor(e));
    if (auto i = findBad(scale, [](float x) { return std::isfinite(x) && x > 0; }))
      return badValue(scale, *i, "a finite scale above 0");
  }
  return {};
}

} // namespace dsv3::hf
