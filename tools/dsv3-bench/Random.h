// Numbers that inputs and weights are filled with: a function of (seed, index), so that any part can be drawn alone.
#pragma once

#include "runtime/core/DType.h"

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace dsv3::bench {

/// 64 mixed bits (a multiply-xorshift finaliser of the counter).
inline uint64_t mix(uint64_t seed, uint64_t index) {
  uint64_t x = (index + 1) * 0x9e3779b97f4a7c15ull ^ seed * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

/// The seed that a name stands for.
uint64_t seedOf(std::string_view name);

/// Normal numbers as 4096 equally likely quantiles, rounded once to the type they are stored in: drawing is a look-up.
class Normal {
public:
  Normal(DType stored, double mean, double deviation);
  /// Integers from `low` to `high`, all about equally likely, as I8.
  static Normal integers(int low, int high);
  /// What is stored for index `i` of stream `seed`, as a number (of an fp8 type: without its scale).
  float value(uint64_t seed, uint64_t i) const { return values[mix(seed, i) & 4095]; }
  /// The same as bits of the stored type.
  uint32_t code(uint64_t seed, uint64_t i) const { return codes[mix(seed, i) & 4095]; }

private:
  Normal() = default;
  std::array<float, 4096> values;
  std::array<uint32_t, 4096> codes;
};

/// Calls `body(begin, end)` on parts of [0, n) with all cores. Parts do not overlap.
void parallelFor(int64_t n, int64_t grain, const std::function<void(int64_t, int64_t)> &body);

} // namespace dsv3::bench
