#include "runtime/reference/Quantize.h"
#include "Util.h"
#include "runtime/core/DType.h"

#include <cmath>
#include <limits>

using namespace dsv3;
using namespace dsv3::reference;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Rounding, TiesGoToEvenAndOverflowFollowsTheType) {
  EXPECT_EQ(roundTo(Rounding::BF16, 1.0 + 0x1p-8), 1.0);         // half way, 1.0 is even
  EXPECT_EQ(roundTo(Rounding::BF16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6);
  EXPECT_EQ(roundTo(Rounding::BF16, 3.4e38), std::numeric_limits<double>::infinity());
  EXPECT_EQ(roundTo(Rounding::F16, 65519.0), 65504.0);
  EXPECT_EQ(roundTo(Rounding::F16, 65520.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(roundTo(Rounding::F8E4M3, 1000.0), 448.0);
  EXPECT_EQ(roundTo(Rounding::F8E4M3, 18.0), 18.0);
  EXPECT_EQ(roundTo(Rounding::F8E4M3, 17.0), 16.0); // between 16 and 18
  EXPECT_EQ(roundTo(Rounding::F8E4M3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(roundTo(Rounding::F8E4M3, 0x1p-10), 0.0); // half the smallest subnormal
  EXPECT_TRUE(std::signbit(roundTo(Rounding::F8E4M3, -0x1p-10)));
  EXPECT_TRUE(std::isnan(roundTo(Rounding::F8E4M3, std::nan(""))));
}

TEST(Rounding, DoubleRoundsOnce) {
  // Through float this would first become the tie 1 + 2^-8, then 1.
  double justAbove = 1.0 + 0x1p-8 + 0x1p-40;
  EXPECT_EQ(roundTo(Rounding::BF16, justAbove), 1.0 + 0x1p-7);
  EXPECT_EQ(roundTo(Rounding::Exact, justAbove), justAbove);
}

TEST(Rounding, FloatAgreesWithCore) {
  const std::pair<Rounding, DType> kinds[] = {{Rounding::BF16, DType::BF16},
                                              {Rounding::F16, DType::F16},
                                              {Rounding::F8E4M3, DType::F8E4M3}};
  for (uint32_t i = 0; i < 1u << 16; ++i) { // every exponent and sign, and ties of each type
    for (uint32_t low : {0u, 0x8000u, 0x7fffu, 0x1000u}) {
      float x = floatFromBits(i << 16 | low);
      for (auto [ours, core] : kinds) {
        float a = roundTo(ours, x), b = dsv3::roundTo(core, x);
        ASSERT_TRUE(floatBits(a) == floatBits(b) || (std::isnan(a) && std::isnan(b)))
            << toString(ours) << " of " << x << ": " << a << " and " << b;
      }
    }
  }
}

TEST(Quantize, Int8PerRowByHand) {
  Array<double> x({2, 3}, {127, -63.5, 1.4, 0, 0, 0});
  auto q = ok(quantize(x, {QuantStorage::I8, 1, 0}));
  EXPECT_THAT(q.scale.shape, ElementsAre(2, 1));
  EXPECT_THAT(q.scale.data, ElementsAre(1, 1)) << "an all-zero row has scale 1";
  EXPECT_THAT(q.data.data, ElementsAre(127, -64, 1, 0, 0, 0)) << "ties go to even";
  Array<double> y({1, 2}, {-254, 2.9});
  EXPECT_THAT(ok(dequantize(ok(quantize(y, {QuantStorage::I8, 1, 0})))).data, ElementsAre(-254, 2));
}

TEST(Quantize, Int4UsesSeven) {
  Array<float> x({1, 4}, {-7, 3, 14, -14});
  auto q = ok(quantize(x, {QuantStorage::I4, 1, 2}));
  EXPECT_THAT(q.scale.data, ElementsAre(1, 2));
  EXPECT_THAT(q.data.data, ElementsAre(-7, 3, 7, -7));
}

TEST(Quantize, Fp8BlocksAtTheEdgeArePartial) {
  // 3x5 in blocks of 2x4: a grid of 2x2. The corner block is one element.
  Array<float> x({3, 5});
  x.row(0)[0] = 448;
  x.row(1)[4] = -896;
  x.row(2)[4] = 4.48f;
  auto q = ok(quantize(x, {QuantStorage::F8E4M3, 2, 4}));
  EXPECT_THAT(q.scale.shape, ElementsAre(2, 2));
  EXPECT_THAT(q.scale.data, ElementsAre(1, 2, 1, 4.48f / 448));
  EXPECT_EQ(q.data.row(1)[4], -448);
  EXPECT_EQ(q.data.row(2)[4], 448);
  EXPECT_FLOAT_EQ(ok(dequantize(q)).row(2)[4], 4.48f);
}

TEST(Quantize, LeadingDimensionsHaveTheirOwnGrids) {
  Array<float> x({2, 2, 2}, {1, 1, 1, 1, 2, 2, 2, 2});
  auto q = ok(quantize(x, {QuantStorage::F8E4M3, 128, 128}));
  EXPECT_THAT(q.scale.shape, ElementsAre(2, 1, 1));
  EXPECT_FLOAT_EQ(q.scale.data[1], 2 * q.scale.data[0]);
}

TEST(Quantize, PowerOfTwoScalesRoundUp) {
  Array<double> x({2, 1}, {448 * 4, 448 * 4.5});
  auto q = ok(quantize(x, {QuantStorage::F8E4M3, 1, 128, true}));
  EXPECT_THAT(q.scale.data, ElementsAre(4, 8)) << "exact powers stay, others go up";
}

TEST(Quantize, ErrorIsBoundedAndIdempotent) {
  Array<double> x = noise<double>({4, 300}, 5);
  QuantScheme scheme{QuantStorage::F8E4M3, 1, 128};
  auto once = ok(dequantize(ok(quantize(x, scheme))));
  // 3 stored mantissa bits: half an ulp is 2^-4 relative; below 2^-6 of the
  // scale the step is constant.
  for (int64_t i = 0; i < x.size(); ++i)
    EXPECT_LE(std::fabs(once.data[i] - x.data[i]), std::fabs(x.data[i]) / 16 + 0x1p-10 / 448) << i;
  EXPECT_LT(maxDifference(ok(dequantize(ok(quantize(once, scheme)))), once), 1e-7);
}

TEST(Quantize, RefusesWhatHasNoScale) {
  EXPECT_THAT(errorOf(quantize(Array<float>({1, 1}, {INFINITY}), {})), HasSubstr("finite"));
  EXPECT_THAT(errorOf(quantize(Array<float>(), {})), HasSubstr("non-empty"));
  Quantized<float> bad{Array<float>({576, 256}), Array<float>({4, 2}), {}};
  EXPECT_THAT(errorOf(dequantize(bad)), HasSubstr("expected scale of shape [5, 2], got [4, 2]"));
}

//===-- Zero points -------------------------------------------------------===//

TEST(Quantize, ZeroPointsByHand) {
  // Range [-2, 13]: scale 1, and -2 becomes the smallest code.
  Array<double> x({1, 4}, {-2, 0, 13, 5.4});
  auto q = ok(quantize(x, {QuantStorage::I4, 1, 0, false, Rounding::F32, true}));
  EXPECT_THAT(q.scale.data, ElementsAre(1));
  EXPECT_THAT(q.zero.data, ElementsAre(-6));
  EXPECT_THAT(q.data.data, ElementsAre(-8, -6, 7, -1));
  EXPECT_THAT(ok(dequantize(q)).data, ElementsAre(-2, 0, 13, 5));
}

TEST(Quantize, ZeroPointsKeepZero) {
  // All above 0: the range is stretched to 0, whose code is the smallest. A row of zeros has no range at all.
  Array<float> x({2, 2}, {30, 15, 0, 0});
  auto q = ok(quantize(x, {QuantStorage::I4, 1, 0, false, Rounding::F32, true}));
  EXPECT_THAT(q.zero.data, ElementsAre(-8, -8));
  EXPECT_THAT(q.scale.data, ElementsAre(2, 1));
  EXPECT_THAT(ok(dequantize(q)).data, ElementsAre(30, 16, 0, 0)) << "7.5 goes to even";
}

TEST(Quantize, ZeroPointsArePartOfTheGrid) {
  EXPECT_THAT(errorOf(quantize(Array<float>({1, 1}, {1}), {QuantStorage::F8E4M3, 1, 1, false, Rounding::F32, true})),
              HasSubstr("expected integers"));
  Quantized<float> q{Array<float>({2, 4}), Array<float>({2, 2}), {QuantStorage::I4, 1, 2, false, Rounding::F32, true}};
  EXPECT_THAT(errorOf(dequantize(q)), HasSubstr("expected zero of shape [2, 2]"));
  q.zero = Array<float>({2, 2});
  EXPECT_THAT(ok(dequantize(q)).shape, ElementsAre(2, 4));
  q.scheme.zeroPoints = false;
  EXPECT_THAT(errorOf(dequantize(q)), HasSubstr("zero"));
}

//===-- Products ----------------------------------------------------------===//

namespace {
const QuantScheme kPerToken{QuantStorage::I8, 1, 0}, kPerChannel{QuantStorage::I8, 1, 0}, kInt4Groups{QuantStorage::I4, 1, 4};

/// The sum of every product of two arrays of plain integers.
int64_t integerDot(const Array<float> &x, int64_t t, const Array<float> &w, int64_t n, int64_t from, int64_t to) {
  int64_t sum = 0;
  for (int64_t k = from; k < to; ++k)
    sum += int64_t(x.row(t)[k]) * int64_t(w.row(n)[k]);
  return sum;
}
} // namespace

TEST(QuantizedLinear, Int8ByHand) {
  Quantized<float> x{Array<float>({2, 3}, {127, -128, 1, 0, 2, -1}), Array<float>({2, 1}, {0.5f, 1000}), kPerToken};
  Quantized<float> w{Array<float>({1, 3}, {-128, 127, 3}), Array<float>({1, 1}, {0.25f}), kPerChannel};
  EXPECT_THAT(ok(integerProducts(x, w)).data, ElementsAre(-127 * 128 - 128 * 127 + 3, 254 - 3));
  EXPECT_THAT(ok(quantizedLinear(x, w)).data, ElementsAre(-32509 * 0.125f, 251 * 250.0f));
}

TEST(QuantizedLinear, PerTokenScalesAreReallyPerToken) {
  // Two tokens 1000 times apart: with a scale for both, the small one would be zeros.
  Array<float> x = noise<float>({2, 37}, 3), w = noise<float>({5, 37}, 4);
  for (int64_t k = 0; k < 37; ++k)
    x.row(1)[k] = x.row(0)[k] / 1000;
  auto y = ok(quantizedLinear(ok(quantize(x, kPerToken)), ok(quantize(w, kPerChannel))));
  for (int64_t n = 0; n < 5; ++n)
    EXPECT_NEAR(y.row(1)[n] * 1000, y.row(0)[n], 1e-5 * std::fabs(y.row(0)[n]) + 1e-6) << n;
}

TEST(QuantizedLinear, AnAllZeroRowGivesZeros) {
  Array<float> x = noise<float>({3, 20}, 5), w = noise<float>({4, 20}, 6);
  std::fill_n(x.row(1), 20, 0.0f);
  std::fill_n(w.row(2), 20, 0.0f);
  auto y = ok(quantizedLinear(ok(quantize(x, kPerToken)), ok(quantize(w, kInt4Groups))));
  for (int64_t i = 0; i < 4; ++i) {
    EXPECT_EQ(y.row(1)[i], 0);
    EXPECT_TRUE(std::isfinite(y.row(0)[i]));
  }
  EXPECT_EQ(y.row(0)[2], 0);
  EXPECT_NE(y.row(0)[0], 0);
}

TEST(QuantizedLinear, Int4GroupsWithMinusEightAndOddK) {
  // K = 11 in groups of 4: the last has 3. Codes take every value from -8 to 7.
  Quantized<float> x{Array<float>({2, 11}), Array<float>({2, 1}, {0.5f, 2}), kPerToken};
  Quantized<float> w{Array<float>({3, 11}), Array<float>({3, 3}), kInt4Groups};
  for (int64_t i = 0; i < x.data.size(); ++i)
    x.data.data[i] = float(i * 37 % 256 - 128);
  for (int64_t i = 0; i < w.data.size(); ++i)
    w.data.data[i] = float(i * 7 % 16 - 8);
  for (int64_t i = 0; i < 9; ++i)
    w.scale.data[i] = float(1 << i % 4);
  auto sums = ok(integerProducts(x, w));
  ASSERT_THAT(sums.shape, ElementsAre(2, 3, 3));
  auto y = ok(quantizedLinear(x, w));
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t n = 0; n < 3; ++n) {
      float want = 0;
      for (int64_t g = 0; g < 3; ++g) {
        int64_t sum = integerDot(x.data, t, w.data, n, 4 * g, std::min<int64_t>(11, 4 * g + 4));
        EXPECT_EQ(sums.row(t * 3 + n)[g], sum);
        want += float(sum) * (x.scale.data[t] * w.scale.row(n)[g]);
      }
      EXPECT_EQ(y.row(t)[n], want);
    }
}

TEST(QuantizedLinear, ZeroPointsAreSubtractedFromCodes) {
  QuantScheme asymmetric{QuantStorage::I4, 1, 4, false, Rounding::F32, true};
  Array<double> w = noise<double>({3, 10}, 8), x = noise<double>({2, 10}, 9);
  auto q = ok(quantize(w, asymmetric));
  auto a = ok(quantize(x, kPerToken));
  auto y = ok(quantizedLinear(a, q)), plain = ok(dequantize(q)), rows = ok(dequantize(a));
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t n = 0; n < 3; ++n) {
      double want = 0;
      for (int64_t k = 0; k < 10; ++k)
        want += rows.row(t)[k] * plain.row(n)[k];
      EXPECT_NEAR(y.row(t)[n], want, 1e-12);
    }
}

TEST(QuantizedLinear, Fp8PiecesEndWhereEitherScaleDoes) {
  // x in groups of 4, w in blocks of 2 x 6 over K = 10: pieces end at 4, 6, 8, 10.
  Array<float> x = noise<float>({2, 10}, 1), w = noise<float>({3, 10}, 2);
  auto a = ok(quantize(x, {QuantStorage::F8E4M3, 1, 4})), b = ok(quantize(w, {QuantStorage::F8E4M3, 2, 6}));
  auto y = ok(quantizedLinear(a, b));
  for (int64_t t = 0; t < 2; ++t)
    for (int64_t n = 0; n < 3; ++n) {
      float want = 0;
      for (auto [from, to] : {std::pair(0, 4), std::pair(4, 6), std::pair(6, 8), std::pair(8, 10)}) {
        float sum = 0;
        for (int64_t k = from; k < to; ++k)
          sum += a.data.row(t)[k] * b.data.row(n)[k];
        want += sum * (a.scale.row(t)[from / 4] * b.scale.row(n / 2)[from / 6]);
      }
      EXPECT_EQ(y.row(t)[n], want);
    }
}

TEST(QuantizedLinear, SumsStayWithinInt32) {
  // 127 * 127 * 131,072 is below 2^31, twice that is above.
  for (int64_t k : {131072, 262144}) {
    Quantized<float> x{Array<float>({1, k}), Array<float>({1, 1}, {1}), kPerToken};
    std::fill(x.data.data.begin(), x.data.data.end(), 127.0f);
    if (k == 131072)
      EXPECT_THAT(ok(integerProducts(x, x)).data, ElementsAre(127 * 127 * 131072));
    else
      EXPECT_THAT(errorOf(integerProducts(x, x)), HasSubstr("within int32"));
  }
}

TEST(QuantizedLinear, Refusals) {
  auto a = ok(quantize(noise<float>({1, 4}, 1), kPerToken)), f8 = ok(quantize(noise<float>({1, 4}, 1), {QuantStorage::F8E4M3, 1, 4}));
  EXPECT_THAT(errorOf(integerProducts(a, f8)), HasSubstr("expected two operands of integers"));
  EXPECT_THAT(errorOf(quantizedLinear(a, ok(quantize(noise<float>({1, 5}, 1), kPerChannel)))), HasSubstr("expected x of shape [?, 5]"));
}

TEST(Quantize, ValuesOver448Saturate) {
  // A scale rounded down (bf16) leaves quotients above 448, which are stored as 448 and not as NaN.
  Array<double> x({1, 2}, {450 * 1.0039, -1e6});
  auto q = ok(quantize(x, {QuantStorage::F8E4M3, 1, 0, false, Rounding::BF16}));
  for (double code : q.data.data) {
    EXPECT_TRUE(std::isfinite(code));
    EXPECT_LE(std::fabs(code), 448);
  }
  EXPECT_EQ(q.data.data[1], -448);
}
