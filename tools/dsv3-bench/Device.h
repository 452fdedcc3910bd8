// One GPU through its driver, which is loaded at run time: this tool starts on machines without one and says so.
#pragma once

#include "runtime/core/Result.h"
#include "tools/dsv3-bench/Pack.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace dsv3::bench {

class Device;
struct DriverTable;

/// Device memory with a guard zone behind it: a kernel that writes past the end is seen.
class Memory {
public:
  Memory() = default;
  Memory(Memory &&other) noexcept { *this = std::move(other); }
  Memory &operator=(Memory &&other) noexcept;
  ~Memory();

  uint64_t address() const { return at; }
  int64_t bytes() const { return size; }
  static constexpr int64_t kGuard = 4096;

private:
  friend class Device;
  const Device *device = nullptr;
  uint64_t at = 0;
  int64_t size = 0;
};

/// A launch with its arguments, as the driver takes them.
struct BoundLaunch {
  void *function = nullptr;
  const Launch *launch = nullptr;
  struct alignas(64) Map {
    unsigned char bytes[128];
  };
  std::vector<uint64_t> words; ///< pointers and numbers, in the order of the parameters
  std::vector<Map> maps;
  std::vector<void *> arguments; ///< into `words` and `maps`
};

/// Every call reports the driver's error by name: "cuLaunchKernelEx: illegal memory access ...".
class Device {
public:
  /// Unsupported error: no driver, no GPU.
  static Result<std::unique_ptr<Device>> open();
  ~Device();

  const std::string &name() const { return deviceName; }
  const std::string &driver() const { return driverVersion; }

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
  Result<BoundLaunch::Map> encode(const TensorMap &map, uint64_t address, int64_t bytes) const;

  Status launch(const BoundLaunch &launch) const;
  /// Waits for everything: launches run on a stream of their own, copies and fills do not.
  Status synchronize() const;
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
  friend class Memory;
  Status beginCapture() const;
  Result<void *> endCapture() const;
  Status call(int code, const char *what) const;

  std::unique_ptr<DriverTable> cu;
  std::string deviceName, driverVersion;
  void *context = nullptr, *stream = nullptr, *start = nullptr, *stop = nullptr;
};

} // namespace dsv3::bench
