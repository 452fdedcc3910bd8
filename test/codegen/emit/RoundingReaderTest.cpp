// Weights that the compiler quantises: each row of codes and scales is what the library makes of the numbers, in any arrangement.
#include "test/codegen/emit/Recipes.h"

#include "frontends/quantize/RoundToNearest.h"

#include <gmock/gmock.h>

#include <cmath>
#include <thread>

namespace dsv3::test {

using quantize::Clip;
using quantize::Code;
using testing::HasSubstr;

class RoundingReader : public Recipes {
protected:
  /// All of @w as the library quantises the numbers of @w.stored, matrix by matrix.
  void expectQuantised(const quantize::Scheme &scheme, Clip clip) {
    WeightValues got = load("w"), from = load("plain");
    int64_t cols = from.shape.back(), rows = from.shape[from.shape.size() - 2], matrix = rows * cols;
    std::vector<uint8_t> codes;
    std::vector<float> scales;
    for (int64_t m = 0; m < int64_t(from.values.size()) / matrix; ++m) {
      auto q = quantize::quantize(from.values.data() + m * matrix, rows, cols, scheme, clip);
      ASSERT_TRUE(bool(q));
      codes.insert(codes.end(), q->codes.begin(), q->codes.end());
      scales.insert(scales.end(), q->scales.begin(), q->scales.end());
    }
    EXPECT_EQ(got.codes, codes);
    EXPECT_EQ(got.scales, scales);
  }
};

TEST_F(RoundingReader, DequantisedBlocksAreRoundedAgain) {
  for (auto [text, scheme] : {std::pair<const char *, quantize::Scheme>("i8, 1x?, f32", {Code::I8, 1, 0}),
                              {"i4, 1x6, bf16", {Code::I4, 1, 6, DType::BF16}},
                              {"i4, 1x?, f16", {Code::I4, 1, 0, DType::F16}},
                              {"f8E4M3FN, 4x16, f32", {Code::F8E4M3, 4, 16}},
                              {"f8E4M3FN, ?x?, f32, pow2_scale", {Code::F8E4M3, 0, 0, DType::F32, true}}})
    for (auto [name, clip] : {std::pair("absmax", Clip::Absmax), {"mse", Clip::Mse}}) {
      open(R"(dsv3.weight @w.stored : tensor<3x6x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.stack<0 to 3, #dsv3.file<"e.{}", scale "e.{}_scale">>
              dsv3.weight @plain : tensor<3x6x20xf32> from #dsv3.ref<@w.stored>
              dsv3.weight @w : tensor<3x6x20xbf16, #dsv3.blocked<)" + std::string(text) + ">> from #dsv3.quantized<@w.stored, " + name + ">");
      expectQuantised(scheme, clip);
    }
}

TEST_F(RoundingReader, PlainWeightsAndWhatIsMadeOfThem) {
  open(R"(
    dsv3.weight @plain : tensor<6x10xf32> from #dsv3.file<"bf16">
    dsv3.weight @w : tensor<6x10xf32, #dsv3.blocked<i4, 1x4, f32>> from #dsv3.quantized<@plain, mse>
    dsv3.weight @cut : tensor<2x10xf32, #dsv3.blocked<i4, 1x4, f32>> from #dsv3.slice<0, 3, 2, #dsv3.ref<@w>>
    dsv3.weight @twice : tensor<12x10xf32, #dsv3.blocked<i4, 1x4, f32>> from #dsv3.concat<0, [#dsv3.ref<@w>, #dsv3.ref<@w>]>
    dsv3.weight @turned : tensor<10x6xf32> from #dsv3.transpose<#dsv3.ref<@w>>
    dsv3.weight @back : tensor<6x10xf32> from #dsv3.ref<@w>)");
  expectQuantised({Code::I4, 1, 4}, Clip::Mse);
  WeightValues w = load("w"), cut = load("cut"), twice = load("twice"), turned = load("turned"), back = load("back");
  for (int64_t n = 0; n < 6; ++n)
    for (int64_t k = 0; k < 10; ++k) {
      float value = float(int8_t(w.codes[size_t(n * 10 + k)])) * w.scales[size_t(n * 3 + k / 4)];
      EXPECT_EQ(back.values[size_t(n * 10 + k)], value);
      EXPECT_EQ(turned.values[size_t(k * 6 + n)], value);
      EXPECT_EQ(twice.codes[size_t((n + 6) * 10 + k)], w.codes[size_t(n * 10 + k)]);
      if (n == 3 || n == 4) {
        EXPECT_EQ(cut.codes[size_t((n - 3) * 10 + k)], w.codes[size_t(n * 10 + k)]);
        EXPECT_EQ(cut.scales[size_t((n - 3) * 3 + k / 4)], w.scales[size_t(n * 3 + k / 4)]);
      }
    }
}

TEST_F(RoundingReader, ThreadsSeeOneResult) {
  open(R"(
    dsv3.weight @plain : tensor<6x10xf32> from #dsv3.file<"f32">
    dsv3.weight @w : tensor<6x10xf32, #dsv3.blocked<i8, 1x?, f32>> from #dsv3.quantized<@plain, mse>)");
  auto reader = data->open("w");
  ASSERT_TRUE(bool(reader));
  std::vector<std::vector<float>> seen(4, std::vector<float>(60));
  std::vector<std::thread> threads;
  for (auto &out : seen)
    threads.emplace_back([&] {
      for (int64_t row = 0; row < 6; ++row)
        EXPECT_TRUE(bool((*reader)->values(row, 0, 10, out.data() + row * 10)));
    });
  for (std::thread &t : threads)
    t.join();
  for (const auto &out : seen)
    EXPECT_EQ(out, seen[0]);
}

TEST_F(RoundingReader, Refusals) {
  content.set("f32", 7, INFINITY);
  open(R"(
    dsv3.weight @bad : tensor<6x10xf32> from #dsv3.file<"f32">
    dsv3.weight @w : tensor<6x10xf32, #dsv3.blocked<i8, 1x?, f32>> from #dsv3.quantized<@bad, absmax>)");
  EXPECT_THAT(refused("w").message, HasSubstr("f32: expected finite values, got infinity at element 7"));
  EXPECT_EQ(refused("w").code, ExitCode::BadCheckpoint);
  content.set("f32", 7, 0);
  content.set("f32", 23, 1e9f);
  open(R"(
    dsv3.weight @large : tensor<6x10xf32> from #dsv3.file<"f32">
    dsv3.weight @w : tensor<6x10xf32, #dsv3.blocked<i8, 1x?, f16>> from #dsv3.quantized<@large, absmax>)");
  EXPECT_EQ(refused("w").message, "weight @large: expected numbers whose scales fit F16, got larger ones in row 2");
}

} // namespace dsv3::test
