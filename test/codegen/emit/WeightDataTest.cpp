// Every kind of recipe against an index computation written out by hand.
#include "test/codegen/emit/Recipes.h"

#include "runtime/core/Dummy.h"

#include <cmath>

namespace dsv3::test {

using Shape = std::vector<int64_t>;

TEST_F(Recipes, PlainFilesAreRoundedToTheType) {
  open(R"(
    dsv3.weight @f32 : tensor<6x10xf32> from #dsv3.file<"f32">
    dsv3.weight @rounded : tensor<6x10xbf16> from #dsv3.file<"f32">
    dsv3.weight @f16 : tensor<6x10xf32> from #dsv3.file<"f16">
    dsv3.weight @gamma : tensor<10xf32> from #dsv3.file<"gamma">)");
  WeightValues f32 = load("f32"), rounded = load("rounded"), f16 = load("f16"), gamma = load("gamma");
  EXPECT_EQ(f32.shape, (Shape{6, 10}));
  EXPECT_EQ(gamma.shape, (Shape{10}));
  for (int64_t i = 0; i < 60; ++i) {
    EXPECT_EQ(f32.values[size_t(i)], at("f32", i));
    EXPECT_EQ(rounded.values[size_t(i)], roundTo(DType::BF16, at("f32", i)));
    EXPECT_EQ(f16.values[size_t(i)], at("f16", i));
  }
  EXPECT_NE(rounded.values, f32.values);
  for (int64_t i = 0; i < 10; ++i)
    EXPECT_EQ(gamma.values[size_t(i)], at("gamma", i));
}

TEST_F(Recipes, EncodedFilesKeepCodesAndScales) {
  open(R"(
    dsv3.weight @a : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "a_scale">
    dsv3.weight @b : tensor<8x20xbf16, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"b", scale "b_scale">)");
  for (std::string name : {"a", "b"}) {
    WeightValues w = load(name);
    int64_t n = w.shape[0], blocks = (n + 3) / 4;
    ASSERT_EQ(w.codes.size(), size_t(n * 20));
    ASSERT_EQ(w.scales.size(), size_t(blocks * 3));
    EXPECT_TRUE(w.values.empty());
    for (int64_t i = 0; i < n * 20; ++i)
      EXPECT_EQ(w.codes[size_t(i)], code(name, i));
    for (int64_t i = 0; i < blocks * 3; ++i)
      EXPECT_EQ(w.scales[size_t(i)], at(name + "_scale", i));
  }
}

TEST_F(Recipes, APlainTypeDequantises) {
  open(R"(
    dsv3.weight @a : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "a_scale">
    dsv3.weight @cut : tensor<3x20xbf16> from #dsv3.slice<0, 2, 3, #dsv3.ref<@a>>)");
  WeightValues cut = load("cut");
  for (int64_t n = 0; n < 3; ++n)
    for (int64_t k = 0; k < 20; ++k)
      EXPECT_EQ(cut.values[size_t(n * 20 + k)], roundTo(DType::BF16, dequantised("a", n + 2, k)));
}

TEST_F(Recipes, StacksReadOneEntryAtATime) {
  open(R"(
    dsv3.weight @e : tensor<3x6x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.stack<0 to 3, #dsv3.file<"e.{}", scale "e.{}_scale">>)");
  WeightValues all = load("e");
  EXPECT_EQ(all.shape, (Shape{3, 6, 20}));
  for (int64_t e = 0; e < 3; ++e) {
    std::string name = "e." + std::to_string(e);
    WeightValues entry = load("e", e);
    EXPECT_EQ(entry.shape, (Shape{6, 20}));
    for (int64_t i = 0; i < 120; ++i) {
      EXPECT_EQ(entry.codes[size_t(i)], code(name, i));
      EXPECT_EQ(all.codes[size_t(e * 120 + i)], code(name, i));
    }
    ASSERT_EQ(entry.scales.size(), 6u);
    for (int64_t i = 0; i < 6; ++i) {
      EXPECT_EQ(entry.scales[size_t(i)], at(name + "_scale", i));
      EXPECT_EQ(all.scales[size_t(e * 6 + i)], at(name + "_scale", i));
    }
  }
}

TEST_F(Recipes, ConcatAlongRowsAndColumns) {
  open(R"(
    dsv3.weight @rows : tensor<18x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from
      #dsv3.concat<0, [#dsv3.file<"b", scale "b_scale">, #dsv3.file<"a", scale "a_scale">]>
    dsv3.weight @cols : tensor<6x20xf32> from #dsv3.concat<1, [#dsv3.file<"f32">, #dsv3.file<"bf16">]>)");
  WeightValues rows = load("rows"), cols = load("cols");
  for (int64_t n = 0; n < 18; ++n)
    for (int64_t k = 0; k < 20; ++k)
      EXPECT_EQ(rows.codes[size_t(n * 20 + k)], n < 8 ? code("b", n * 20 + k) : code("a", (n - 8) * 20 + k));
  ASSERT_EQ(rows.scales.size(), 15u);
  for (int64_t i = 0; i < 15; ++i)
    EXPECT_EQ(rows.scales[size_t(i)], i < 6 ? at("b_scale", i) : at("a_scale", i - 6));
  for (int64_t n = 0; n < 6; ++n)
    for (int64_t k = 0; k < 20; ++k)
      EXPECT_EQ(cols.values[size_t(n * 20 + k)], k < 10 ? at("f32", n * 10 + k) : at("bf16", n * 10 + k - 10));
}

TEST_F(Recipes, HeadsAreReshapedSlicedAndTransposed) {
  // As the absorbed form cuts kv_b: [2 heads x 5, 20] -> [2, 5, 20] -> rows 1..4 of each head, and that transposed.
  open(R"(
    dsv3.weight @a : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "a_scale">
    dsv3.weight @part : tensor<2x3x20xf32> from #dsv3.slice<1, 1, 3, #dsv3.reshape<[2, 5, 20], #dsv3.ref<@a>>>
    dsv3.weight @turned : tensor<2x20x3xf32> from #dsv3.transpose<#dsv3.slice<1, 1, 3, #dsv3.reshape<[2, 5, 20], #dsv3.ref<@a>>>>
    dsv3.weight @lanes : tensor<10x7xf32> from #dsv3.slice<1, 9, 7, #dsv3.ref<@a>>
    dsv3.weight @joined : tensor<2x6x20xf32> from #dsv3.concat<1, [#dsv3.slice<1, 1, 3, #dsv3.reshape<[2, 5, 20], #dsv3.ref<@a>>>,
      #dsv3.slice<1, 2, 3, #dsv3.reshape<[2, 5, 20], #dsv3.ref<@a>>>]>)");
  WeightValues part = load("part"), turned = load("turned"), lanes = load("lanes"), joined = load("joined");
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t n = 0; n < 3; ++n)
      for (int64_t k = 0; k < 20; ++k) {
        float want = dequantised("a", h * 5 + 1 + n, k);
        EXPECT_EQ(part.values[size_t((h * 3 + n) * 20 + k)], want);
        EXPECT_EQ(turned.values[size_t((h * 20 + k) * 3 + n)], want);
        EXPECT_EQ(joined.values[size_t((h * 6 + n) * 20 + k)], want);
        EXPECT_EQ(joined.values[size_t((h * 6 + 3 + n) * 20 + k)], dequantised("a", h * 5 + 2 + n, k));
      }
  for (int64_t n = 0; n < 10; ++n)
    for (int64_t k = 0; k < 7; ++k)
      EXPECT_EQ(lanes.values[size_t(n * 7 + k)], dequantised("a", n, k + 9));
  EXPECT_EQ(load("part", 1).values, std::vector<float>(part.values.begin() + 60, part.values.end()));
}

TEST_F(Recipes, RopeTable) {
  open(R"(dsv3.weight @rope : tensor<40x8xf32> from #dsv3.rope_table<#dsv3.rope<dims = 8, theta = 10000.0, interleaved = true, scale = 1.5>, 40>)");
  WeightValues rope = load("rope");
  for (int64_t p = 0; p < 40; ++p)
    for (int64_t i = 0; i < 4; ++i) {
      float frequency = float(std::pow(10000.0, -2.0 * double(i) / 8));
      double angle = double(frequency) * double(p);
      EXPECT_NEAR(rope.values[size_t(p * 8 + i)], 1.5 * std::cos(angle), 1e-5);
      EXPECT_NEAR(rope.values[size_t(p * 8 + 4 + i)], 1.5 * std::sin(angle), 1e-5);
    }
}

TEST_F(Recipes, DummiesAreDrawnByNameAndIndex) {
  open(R"(
    dsv3.weight @plain : tensor<4x6xf32> from #dsv3.dummy<"x", std 0.5>
    dsv3.weight @coded : tensor<4x6xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.dummy<"x", std 0.5>)");
  Dummy dummy("x");
  WeightValues plain = load("plain"), coded = load("coded");
  for (size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(plain.values[i], 0.5f * dummy.normal(i));
    EXPECT_NEAR(e4m3ToFloat(coded.codes[i]) * coded.scales[0], plain.values[i], 0.07f * std::abs(plain.values[i]) + 1e-4f);
  }
}

//===-- Refusals ----------------------------------------------------------===//

TEST_F(Recipes, NanCodeIsNamed) {
  content.tensors["a"].data[45] = '\x7f';
  content.tensors["b"].data[3] = '\xff';
  open(R"(
    dsv3.weight @a : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "a_scale">
    dsv3.weight @b : tensor<8x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"b", scale "b_scale">
    dsv3.weight @cut : tensor<4x20xf32> from #dsv3.slice<0, 0, 4, #dsv3.ref<@a>>)");
  for (std::string symbol : {"a", "b", "cut"}) {
    Error e = refused(symbol);
    EXPECT_EQ(e.code, ExitCode::BadCheckpoint);
    EXPECT_NE(e.message.find(symbol == "b" ? "b: " : "a: "), std::string::npos) << e.message;
    EXPECT_NE(e.message.find(symbol == "b" ? "element 3" : "element 45"), std::string::npos) << e.message;
  }
}

TEST_F(Recipes, InfinityIsNamed) {
  content.set("f32", 17, INFINITY);
  open(R"(dsv3.weight @w : tensor<6x10xbf16> from #dsv3.file<"f32">)");
  Error e = refused("w");
  EXPECT_EQ(e.code, ExitCode::BadCheckpoint);
  EXPECT_EQ(e.message, "f32: expected finite values, got infinity at element 17");
}

TEST_F(Recipes, WhatTheCheckpointLacks) {
  content.tensors["wide_scale"] = content.tensors["a_scale"];
  content.tensors["wide_scale"].shape = {1, 9};
  open(R"(
    dsv3.weight @gone : tensor<6x10xf32> from #dsv3.file<"gone">
    dsv3.weight @scale : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "gone_scale">
    dsv3.weight @grid : tensor<10x20xf32, #dsv3.blocked<f8E4M3FN, 4x8, f32>> from #dsv3.file<"a", scale "wide_scale">
    dsv3.weight @codes : tensor<10x20xf32> from #dsv3.file<"a">
    dsv3.weight @shape : tensor<5x12xf32> from #dsv3.file<"f32">)");
  EXPECT_EQ(refused("gone").message, "gone is missing from the checkpoint");
  EXPECT_EQ(refused("scale").message, "gone_scale is missing from the checkpoint");
  EXPECT_NE(refused("grid").message.find("wide_scale: expected shape [3, 3] (one scale per 4x8 block of [10, 20]), got [1, 9]"), std::string::npos);
  EXPECT_EQ(refused("codes").code, ExitCode::BadCheckpoint);
  EXPECT_NE(refused("shape").message.find("expected shape [5, 12], got [6, 10]"), std::string::npos);
}

} // namespace dsv3::test
