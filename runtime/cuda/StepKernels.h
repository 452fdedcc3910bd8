// The kernels in front of a step and behind it. They belong to the runtime, not to an artifact: a few lines of PTX that the driver
// compiles when a device is opened.
//
// They read and write pinned host memory themselves. A copy by the driver would be work of another engine of the GPU, and
// handing over between engines costs a decode step more time than its few kilobytes do.
#pragma once

#include "runtime/cuda/Gpu.h"

namespace dsv3::cuda {

class StepKernels {
public:
  /// Internal error when the driver does not take the kernels.
  static Result<StepKernels> load(const Gpu &gpu);

  StepKernels() = default;
  StepKernels(StepKernels &&other) noexcept { *this = std::move(other); }
  StepKernels &operator=(StepKernels &&other) noexcept;
  ~StepKernels();

  /// Which ids of a step to replace: of the 16-byte pieces [first, last) of what is copied, every negative word w becomes
  /// sampled[-1 - w].id. Nothing is checked on the device.
  struct Taken {
    uint64_t first = 0, last = 0;
    DevicePtr sampled = 0; ///< dsv3_sampled [S]
  };
  /// Both are ordered on the stream, and both are of addresses and bytes in multiples of 16; host memory is pinned.
  Status bring(DevicePtr to, const void *from, uint64_t bytes, const Taken &taken) const;
  Status fetch(void *to, DevicePtr from, uint64_t bytes) const;

  /// Whether `fetch` can, and is better than a copy by the driver: few bytes.
  static bool suits(const void *to, DevicePtr from, uint64_t bytes);

private:
  Status launch(uint64_t to, uint64_t from, uint64_t bytes, Taken taken) const;

  const Gpu *gpu = nullptr;
  void *module = nullptr, *function = nullptr;
};

} // namespace dsv3::cuda
