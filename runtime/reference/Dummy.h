// Numbers for weights that no checkpoint holds: a counter-based function of (name, index), so that
// any part can be drawn alone, in any order, with the same bits everywhere.
#pragma once

#include <cstdint>
#include <string_view>

namespace dsv3::reference {

/// The stream of one name. Philox4x32-10 (Sampling.h) of the index, keyed by the FNV-1a hash of the
/// name; the four words of a block are summed to a number close to normal (Irwin-Hall of order 4).
class Dummy {
public:
  explicit Dummy(std::string_view name);

  /// Mean 0, variance 1, within +-3.47; exact in double before the one rounding to float.
  float normal(uint64_t index) const;
  /// Uniform in [0, 2^32).
  uint32_t word(uint64_t index) const;

private:
  uint64_t key;
};

} // namespace dsv3::reference
