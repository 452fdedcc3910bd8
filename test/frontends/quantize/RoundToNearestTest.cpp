#include "frontends/quantize/RoundToNearest.h"

#include "runtime/core/Dummy.h"
#include "runtime/reference/Quantize.h"

#include <gmock/gmock.h>

using namespace dsv3;
using quantize::Clip;
using quantize::Code;
using quantize::Scheme;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

std::vector<float> numbers(const char *name, size_t n, float spread = 1) {
  std::vector<float> x(n);
  Dummy dummy(name);
  for (size_t i = 0; i < n; ++i)
    x[i] = spread * dummy.normal(i) * (i % 37 == 5 ? 8.0f : 1.0f); // with outliers
  return x;
}

quantize::Quantized good(const std::vector<float> &x, int64_t cols, const Scheme &scheme, Clip clip = Clip::Absmax) {
  Result<quantize::Quantized> q = quantize::quantize(x.data(), int64_t(x.size()) / cols, cols, scheme, clip);
  EXPECT_TRUE(bool(q)) << (q ? "" : q.error().message);
  return q ? *q : quantize::Quantized();
}

double squaredError(const std::vector<float> &x, int64_t cols, const Scheme &scheme, const quantize::Quantized &q) {
  const int64_t block = scheme.blockCols ? scheme.blockCols : cols, groups = (cols + block - 1) / block;
  double sum = 0;
  for (int64_t i = 0; i < int64_t(x.size()); ++i) {
    double e = double(x[size_t(i)]) - double(quantize::decode(q.codes[size_t(i)], q.scales[size_t(i / cols * groups + i % cols / block)], scheme.code));
    sum += e * e;
  }
  return sum;
}

} // namespace

// The reference is written apart from this; both must store the same bits.
TEST(RoundToNearest, BitsOfTheReference) {
  using reference::QuantStorage;
  using reference::Rounding;
  const int64_t rows = 9, cols = 200; // 200: a partial group of 128, partial blocks
  for (auto [code, storage] : {std::pair(Code::I8, QuantStorage::I8), {Code::I4, QuantStorage::I4}, {Code::F8E4M3, QuantStorage::F8E4M3}})
    for (auto [type, rounding] : {std::pair(DType::F32, Rounding::F32), {DType::BF16, Rounding::BF16}, {DType::F16, Rounding::F16}})
      for (auto [blockRows, blockCols] : {std::pair<int64_t, int64_t>(1, 0), {1, 128}, {4, 64}, {0, 0}})
        for (bool pow2 : {false, true})
          for (float spread : {1.0f, 1e-30f, 3e3f}) {
            std::vector<float> x = numbers("w", size_t(rows * cols), spread);
            std::fill(x.begin() + cols, x.begin() + 2 * cols, 0.0f); // a row of zeros
            quantize::Quantized q = good(x, cols, {code, blockRows, blockCols, type, pow2});
            reference::Array<float> array({rows, cols}, x);
            auto want = reference::quantize(array, {storage, blockRows, blockCols, pow2, rounding});
            ASSERT_TRUE(bool(want));
            ASSERT_EQ(q.scales, want->scale.data);
            for (size_t i = 0; i < x.size(); ++i)
              ASSERT_EQ(quantize::decode(q.codes[i], 1, code), want->data.data[i]) << "element " << i << ", spread " << spread;
          }
}

TEST(RoundToNearest, AllZeroRow) {
  quantize::Quantized q = good({0, 0, 0, 0, 1, -14, 2, 3}, 4, {Code::I4});
  EXPECT_THAT(q.scales, ElementsAre(1, 2)) << "no division by zero";
  EXPECT_THAT(q.codes, ElementsAre(0, 0, 0, 0, 0, uint8_t(-7), 1, 2)) << "1 / 2 and 3 / 2 go to even";
  EXPECT_THAT(good({0, -0.0f}, 2, {Code::I4}, Clip::Mse).codes, Each(0));
}

TEST(RoundToNearest, AScaleThatItsTypeCannotHold) {
  Scheme scheme{Code::I4, 1, 2, DType::F16};
  const std::vector<float> x = {1, 2, 3, 7 * 65504.0f, 1, 7e6f};
  EXPECT_TRUE(bool(quantize::quantize(x.data(), 1, 4, scheme, Clip::Absmax)));
  for (Clip clip : {Clip::Absmax, Clip::Mse}) {
    auto bad = quantize::quantize(x.data(), 3, 2, scheme, clip);
    ASSERT_FALSE(bool(bad));
    EXPECT_EQ(bad.error().message, "expected numbers whose scales fit F16, got larger ones in row 2");
  }
}

TEST(RoundToNearest, ClippingLessensTheError) {
  std::vector<float> x = numbers("clip", 64 * 256);
  for (int64_t group : {0, 128}) {
    Scheme scheme{Code::I4, 1, group};
    quantize::Quantized plain = good(x, 256, scheme), clipped = good(x, 256, scheme, Clip::Mse);
    EXPECT_LT(squaredError(x, 256, scheme, clipped), 0.9 * squaredError(x, 256, scheme, plain));
    for (size_t i = 0; i < plain.scales.size(); ++i) {
      EXPECT_LE(clipped.scales[i], plain.scales[i]);
      EXPECT_GE(clipped.scales[i], 0.399f * plain.scales[i]);
    }
  }
  // Numbers that lie on the grid have no error to lessen.
  EXPECT_THAT(good({7, -7, 3, 1}, 4, {Code::I4}, Clip::Mse).scales, ElementsAre(1));
}

TEST(RoundToNearest, GroupsThatDoNotDivideTheRow) {
  quantize::Quantized q = good({127, 1, 2, 254, 4}, 5, {Code::I8, 1, 2});
  EXPECT_THAT(q.scales, ElementsAre(1, 2, 4.0f / 127)) << "the last group of an odd row has one number";
}

TEST(RoundToNearest, RefusesWhatHasNoScale) {
  const float x[] = {1, 2, std::nanf(""), 4};
  Result<quantize::Quantized> q = quantize::quantize(x, 2, 2, {Code::I8}, Clip::Absmax);
  ASSERT_FALSE(q);
  EXPECT_THAT(q.error().message, HasSubstr("expected finite numbers to quantise, got NaN in row 1, column 0"));
}
