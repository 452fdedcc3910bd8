// The encoders against a slow definition: of all finite codes take the nearest, and of
// two equally near the even one.
#include "runtime/core/DType.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

using namespace dsv3;

namespace {

/// A format as a sorted list of its non-negative finite values; index = code.
struct Format {
  std::vector<float> values;
  float overflow; ///< first magnitude that rounds beyond the largest finite value

  uint32_t encode(float magnitude) const {
    size_t above = size_t(std::lower_bound(values.begin(), values.end(), magnitude) - values.begin());
    if (above == 0)
      return 0;
    if (above == values.size())
      return uint32_t(above - 1);
    double low = double(magnitude) - values[above - 1], high = values[above] - double(magnitude);
    if (low == high)
      return uint32_t(above % 2 ? above - 1 : above);
    return uint32_t(low < high ? above - 1 : above);
  }
};

/// Sign, exponent and mantissa by their definition, with doubles.
template <int exponentBits, int mantissaBits> Format makeFormat(int codes) {
  Format f;
  int bias = (1 << (exponentBits - 1)) - 1;
  for (int code = 0; code < codes; ++code) {
    int e = code >> mantissaBits, m = code & ((1 << mantissaBits) - 1);
    double fraction = e ? 1 + std::ldexp(m, -mantissaBits) : std::ldexp(m, -mantissaBits);
    f.values.push_back(float(std::ldexp(fraction, (e ? e : 1) - bias)));
  }
  size_t n = f.values.size();
  f.overflow = f.values[n - 1] + (f.values[n - 1] - f.values[n - 2]) / 2;
  return f;
}

/// Values that matter: every code, every midpoint, their float neighbours, and random.
std::vector<float> probes(const Format &f) {
  std::vector<float> out = {0.0f, 1e-45f, 1e-38f};
  auto around = [&](float x) {
    out.insert(out.end(), {x, std::nextafter(x, 0.0f), std::nextafter(x, 1e30f)});
  };
  for (size_t i = 0; i + 1 < f.values.size(); ++i) {
    around(f.values[i + 1]);
    around(float((double(f.values[i]) + f.values[i + 1]) / 2));
  }
  std::mt19937 random(1);
  std::uniform_real_distribution<float> exponent(-30, 17);
  for (int i = 0; i < 20000; ++i)
    out.push_back(std::exp2(exponent(random)));
  return out;
}

} // namespace

TEST(DType, E4m3RoundsToNearestEvenAndSaturates) {
  Format f = makeFormat<4, 3>(0x7f);
  EXPECT_EQ(f.values.back(), e4m3Max);
  for (float x : probes(f)) {
    uint32_t expected = x >= f.values.back() ? 0x7e : f.encode(x);
    ASSERT_EQ(floatToE4m3(x), expected) << x;
    ASSERT_EQ(floatToE4m3(-x), expected | 0x80) << -x;
  }
  for (int code = 0; code < 0x7f; ++code) {
    EXPECT_EQ(e4m3ToFloat(uint8_t(code)), f.values[size_t(code)]);
    EXPECT_EQ(e4m3ToFloat(uint8_t(code | 0x80)), -f.values[size_t(code)]);
  }
  EXPECT_TRUE(std::isnan(e4m3ToFloat(0x7f)) && std::isnan(e4m3ToFloat(0xff)));
  EXPECT_EQ(floatToE4m3(std::numeric_limits<float>::infinity()), 0x7e);
  EXPECT_EQ(floatToE4m3(std::nanf("")), 0x7f);
}

TEST(DType, E5m2RoundsToNearestEvenAndOverflowsToInfinity) {
  Format f = makeFormat<5, 2>(0x7c);
  EXPECT_EQ(f.values.back(), 57344.0f);
  for (float x : probes(f)) {
    uint32_t expected = x >= f.overflow ? 0x7c : f.encode(x);
    ASSERT_EQ(floatToE5m2(x), expected) << x;
    ASSERT_EQ(floatToE5m2(-x), expected | 0x80) << -x;
  }
  for (int code = 0; code < 0x7c; ++code)
    EXPECT_EQ(e5m2ToFloat(uint8_t(code)), f.values[size_t(code)]);
  EXPECT_TRUE(std::isinf(e5m2ToFloat(0x7c)) && std::isnan(e5m2ToFloat(0x7f)));
  EXPECT_EQ(floatToE5m2(std::nanf("")), 0x7f);
}

