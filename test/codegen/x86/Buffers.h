// Memory that kernels under test read and write: typed, with guards.
#pragma once

#include "runtime/reference/Array.h"

#include <memory>
#include <string>

namespace dsv3::codegen::test {

using reference::Array;
using reference::Ids;
using reference::Shape;

enum class Elem { F32, BF16, I32, I64 };
const char *name(Elem);
int64_t bytesOf(Elem);

/// `bytes` bytes between two guard areas. The data end where a page ends and the next page is not mapped: reading or
/// writing past the end is a fault. Writes before the start, and stray ones into the rest of the page, are found by `intact`.
class Buffer {
public:
  /// Filled with `fill`; 0xff makes every float NaN. `align` 64 is the contract of buffers; a smaller one finds loads that
  /// ask for more than an element's alignment.
  explicit Buffer(int64_t bytes, uint8_t fill = 0xff, int64_t align = 1);
  static Buffer of(const Array<double> &values, Elem elem);
  static Buffer of(const std::vector<int32_t> &values);
  static Buffer of(const std::vector<int64_t> &values);

  void *data() const { return begin; }
  int64_t size() const { return bytes; }
  bool intact() const;
  Array<double> values(Shape shape, Elem elem) const;

private:
  std::shared_ptr<void> mapping;
  uint8_t *begin = nullptr;
  int64_t bytes = 0, front = 0, back = 0;
};

/// Uniform in [-scale, scale], rounded to `elem`; the same for the same seed.
Array<double> randomValues(Shape shape, Elem elem, uint32_t seed, double scale = 1);
/// `values` rounded to `elem`.
Array<double> rounded(Array<double> values, Elem elem);
/// The first `n` rows.
template <typename T> Array<T> firstRows(const Array<T> &a, int64_t n) {
  Shape shape = a.shape;
  int64_t row = shape[0] ? a.size() / shape[0] : 0;
  shape[0] = n;
  return Array<T>(shape, std::vector<T>(a.data.begin(), a.data.begin() + n * row));
}
/// Lanes [at, at + n) of every row.
Array<double> lanes(const Array<double> &a, int64_t at, int64_t n);

/// Largest |out - ref| / |ref| of a row (Euclidean norms); infinity for NaN, or a row of zeros that is not zero.
double rowError(const Array<double> &out, const Array<double> &ref);

} // namespace dsv3::codegen::test
