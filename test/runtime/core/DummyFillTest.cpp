#include "runtime/core/DummyFill.h"
#include "runtime/core/DummyRow.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;

namespace {
/// Columns [1, 3) of member 1 and 2 of tensors [2, 4], in the layout [n, k] of a stack [2, 2, 2].
DummyFill plainFill() {
  DummyFill f;
  f.tensor = "e.{}.weight";
  f.memberDim = 0, f.memberFirst = 1;
  f.elem = f.stored = DType::F32;
  f.spread.deviation = 0.5f;
  f.dims = {{0, 1, 2, 0, 0}, {0, 1, 2, 1, 0}, {0, 1, 2, 0, 1}};
  f.col = 1, f.cols = 4;
  f.offset = 8;
  f.terms = {{0, 1, 1 << 20, 4}, {1, 1, 1 << 20, 2}, {2, 1, 1 << 20, 1}};
  return f;
}

float at(const std::vector<uint8_t> &pool, size_t offset, size_t i) { return loadAsFloat(DType::F32, pool.data() + offset, i); }
} // namespace

TEST(DummyFill, DrawsABoxOfStackedTensors) {
  DummyFill f = plainFill();
  ASSERT_EQ(f.end(), 8u + 8 * 4);
  std::vector<uint8_t> pool(f.end());
  f.run(0, f.rows(), pool.data());
  for (int e = 0; e < 2; ++e)
    for (int n = 0; n < 2; ++n)
      for (int k = 0; k < 2; ++k)
        EXPECT_EQ(at(pool, 8, size_t(e * 4 + n * 2 + k)), 0.5f * Dummy("e." + std::to_string(e + 1) + ".weight").normal(uint64_t(n * 4 + k + 1)));
}

TEST(DummyFill, DrawsCodesAndOneScaleABlock) {
  DummyFill codes;
  codes.kind = DummyFill::Kind::Codes;
  codes.elem = DType::F8E4M3;
  codes.tensor = "w";
  codes.scale = "w_scale_inv";
  codes.spread = DummyTensor::ofScales(8, false);
  codes.dims = {{0, 1, 4, 1, 0}, {0, 1, 8, 0, 1}};
  codes.cols = 8;
  codes.blockRows = 2, codes.blockCols = 4;
  codes.terms = {{0, 1, 1 << 20, 1}, {1, 1, 1 << 20, 4}}; // column-major
  DummyFill scales = codes, plain = codes;
  scales.kind = DummyFill::Kind::Scales;
  scales.elem = DType::F32;
  scales.dims[0].step = 2, scales.dims[0].count = 2, scales.dims[1].step = 4, scales.dims[1].count = 2;
  scales.terms = {{0, 2, 1 << 20, 2}, {1, 4, 1 << 20, 1}};
  plain.kind = DummyFill::Kind::Dequantised;
  plain.elem = plain.stored = DType::F32;
  std::vector<uint8_t> c(codes.end()), s(scales.end()), p(plain.end());
  ASSERT_EQ(c.size(), 32u);
  ASSERT_EQ(s.size(), 16u);
  codes.run(0, 4, c.data()), scales.run(0, 2, s.data()), plain.run(0, 4, p.data());
  for (size_t n = 0; n < 4; ++n)
    for (size_t k = 0; k < 8; ++k) {
      uint8_t code = DummyTensor::code(Dummy("w"), n * 8 + k);
      float scale = codes.spread.scale(Dummy("w_scale_inv"), n / 2 * 2 + k / 4);
      EXPECT_EQ(c[k * 4 + n], code);
      EXPECT_EQ(at(s, 0, n / 2 * 2 + k / 4), scale);
      EXPECT_EQ(at(p, 0, k * 4 + n), e4m3ToFloat(code) * scale);
    }
}

TEST(DummyFill, RowsHaveTheBitsOfSingleElements) {
  Dummy stream("row");
  std::vector<float> normals(100003), values(100003);
  for (uint64_t first : {uint64_t(0), (uint64_t(1) << 32) - 50000}) {
    drawNormals(stream, first, int64_t(normals.size()), normals.data());
    drawCodeValues(stream, first, int64_t(values.size()), values.data());
    for (size_t i = 0; i < normals.size(); ++i) {
      ASSERT_EQ(floatBits(normals[i]), floatBits(stream.normal(first + i))) << i;
      ASSERT_EQ(floatBits(values[i]), floatBits(e4m3ToFloat(DummyTensor::code(stream, first + i)))) << i;
    }
  }
}

