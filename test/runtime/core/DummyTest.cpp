#include "runtime/core/Dummy.h"

#include <gtest/gtest.h>

using namespace dsv3;

TEST(Dummy, IsAFunctionOfNameAndIndex) {
  Dummy a("a"), again("a"), b("b");
  EXPECT_EQ(a.normal(7), again.normal(7));
  EXPECT_NE(a.normal(7), b.normal(7));
  EXPECT_NE(a.normal(7), a.normal(8));
  EXPECT_NE(a.normal(0), a.normal(uint64_t{1} << 32)) << "all 64 bits of the index count";
}

TEST(Dummy, BitsStay) { // artifacts with dummy weights depend on them
  EXPECT_EQ(Dummy("").word(0), 1095801358u);
  EXPECT_FLOAT_EQ(Dummy("model.norm.weight").normal(0), -0.899835229f);
}

TEST(Dummy, HasMeanZeroAndVarianceOne) {
  Dummy d("x");
  double sum = 0, squares = 0;
  for (int i = 0; i < 20000; ++i) {
    double n = d.normal(i);
    sum += n, squares += n * n;
  }
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.04);
}

TEST(DummyTensor, MatricesKeepUnitSizeNormsLieAroundOne) {
  EXPECT_FLOAT_EQ(DummyTensor::ofData("model.layers.0.mlp.gate_proj.weight", {256, 64}).deviation, 0.125f);
  EXPECT_EQ(DummyTensor::ofData("model.embed_tokens.weight", {256, 64}).deviation, 1.0f);
  DummyTensor norm = DummyTensor::ofData("model.norm.weight", {64}), bias = DummyTensor::ofData("a.e_score_correction_bias", {8});
  EXPECT_EQ(norm.mean, 1.0f);
  EXPECT_EQ(bias.mean, 0.0f);
  float value = norm.plain(Dummy("model.norm.weight"), 0, DType::BF16);
  EXPECT_EQ(value, roundTo(DType::BF16, 1.0f + 0.125f * Dummy("model.norm.weight").normal(0)));
}

TEST(DummyTensor, CodesTimesScalesHaveTheDeviationOfAMatrix) {
  Dummy codes("w"), scales("w_scale_inv");
  DummyTensor scale = DummyTensor::ofScales(1024, false);
  double squares = 0, least = 1e9, most = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    double s = scale.scale(scales, i % 64), x = s * e4m3ToFloat(DummyTensor::code(codes, i));
    squares += x * x, least = std::min(least, s), most = std::max(most, s);
  }
  EXPECT_NEAR(std::sqrt(squares / 20000), 1 / 32.0, 0.002);
  EXPECT_GT(most / least, 1.5) << "a wrong scale must be seen";
  EXPECT_LT(most / least, 5 / 3.0 + 1e-6);
}

TEST(DummyTensor, ScalesOfUe8m0ArePowersOfTwo) {
  DummyTensor scale = DummyTensor::ofScales(100, true);
  int exponent = 0;
  bool both[2] = {};
  for (uint64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(std::frexp(scale.scale(Dummy("s"), i), &exponent), 0.5f);
    both[scale.scale(Dummy("s"), i) == float(scale.scaleBase)] = true;
  }
  EXPECT_TRUE(both[0] && both[1]);
}
