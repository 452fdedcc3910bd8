#include "frontends/quantize/Smoothing.h"

#include <gtest/gtest.h>

#include <random>

using namespace dsv3;
using namespace dsv3::quantize;

namespace {

Matrix normal(int64_t rows, int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  return Matrix::NullaryExpr(rows, cols, [&] { return draw(random); });
}

const Scheme int4{Code::I4, 1, 64}, int8{Code::I8, 1, 0};

/// A few channels are large, as in language models.
Inputs outliers(unsigned seed) {
  Matrix x = normal(256, 64, seed);
  for (int64_t k : {3, 17, 50})
    x.col(k) *= 60;
  return Inputs(x);
}

TEST(Smoothing, AwqLosesLessThanNoFactors) {
  Inputs x = outliers(1);
  std::vector<Reader> readers = {{normal(32, 64, 2), int4, {}, &x}, {normal(16, 64, 3), int4, {}, &x}};
  Vector s = awqFactors(readers);
  double with = 0, without = 0;
  for (const Reader &r : readers)
    with += smoothedError(r, s), without += smoothedError(r, {});
  EXPECT_LT(with, 0.7 * without);
  EXPECT_GT(s[3], 2 * s[4]); // what is large in x is large in w s, so it is rounded finer
}

TEST(Smoothing, SmoothQuantMovesTheRangeOfActivationsIntoWeights) {
  Inputs x = outliers(4);
  std::vector<Reader> readers = {{normal(32, 64, 5), int8, int8, &x}};
  Vector s = smoothQuantFactors(readers);
  EXPECT_LT(smoothedError(readers[0], s), 0.5 * smoothedError(readers[0], {}));
}

TEST(Smoothing, ChannelsOfZerosAndPlainReaders) {
  Matrix rows = normal(128, 64, 6);
  rows.col(9).setZero();
  Inputs x(rows);
  std::vector<Reader> readers = {{normal(8, 64, 7), int4, int8, &x}, {normal(8, 64, 8), {}, {}, &x}};
  for (const Vector &s : {awqFactors(readers), smoothQuantFactors(readers)}) {
    EXPECT_TRUE(s.allFinite());
    EXPECT_GT(s.minCoeff(), 0);
  }
  EXPECT_EQ(smoothedError(readers[1], awqFactors(readers)), 0);
}

} // namespace
