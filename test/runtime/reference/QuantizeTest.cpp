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
