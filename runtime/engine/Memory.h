// Anonymous memory for pools, and how much of it there is.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>

namespace dsv3 {

/// Zeroed memory, aligned for huge pages; pages appear when first touched. Move-only.
class Memory {
public:
  /// DoesNotFit error naming `what` when the address space is not granted.
  static Result<Memory> allocate(uint64_t bytes, const char *what);

  Memory() = default;
  Memory(Memory &&other) noexcept;
  Memory &operator=(Memory &&other) noexcept;
  ~Memory();

  uint8_t *data() const { return start; }

private:
  void *mapping = nullptr;
  uint64_t mapped = 0;
  uint8_t *start = nullptr;
};

/// Bytes that this process may still take: free memory of the machine (page cache
/// included) or of its cgroup, whichever is less.
uint64_t availableMemory();

/// "1.50 GiB"
std::string sizeText(uint64_t bytes);

} // namespace dsv3