/// Numbers are what is written, and codes times scales without a rounding.
TEST(DummyFill, NumbersAreThoseOfTheBytes) {
  DummyFill f = plainFill();
  std::vector<uint8_t> pool(f.end());
  f.run(0, f.rows(), pool.data());
  std::vector<double> row(2);
  ASSERT_EQ(f.runAt({1, 1}), 3);
  EXPECT_EQ(f.runAt({2, 0}), -1);
  f.numbers(3, row.data());
  EXPECT_EQ(row[0], double(at(pool, 8, 6)));
  EXPECT_EQ(row[1], double(at(pool, 8, 7)));
  uint8_t bytes[4];
  EXPECT_EQ(f.element(3, 1, bytes), 8u + 7 * 4);
  EXPECT_EQ(loadAsFloat(DType::F32, bytes, 0), at(pool, 8, 7));
  f.kind = DummyFill::Kind::Codes;
  f.elem = DType::F8E4M3;
  f.spread = DummyTensor::ofScales(4, false);
  f.scale = "s.{}";
  f.blockRows = 1, f.blockCols = 2;
  f.numbers(2, row.data()); // member 2, row 0, columns 1 and 2: two blocks
  for (size_t j = 0; j < 2; ++j)
    EXPECT_EQ(row[j], double(e4m3ToFloat(DummyTensor::code(Dummy("e.2.weight"), 1 + j))) * double(f.spread.scale(Dummy("s.2"), j)));
}

TEST(DummyFill, HasAKeyForEveryMemberThatAStepReaches) {
  DummyFill f = plainFill();
  ASSERT_GE(f.memberDim, 0);
  DummyFill::Dim &members = f.dims[size_t(f.memberDim)];
  members.step = 3;
  size_t keys = f.words().size() - size_t(kFillKeys);
  EXPECT_EQ(keys, 2 * size_t(members.first + 3 * (members.count - 1) + 1)); // of tensors, then of scales
}

TEST(DummyFill, SurvivesJson) {
  DummyFill f = plainFill();
  f.spread = {1.0f, 0.1f, 0.1, true};
  Result<Json> json = parseJson(toJson(f).dump(), "fill");
  ASSERT_TRUE(json);
  Result<DummyFill> again = dummyFillFromJson(JsonFields(*json, "manifest.json", "fill."));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->words(), f.words());
}

TEST(DummyFill, RefusesWhatCannotBeDrawn) {
  auto refused = [](const char *key, OrderedJson value) {
    OrderedJson json = toJson(plainFill());
    json[key] = value;
    Result<Json> parsed = parseJson(json.dump(), "fill");
    Result<DummyFill> fill = dummyFillFromJson(JsonFields(*parsed, "manifest.json", "fill."));
    return fill ? std::string() : fill.error().message;
  };
  EXPECT_THAT(refused("kind", "random"), testing::HasSubstr("fill.kind: expected plain, codes, dequantised or scales"));
  EXPECT_THAT(refused("dims", {{0, 1, 0, 0, 0}}), testing::HasSubstr("fill.dims"));
  EXPECT_THAT(refused("terms", {{3, 1, 1, 1}}), testing::HasSubstr("fill.terms"));
  EXPECT_THAT(refused("terms", {{0, 0, 1, 1}}), testing::HasSubstr("fill.terms"));
  EXPECT_THAT(refused("elem", "F8_E4M3"), testing::HasSubstr("fill.elem"));
  EXPECT_THAT(refused("members", {2, 0}), testing::HasSubstr("fill.members"));
  EXPECT_THAT(refused("members", {0, -1}), testing::HasSubstr("fill.members"));
  EXPECT_THAT(refused("members", {0, int64_t(1) << 40}), testing::HasSubstr("fill.members"));
  constexpr int64_t many = 0x7fffffff;
  EXPECT_THAT(refused("dims", {{0, 1, many, 0, 0}, {0, 1, 2, 0, 0}, {0, 1, 2, 0, 0}}), testing::HasSubstr("fill.members"));
  EXPECT_THAT(refused("dims", {{0, 1, 3, 0, 0}, {0, 1, many, 0, 0}, {0, 1, many, 0, 0}}), testing::HasSubstr("fill.dims"));
  EXPECT_THAT(refused("dims", {{0, 1, 2}}), testing::HasSubstr("fill.dims: expected lists of 5 integers"));
}
