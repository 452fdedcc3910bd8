// The kernels of an artifact, loaded into the driver.
#pragma once

#include "runtime/cuda/Gpu.h"
#include "runtime/engine/Artifact.h"

#include <string>
#include <vector>

namespace dsv3::cuda {

class DeviceCode {
public:
  /// One function per kernel of the module. Machine code is loaded where the artifact has it and the driver takes it, else the
  /// driver compiles the PTX; `notes` then gets a line that says so. `sharedBytes` is what the launches of each kernel ask
  /// for at most. BadCheckpoint error: a damaged file, a kernel that the artifact lacks. Unsupported error: a driver
  /// that is too old, with the version that would do.
  static Result<DeviceCode> load(const Gpu &gpu, const Artifact &artifact, const std::vector<uint32_t> &sharedBytes,
                                 std::vector<std::string> &notes);

  DeviceCode() = default;
  DeviceCode(DeviceCode &&other) noexcept { *this = std::move(other); }
  DeviceCode &operator=(DeviceCode &&other) noexcept;
  ~DeviceCode();

  void *function(uint32_t kernel) const { return functions[kernel]; }
  /// Entry `dummy_fill`, which draws weights; null in an artifact that stores them.
  void *fill() const { return fillFunction; }

private:
  Result<void *> loadKernel(const Artifact &artifact, const Manifest::Kernel &kernel, uint32_t sharedBytes);
  Result<void *> loadImage(const std::string &symbol, const Manifest::Kernel &kernel, const Artifact &artifact);

  const Gpu *gpu = nullptr;
  std::vector<void *> modules, functions;
  void *fillFunction = nullptr;
  size_t compiled = 0;     ///< kernels that the driver compiled
  std::string refusal;     ///< what the driver said of the first machine code that it did not take
};

} // namespace dsv3::cuda
