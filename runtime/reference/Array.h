// Dense row-major arrays: the only kind of value the reference knows.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

namespace dsv3::reference {

using Shape = std::vector<int64_t>;

inline int64_t numElements(const Shape &shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
}

/// A dense row-major array of the arithmetic type T (float or double; int32_t
/// for ids). A default-constructed one is "absent": optional operands are
/// passed so. No function of the reference aliases its result with an operand.
template <typename T> struct Array {
  Shape shape;
  std::vector<T> data;

  Array() = default;
  explicit Array(Shape s) : shape(std::move(s)), data(numElements(shape), T(0)) {}
  Array(Shape s, std::vector<T> d) : shape(std::move(s)), data(std::move(d)) {}

  bool present() const { return !shape.empty(); }
  int64_t rank() const { return static_cast<int64_t>(shape.size()); }
  int64_t size() const { return static_cast<int64_t>(data.size()); }
  /// Extent of dimension `i`; negative counts from the back.
  int64_t dim(int64_t i) const { return shape[i < 0 ? i + rank() : i]; }
  /// Extent of the last dimension, and the product of all others.
  int64_t cols() const { return shape.empty() ? 0 : shape.back(); }
  int64_t rows() const { return cols() == 0 ? 0 : size() / cols(); }
  T *row(int64_t r) { return data.data() + r * cols(); }
  const T *row(int64_t r) const { return data.data() + r * cols(); }
};

using Ids = Array<int32_t>;

/// "[34, 4, 192]"; a negative extent prints as "?".
std::string toString(const Shape &shape);

/// Checks `got` against `want`, where -1 stands for any extent. On failure the
/// error reads "OP: expected OPERAND of shape [?, 256], got [34, 255]".
Status expectShape(const char *op, const char *operand, const Shape &want, const Shape &got);

/// The same for the last dimension only: rank must be at least 1.
Status expectCols(const char *op, const char *operand, int64_t want, const Shape &got);

/// Keeps the first error of a chain of calls, so that a composition of
/// functions reads as a program. After a failure every call yields a
/// default-constructed value and the chain runs on over absent arrays, which
/// every function refuses, to the caller's single check.
class Chain {
public:
  template <typename R> R operator()(Result<R> result) {
    if (result)
      return std::move(*result);
    if (ok)
      ok = result.error();
    return R();
  }
  void operator()(Status result) {
    if (!result && ok)
      ok = result.error();
  }
  bool failed() const { return !ok; }
  const Error &error() const { return ok.error(); }

private:
  Status ok;
};

} // namespace dsv3::reference
