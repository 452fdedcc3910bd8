// Closed forms of where threads find their elements: plain C++, without MLIR.
#pragma once

#include "dialects/tile/SmemLayout.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace dsv3::codegen {

/// at(register, thread) = sum of linear[i] over the set bits i of the thread's index (0..127) + offset[register]
///                        + (mask[register] ^ exchanged[i] ^ exchanged[j] ... over the set bits).
/// The second term occupies the address bits that a swizzle exchanges; they are not in the first.
struct AddressFit {
  static constexpr int kBits = 7;
  std::array<int64_t, kBits> linear{}, exchanged{};
  std::vector<int64_t> offset, mask;
};

/// The closed form of `at`, compared with it on every register and thread; nothing when it has none.
std::optional<AddressFit> fitAddress(int64_t registers, const std::function<int64_t(int64_t reg, int64_t thread)> &at, tile::SmemLayout::Xor exchange = {});

} // namespace dsv3::codegen
