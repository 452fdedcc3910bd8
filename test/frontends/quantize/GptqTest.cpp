#include "frontends/quantize/Gptq.h"
#include "frontends/quantize/Linear.h"
#include "frontends/quantize/ScaleSearch.h"

#include <gtest/gtest.h>

#include <random>

using namespace dsv3;
using namespace dsv3::quantize;

namespace {

const Scheme int4Groups{Code::I4, 1, 32};
const Scheme int8Row{Code::I8, 1, 0};

Matrix normal(int64_t rows, int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> draw;
  return Matrix::NullaryExpr(rows, cols, [&] { return draw(random); });
}

/// Rows whose channels depend on each other and differ in size, as those of a model do.
Matrix correlated(int64_t rows, int64_t cols, unsigned seed) {
  Matrix sizes = normal(1, cols, seed).array().exp().matrix();
  return (normal(rows, cols / 4, seed + 1) * normal(cols / 4, cols, seed + 2) + 0.3f * normal(rows, cols, seed + 3)).array().rowwise() *
         sizes.row(0).array();
}

double errorOf(const QuantizedMatrix &q, const Matrix &w, const Matrix &x) { return outputError(x, w, x, dequantize(q)); }

TEST(Gptq, LosesLessOfTheOutputThanRoundingOnOtherRows) {
  Matrix w = normal(24, 128, 1), all = correlated(1024, 128, 2), seen = all.topRows(768), held = all.bottomRows(256);
  double nearest = errorOf(*roundToNearest(w, int4Groups, Clip::Mse), w, held);
  for (bool order : {false, true}) {
    GptqOptions options;
    options.activationOrder = order;
    EXPECT_LT(errorOf(gptq(w, int4Groups, Inputs(seen), options), w, held), 0.7 * nearest) << order;
  }
}

TEST(Gptq, WithIndependentChannelsItRoundsToNearest) {
  Matrix w = normal(8, 64, 3);
  QuantizedMatrix q = gptq(w, int8Row, Inputs(Matrix(Matrix::Identity(64, 64) * 8)), {});
  for (int64_t r = 0; r < 8; ++r)
    for (int64_t k = 0; k < 64; ++k)
      EXPECT_EQ(int8_t(q.row(r)[k]), integerCode(w(r, k), q.scales(r, 0), Code::I8));
}

TEST(Gptq, ChannelsThatWereNeverSeenAreRounded) {
  Matrix w = normal(4, 64, 4), x = correlated(256, 64, 5);
  x.col(3).setZero();
  x.col(40).setZero();
  QuantizedMatrix q = gptq(w, int4Groups, Inputs(x), {});
  for (int64_t r = 0; r < 4; ++r)
    for (int64_t k : {3, 40})
      EXPECT_EQ(int8_t(q.row(r)[k]), integerCode(w(r, k), q.scales(r, k / 32), Code::I4)) << r << " " << k;
}

TEST(Gptq, RowsOfZerosAndAnEdgeGroup) {
  Matrix w = normal(5, 75, 6); // groups of 32, 32 and 11
  w.row(2).setZero();
  Matrix x = correlated(300, 75, 7);
  for (bool order : {false, true}) {
    GptqOptions options;
    options.activationOrder = order;
    QuantizedMatrix q = gptq(w, int4Groups, Inputs(x), options);
    ASSERT_EQ(q.scales.cols(), 3);
    EXPECT_TRUE(dequantize(q).allFinite());
    EXPECT_TRUE(dequantize(q).row(2).isZero());
    EXPECT_LT(errorOf(q, w, x), 0.2);
  }
}

/// Columns that are copies of each other: the Hessian is singular, and only the damping helps.
TEST(Gptq, SingularInputs) {
  Matrix w = normal(6, 64, 8), x = normal(128, 32, 9), doubled(128, 64);
  doubled << x, x;
  EXPECT_TRUE(dequantize(gptq(w, int4Groups, Inputs(doubled), {})).allFinite());
}

TEST(ScaleSearch, SmallerIsTakenWhereItHelps) {
  std::vector<float> w(128, 0.9f);
  w[5] = 8; // absmax / 7 would round all others to 1.14
  float scale = bestScale(w.data(), nullptr, 128, int4Groups);
  EXPECT_LT(scale, 8.0f / 7);
  std::vector<float> importance(128, 1e-6f);
  importance[5] = 1; // now only the large one counts
  EXPECT_NEAR(scale = bestScale(w.data(), importance.data(), 128, int4Groups), 8.0f / 7, 0.2);
  std::vector<float> zeros(16, 0.0f);
  EXPECT_EQ(bestScale(zeros.data(), nullptr, 16, int4Groups), 1);
}

TEST(ScaleSearch, TheLowestCodes) {
  EXPECT_EQ(integerCode(-100, 1, Code::I4), -8);
  EXPECT_EQ(integerCode(100, 1, Code::I4), 7);
  EXPECT_EQ(integerCode(-1000, 1, Code::I8), -127);
  EXPECT_EQ(integerCode(2.5f, 1, Code::I8), 2); // halves to even
}

TEST(Linear, FallsBackWithFewRows) {
  Matrix w = normal(4, 64, 10);
  Inputs few(correlated(kFewestTokens - 1, 64, 11)), enough(correlated(kFewestTokens, 64, 11)), none(Matrix(0, 64));
  EXPECT_EQ(quantizeLinear(w, int4Groups, {}, &few, Algorithm::Gptq)->used, Algorithm::Default);
  EXPECT_EQ(quantizeLinear(w, int4Groups, {}, &enough, Algorithm::Gptq)->used, Algorithm::Gptq);
  EXPECT_EQ(quantizeLinear(w, int4Groups, {}, &none, Algorithm::Gptq)->used, Algorithm::Default);
  EXPECT_EQ(quantizeLinear(w, int4Groups, {}, nullptr, Algorithm::Gptq)->used, Algorithm::Default);
}

TEST(Linear, NumbersThatAreNotFiniteAreRefused) {
  Matrix w = normal(4, 64, 12);
  w(1, 2) = std::numeric_limits<float>::infinity();
  Inputs x(correlated(128, 64, 13));
  for (Algorithm a : {Algorithm::Rtn, Algorithm::Gptq})
    EXPECT_FALSE(quantizeLinear(w, int4Groups, {}, &x, a));
}

TEST(Activations, ScalesAreOfEachToken) {
  Matrix x = normal(2, 64, 14);
  x.row(1) *= 1000;
  Matrix y = roundActivations(x, int8Row);
  for (int64_t t : {0, 1})
    EXPECT_LT((y.row(t) - x.row(t)).norm() / x.row(t).norm(), 0.01);
  EXPECT_EQ(roundActivations(x, std::nullopt), x);
}

} // namespace
