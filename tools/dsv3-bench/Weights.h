// A weight with random numbers: packed for the kernel, and read by rows for the reference.
#pragma once

#include "dialects/kernel/Layout.h"
#include "runtime/reference/Array.h"
#include "tools/dsv3-bench/Pack.h"
#include "tools/dsv3-bench/Random.h"

#include <optional>

namespace dsv3::bench {

/// What a weight's numbers look like.
struct WeightSpread {
  double mean = 0, deviation = 0.02;
};

class RandomWeight {
public:
  /// Error: a layout that does not parse, or does not fit the shape.
  static Result<RandomWeight> make(const Buffer &buffer, uint64_t seed, const WeightSpread &spread);
  /// A weight whose numbers are given, one per element of the shape (rope tables): plain f32 or bf16.
  static Result<RandomWeight> make(const Buffer &buffer, std::vector<float> values);

  int64_t rows() const; ///< all dims but the last
  int64_t cols() const { return buffer->shape.back(); }

  /// The number the kernel computes with: stored value times scale.
  double value(int64_t row, int64_t col) const;
  /// Rows [from, to) dequantised -> [to - from, cols].
  reference::Array<double> read(int64_t from, int64_t to) const;

  /// The packed bytes, padding zero.
  std::vector<uint8_t> pack() const;

private:
  RandomWeight(const Buffer &buffer, uint64_t seed) : buffer(&buffer), seed(seed) {}
  float stored(int64_t row, int64_t col) const;
  uint32_t code(int64_t row, int64_t col) const;
  float scale(int64_t row, int64_t col) const;
  void packPart(const Part &part, const Layout &layout, uint8_t *out) const;

  const Buffer *buffer;
  uint64_t seed;
  std::optional<Normal> numbers;
  std::vector<float> given;
  std::vector<Layout> layouts; ///< of the parts
};

} // namespace dsv3::bench
