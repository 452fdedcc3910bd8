// Shared by the tests of the reference: short literals, errors as failures, noise.
#pragma once

#include "runtime/reference/Array.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dsv3::reference {

/// The value of a result; an error fails the test with its message.
template <typename R> R ok(Result<R> result) {
  if (result)
    return std::move(*result);
  ADD_FAILURE() << result.error().message;
  return R();
}
inline void ok(Status status) {
  if (!status)
    ADD_FAILURE() << status.error().message;
}

/// The message of a result that must be an error.
template <typename R> std::string errorOf(const Result<R> &result) {
  return result ? "no error" : result.error().message;
}

/// Uniform in [-1, 1), the same on every library.
template <typename T> Array<T> noise(Shape shape, uint32_t seed) {
  std::mt19937 rng(seed);
  Array<T> a(std::move(shape));
  for (T &v : a.data)
    v = T(double(rng()) * 0x1p-31 - 1);
  return a;
}

template <typename T> double maxDifference(const Array<T> &a, const Array<T> &b) {
  EXPECT_EQ(a.shape, b.shape);
  double worst = 0;
  for (int64_t i = 0; i < std::min(a.size(), b.size()); ++i)
    worst = std::max(worst, std::fabs(double(a.data[i]) - double(b.data[i])));
  return worst;
}

} // namespace dsv3::reference
