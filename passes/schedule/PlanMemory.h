// Places buffers with known lifetimes in one block of memory.
//
// Plain C++: the plan of a program depends on sizes and intervals only, so it can be tested without IR.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <vector>

namespace dsv3 {

/// A buffer that holds a value from operation `first` to operation `last`, both included. Operations run one after
/// another; what one reads and writes is alive at the same time.
struct Lifetime {
  int64_t bytes = 0;
  int64_t first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets; ///< in bytes, one per buffer
  int64_t bytes = 0;            ///< of the whole block
};

/// Largest first, each at the lowest offset where it meets no buffer alive with it. Greedy by size is within a few
/// percent of the optimum on neural networks (Pisarchyk and Lee, 2020). Offsets are multiples of `alignment`, a
/// power of two. Deterministic: ties go to the earlier buffer of the list.
MemoryPlan planMemory(const std::vector<Lifetime> &buffers, int64_t alignment);

/// Proves a plan by other means than it was made: sweeps time, and at each step sorts what is alive by offset and
/// compares neighbours. Internal error naming two buffers that meet, or one outside the block or unaligned.
Status checkPlan(const std::vector<Lifetime> &buffers, const MemoryPlan &plan, int64_t alignment);

/// The most bytes alive at one time: no plan can be smaller.
int64_t liveSetBound(const std::vector<Lifetime> &buffers, int64_t alignment);

} // namespace dsv3