TEST(DType, F16RoundsToNearestEven) {
  Format f = makeFormat<5, 10>(0x7c00);
  for (float x : probes(f))
    ASSERT_EQ(floatToF16(x), x >= f.overflow ? 0x7c00u : f.encode(x)) << x;
  for (int code = 0; code < 0x7c00; ++code)
    ASSERT_EQ(f16ToFloat(uint16_t(code)), f.values[size_t(code)]);
  EXPECT_TRUE(std::isinf(f16ToFloat(0xfc00)) && std::isnan(f16ToFloat(0x7c01)));
  EXPECT_TRUE(std::isnan(f16ToFloat(floatToF16(std::nanf("")))));
}

TEST(DType, Bf16RoundsToNearestEven) {
  for (uint32_t code = 0; code < 0x7f80; ++code) {
    ASSERT_EQ(floatToBf16(bf16ToFloat(uint16_t(code))), code);
    float half = floatFromBits((code << 16) | 0x8000);
    ASSERT_EQ(floatToBf16(half), code + (code & 1));
    ASSERT_EQ(floatToBf16(floatFromBits(floatBits(half) - 1)), code);
    ASSERT_EQ(floatToBf16(floatFromBits(floatBits(half) + 1)), code + 1);
  }
  // A NaN whose payload is only in the dropped half must not become infinity.
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(floatFromBits(0x7f800001)))));
  EXPECT_TRUE(std::isnan(bf16ToFloat(floatToBf16(floatFromBits(0xffffffff)))));
}

TEST(DType, RoundToMatchesTheCodes) {
  EXPECT_EQ(roundTo(DType::F32, 1.00000012f), 1.00000012f);
  EXPECT_EQ(roundTo(DType::BF16, 1.00390625f), 1.0f); // half way between 1 and 1 + 2^-7
  EXPECT_EQ(roundTo(DType::F16, 65504.0f), 65504.0f);
  EXPECT_EQ(roundTo(DType::F8E4M3, 500.0f), 448.0f);
  EXPECT_EQ(roundTo(DType::F8E5M2, -0.3f), -0.3125f);
}

TEST(DType, NamesRoundTrip) {
  for (int i = 0; i <= int(DType::BOOL); ++i)
    EXPECT_EQ(dtypeFromSafetensors(safetensorsName(DType(i))), DType(i));
  EXPECT_EQ(safetensorsName(DType::F8E4M3), "F8_E4M3");
  EXPECT_EQ(dtypeFromSafetensors("F4_E2M1"), std::nullopt);
  EXPECT_EQ(dtypeFromSafetensors("bf16"), std::nullopt);
}

TEST(DType, BulkConversionsMatchScalarOnes) {
  std::vector<float> values = {0.0f, -1.5f, 3.14159f, 447.0f, -1e-3f, 1e5f, 0.1f};
  for (DType t : {DType::F64, DType::F32, DType::BF16, DType::F16, DType::F8E4M3, DType::F8E5M2}) {
    // One byte in: readers must not assume alignment.
    std::vector<char> stored(values.size() * byteSize(t) + 1);
    convertFromFloat(t, values.data(), values.size(), stored.data() + 1);
    std::vector<float> back(values.size());
    convertToFloat(t, stored.data() + 1, values.size(), back.data());
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(back[i], roundTo(t, values[i]));
      EXPECT_EQ(loadAsFloat(t, stored.data() + 1, i), back[i]);
    }
  }
  int16_t integers[] = {-3, 7};
  EXPECT_EQ(loadAsFloat(DType::I16, integers, 0), -3.0f);
}
