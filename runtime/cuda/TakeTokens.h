// The kernel that lets a step begin with tokens that the host has not seen.
//
// It belongs to the runtime, not to an artifact: a few lines of PTX that the driver compiles when a device is opened.
#pragma once

#include "runtime/cuda/Gpu.h"

namespace dsv3::cuda {

class TakeTokens {
public:
  /// Internal error when the driver does not take the kernel.
  static Result<TakeTokens> load(const Gpu &gpu);

  TakeTokens() = default;
  TakeTokens(TakeTokens &&other) noexcept { *this = std::move(other); }
  TakeTokens &operator=(TakeTokens &&other) noexcept;
  ~TakeTokens();

  /// ids[i] = sampled[-1 - ids[i]].id where ids[i] < 0, of the step's first `tokens` ids. `scalars`: the step's, int64_t
  /// [DSV3_SCALAR_COUNT]; `ids`: int32_t [T]; `sampled`: dsv3_sampled [S]. Ordered on the stream; nothing is checked on the device.
  Status launch(int64_t tokens, DevicePtr scalars, DevicePtr ids, DevicePtr sampled) const;

private:
  const Gpu *gpu = nullptr;
  void *module = nullptr, *function = nullptr;
};

} // namespace dsv3::cuda
