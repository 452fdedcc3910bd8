// Numbers for weights that no checkpoint holds (`--load-format=dummy`): a counter-based function of (name, index), so that
// any part can be drawn alone, in any order, with the same bits on a CPU, on a GPU and in the reference.
#pragma once

#include "runtime/core/DType.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace dsv3 {

/// The stream of one name. Philox4x32-10 (Philox.h) of the index, keyed by the FNV-1a hash of the
/// name; the four words of a block are summed to a number close to normal (Irwin-Hall of order 4).
class Dummy {
public:
  explicit Dummy(std::string_view name);

  /// Mean 0, variance 1, within +-3.47; exact in double before the one rounding to float.
  float normal(uint64_t index) const;
  /// Uniform in [0, 2^32).
  uint32_t word(uint64_t index) const;

  uint64_t key() const { return hash; }

private:
  uint64_t hash;
};

/// The numbers of one checkpoint tensor, element by element in row-major order.
///
/// States stay near unit size through any number of layers: a matrix [N, K] has deviation 1/sqrt(K), an embedding 1, a norm's
/// gamma lies around 1, a router bias around 0. FP8 codes are 128 normal numbers; the scales of their blocks differ by a
/// factor of up to 5/3 around what makes a matrix of 1/sqrt(K), so that a kernel which takes a wrong one is seen.
struct DummyTensor {
  float mean = 0, deviation = 1;
  double scaleBase = 0;    ///< of scales, which lie in [0.75, 1.25) of it, or are it or half of it
  bool powersOfTwo = false; ///< scales of ue8m0

  static constexpr float kCodeSpread = 128;

  /// A tensor stored plain or as codes. `name` as in the checkpoint, `shape` of the stored tensor.
  static DummyTensor ofData(std::string_view name, const std::vector<int64_t> &shape);
  /// The scales of an FP8 matrix [N, columns].
  static DummyTensor ofScales(int64_t columns, bool powersOfTwo);

  /// mean + deviation * normal, rounded to `stored`: BF16 or F32.
  float plain(const Dummy &stream, uint64_t i, DType stored) const;
  /// An E4M3 code, never NaN.
  static uint8_t code(const Dummy &stream, uint64_t i);
  float scale(const Dummy &stream, uint64_t i) const;
};

} // namespace dsv3
