// One GPU: its context, a stream, and memory on it.
#pragma once

#include "runtime/cuda/Driver.h"
#include "runtime/engine/Manifest.h"

#include <string_view>
#include <utility>

namespace dsv3::cuda {

class Gpu;

/// Device memory. Move-only.
class DeviceMemory {
public:
  DeviceMemory() = default;
  DeviceMemory(DeviceMemory &&other) noexcept { *this = std::move(other); }
  DeviceMemory &operator=(DeviceMemory &&other) noexcept;
  ~DeviceMemory();
  DevicePtr address() const { return at; }

private:
  friend class Gpu;
  const Gpu *gpu = nullptr;
  DevicePtr at = 0;
};

/// Host memory that the GPU copies to and from without the driver's help. Move-only.
class PinnedMemory {
public:
  PinnedMemory() = default;
  PinnedMemory(PinnedMemory &&other) noexcept { *this = std::move(other); }
  PinnedMemory &operator=(PinnedMemory &&other) noexcept;
  ~PinnedMemory();
  uint8_t *data() const { return start; }
  uint64_t bytes() const { return size; }

private:
  friend class Gpu;
  const Gpu *gpu = nullptr;
  uint8_t *start = nullptr;
  uint64_t size = 0;
};

class Gpu {
public:
  /// The first GPU that can run code of `target`: the same compute capability, since sm_90a code runs on no other, and
  /// enough shared memory. Unsupported error that says what there is and what would work.
  static Result<std::unique_ptr<Gpu>> open(const Manifest::Device &target);
  ~Gpu();

  const Driver &driver() const { return *cu; }
  const std::string &name() const { return deviceName; }
  void *stream() const { return work; }

  /// Makes the context that of the calling thread.
  Status enter() const { return cu->check(cu->cuCtxSetCurrent(context), "cuCtxSetCurrent"); }
  Result<uint64_t> freeBytes() const;

  /// Memory filled with zeros, or as it comes. DoesNotFit error naming `what`.
  Result<DeviceMemory> allocate(uint64_t bytes, const char *what, bool zero) const;
  Result<PinnedMemory> allocatePinned(uint64_t bytes, const char *what) const;

  Status upload(DevicePtr to, const void *from, uint64_t bytes) const;   ///< ordered on the stream
  Status download(void *to, DevicePtr from, uint64_t bytes) const;       ///< ordered on the stream
  Status wait() const { return cu->check(cu->cuStreamSynchronize(work), "cuStreamSynchronize"); }

  /// Copies bytes of a mapped file: read in pieces to pinned memory, while the piece before is on its way. Waits.
  Status uploadFile(DevicePtr to, std::string_view from) const;

private:
  Gpu() = default;
  Status choose(const Manifest::Device &target);
  Status start();

  std::unique_ptr<Driver> cu;
  std::string deviceName;
  int device = 0;
  void *context = nullptr, *work = nullptr;
};

} // namespace dsv3::cuda
