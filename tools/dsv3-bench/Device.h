// What a measurement asks of a GPU beyond runtime/cuda: guarded memory, single kernels, timed graphs.
#pragma once

#include "runtime/cuda/Gpu.h"
#include "tools/dsv3-bench/Pack.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dsv3::bench {

/// Device memory with a guard zone behind it: a kernel that writes past the end is seen.
class Memory {
public:
  uint64_t address() const { return memory.address(); }
  int64_t bytes() const { return size; }
  static constexpr int64_t kGuard = 4096;

private:
  friend class Device;
  cuda::DeviceMemory memory;
  int64_t size = 0;
};

/// A launch with its arguments, as the driver takes them.
struct BoundLaunch {
  void *function = nullptr;
  const Launch *launch = nullptr;
  std::vector<uint64_t> words; ///< pointers and numbers, in the order of the parameters
  std::vector<cuda::TensorMapImage> maps;
  std::vector<void *> arguments; ///< into `words` and `maps`
};

/// Every call reports the driver's error by name: "cuLaunchKernelEx: illegal memory access ...".
class Device {
public:
  /// Unsupported error: no driver, no GPU that runs sm_90a code.
  static Result<std::unique_ptr<Device>> open();
  const std::string &name() const { return gpu->name(); }
  std::string driver() const { return gpu->driver().versionText(); }

  Result<Memory> allocate(int64_t bytes) const;
  Status upload(const Memory &to, int64_t offset, const void *from, int64_t bytes) const;
  Status download(void *to, const Memory &from, int64_t offset, int64_t bytes) const;
  Status copy(const Memory &to, int64_t toOffset, const Memory &from, int64_t fromOffset, int64_t bytes) const;
  Status fill(const Memory &to, int64_t offset, uint8_t value, int64_t bytes) const;
  /// Writes the guard zone, and later tells whether it is untouched.
  Status setGuard(const Memory &memory) const;
  Result<bool> guardHolds(const Memory &memory) const;

  Result<void *> loadModule(const std::string &cubin) const;
  Status unloadModule(void *module) const;
  Result<void *> function(void *module, const std::string &symbol, int64_t smem, int64_t cluster) const;
  /// A tensor map over `bytes` bytes at `address`.
  Result<cuda::TensorMapImage> encode(const TensorMap &map, uint64_t address, int64_t bytes) const;

  Status launch(const BoundLaunch &launch) const;
  Status synchronize() const { return gpu->wait(); }
  /// Captures `run` (calls of `launch`) into a graph.
  template <typename Fn> Result<void *> capture(Fn run) const {
    if (Status s = beginCapture(); !s)
      return s.error();
    Status ran = run();
    Result<void *> graph = endCapture();
    return ran ? graph : Result<void *>(ran.error());
  }
  /// Microseconds of one replay, by events around it.
  Result<double> replay(void *graph) const;
  Status destroyGraph(void *graph) const;

private:
  Device() = default;
  Status beginCapture() const;
  Result<void *> endCapture() const;

  std::unique_ptr<cuda::Gpu> gpu;
  void *start = nullptr, *stop = nullptr; ///< events
};

} // namespace dsv3::bench
