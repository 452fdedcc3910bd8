// Contents of buffers: packing by layout text, steps, routings, poison.
#include "test/tools/dsv3-bench/Cases.h"

#include <cmath>
#include <set>

using namespace dsv3;
using namespace dsv3::bench;

template <typename T> static T at(const std::vector<uint8_t> &bytes, size_t i) {
  T v;
  std::memcpy(&v, bytes.data() + i * sizeof(T), sizeof v);
  return v;
}

TEST(DataTest, WeightsArePackedByTheirLayoutAndPaddedWithZeros) {
  Pack pack = packOf(gemmCase({{"m", 4}, {"n", 12}, {"k", 16}}));
  CaseData data = dataOf(pack);
  const Buffer &w = *pack.cases[0].find("w");
  std::vector<uint8_t> bytes = data.bytes(w, 0);
  ASSERT_EQ(bytes.size(), 16u * 16 * 2);
  for (size_t n = 0; n < 16; ++n)
    for (size_t k = 0; k < 16; ++k) {
      float stored = bf16ToFloat(at<uint16_t>(bytes, (n / 8 * 16 + k) * 8 + n % 8));
      EXPECT_EQ(stored, n < 12 ? data.weight("w").value(int64_t(n), int64_t(k)) : 0) << n << " " << k;
    }
  EXPECT_EQ(data.weight("w").read(3, 5).data[16 + 7], data.weight("w").value(4, 7));
}

TEST(DataTest, Fp8WeightsHaveAScalePerBlock) {
  Case c = gemmCase({{"m", 1}, {"n", 200}, {"k", 300}});
  c.buffers[1] = fp8Weight("w", 200, 300);
  Pack pack = packOf(c);
  CaseData data = dataOf(pack);
  std::vector<uint8_t> bytes = data.bytes(c.buffers[1], 0);
  std::set<float> scales;
  for (size_t n : {0, 127, 128, 199})
    for (size_t k : {0, 127, 128, 256, 299}) {
      float scale;
      std::memcpy(&scale, bytes.data() + c.buffers[1].parts[1].offset + (n / 128 * 3 + k / 128) * 4, 4);
      scales.insert(scale);
      EXPECT_EQ(double(e4m3ToFloat(bytes[n * 300 + k])) * double(scale), data.weight("w").value(int64_t(n), int64_t(k)));
    }
  EXPECT_EQ(scales.size(), 6u);
}

TEST(DataTest, QuantisedRowsHoldWhatTheReferenceReads) {
  Case c = gemmCase({{"m", 4}, {"rows", 3}, {"n", 8}, {"k", 200}});
  c.buffers[0] = fp8Rows("x", Role::Input, 4, 200);
  Pack pack = packOf(c);
  CaseData data = dataOf(pack);
  std::vector<uint8_t> bytes = data.bytes(c.buffers[0], 0);
  std::set<float> scales;
  for (size_t row = 0; row < 4; ++row)
    for (size_t k : {0, 127, 128, 199}) {
      float scale;
      std::memcpy(&scale, bytes.data() + c.buffers[0].parts[1].offset + (row * 2 + k / 128) * 4, 4);
      double stored = double(e4m3ToFloat(bytes[row * 200 + k])) * double(scale);
      if (row == 3) { // past the step
        EXPECT_TRUE(std::isnan(scale) && std::isnan(e4m3ToFloat(bytes[row * 200 + k])));
        continue;
      }
      scales.insert(scale);
      EXPECT_EQ(stored, data.input(c.buffers[0], int64_t(row * 200 + k)));
    }
  EXPECT_EQ(scales.size(), 6u);
}

TEST(DataTest, RepeatedScalesAreWrittenEverywhere) {
  Case c = gemmCase({{"m", 1}, {"n", 256}, {"k", 256}});
  c.buffers[1] = fp8Weight("w", 256, 256);
  c.buffers[1].parts[1].layout = "(n, k) -> [k/128, n]"; // one per row
  c.buffers[1].parts[1].bytes = 2 * 256 * 4;
  c.buffers[1].bytes = c.buffers[1].parts[1].offset + 2 * 256 * 4;
  Pack pack = packOf(c);
  std::vector<uint8_t> bytes = dataOf(pack).bytes(c.buffers[1], 0);
  for (size_t i = 0; i < 512; ++i) {
    float scale, first;
    std::memcpy(&scale, bytes.data() + c.buffers[1].parts[1].offset + i * 4, 4);
    std::memcpy(&first, bytes.data() + c.buffers[1].parts[1].offset + i / 128 * 128 * 4, 4);
    EXPECT_GT(scale, 0) << i;
    EXPECT_EQ(scale, first) << i;
  }
}

TEST(DataTest, LayoutsThatDoNotFitAreRefused) {
  Case c = gemmCase({{"m", 1}, {"n", 8}, {"k", 8}});
  c.buffers[1].parts[0].layout = "(n, k) -> [n";
  Result<CaseData> data = CaseData::make(packOf(c), packOf(c).cases[0], 1);
  ASSERT_FALSE(data);
  EXPECT_NE(data.error().message.find("gemm: w: expected ']'"), std::string::npos);
}

TEST(DataTest, RowsPastTheStepAreNaN) {
  Pack pack = packOf(gemmCase({{"m", 4}, {"rows", 3}, {"n", 8}, {"k", 8}}));
  std::vector<uint8_t> x = dataOf(pack).bytes(*pack.cases[0].find("x"), 0);
  EXPECT_FALSE(std::isnan(bf16ToFloat(at<uint16_t>(x, 3 * 8 - 1))));
  EXPECT_TRUE(std::isnan(bf16ToFloat(at<uint16_t>(x, 3 * 8))));
}

TEST(DataTest, RoutingSetsDifferAndHoldDistinctExperts) {
  Case c;
  c.name = c.op = "dispatch";
  c.shape = {{"op", "dispatch"}, {"m", 16}, {"rows", 9}, {"top", 4}, {"experts", 8}};
  c.buffers = {plain("ids", Role::Input, DType::I32, {16, 4})};
  Pack pack = packOf(c);
  CaseData data = dataOf(pack, 2);
  EXPECT_NE(data.routing(0).ids.data, data.routing(1).ids.data);
  for (int64_t t = 0; t < 9; ++t)
    EXPECT_EQ((std::set<int32_t>(data.routing(0).ids.row(t), data.routing(0).ids.row(t) + 4).size()), 4u);
  EXPECT_EQ(data.routing(0).offsets.data.back(), 36);
  EXPECT_EQ(at<int32_t>(data.bytes(c.buffers[0], 0), 36), 0x7f7f7f7f);
}

TEST(DataTest, StepAndCacheAgreeWithTheSequences) {
  Case c;
  c.name = c.op = "attn_decode";
  c.shape = {{"op", "attn_decode"}, {"m", 4}, {"batch", 3}, {"ctx", {1, 64, 130}}, {"layers", 2}, {"layer", 1}};
  c.buffers = {plain("kv", Role::Cache, DType::BF16, {2, 0, 64, 576}), plain("step", Role::Step, DType::U8, {64})};
  Pack pack = packOf(c);
  CaseData data = dataOf(pack, 2);
  EXPECT_EQ(data.cachePages(), 2 * 5);
  EXPECT_EQ(data.cacheTokens(), 195);
  EXPECT_EQ(data.scalars().scalars[DSV3_SCALAR_TOKENS], 3);
  EXPECT_EQ(data.scalars().scalars[DSV3_SCALAR_SEQS], 3);
  EXPECT_EQ(data.scalars().scalars[DSV3_SCALAR_KV_LAYER_STRIDE], 10 * 64 * 576 * 2);
  reference::SeqMeta seq = data.sequences(1);
  std::vector<uint8_t> step = data.bytes(c.buffers[1], 1), kv = data.bytes(c.buffers[0], 1);
  auto field = [&](int kind, size_t i) { return at<int32_t>(step, size_t(pack.fields[size_t(kind)].offset) / 4 + i); };
  EXPECT_EQ(field(DSV3_FIELD_CTX_LEN, 2), 130);
  EXPECT_EQ(field(DSV3_FIELD_CTX_LEN, 3), 0);
  EXPECT_EQ(field(DSV3_FIELD_TOKEN_POS, 2), 129);
  EXPECT_EQ(field(DSV3_FIELD_BLOCK_TABLE, 2 * 4 + 2), seq.blockTable[2][2]);
  size_t layer = 10 * 64 * 576, row = size_t(seq.blockTable[2][2]) * 64 * 576;
  EXPECT_EQ(bf16ToFloat(at<uint16_t>(kv, layer + row + 576 + 5)), data.cached(c.buffers[0], seq.blockTable[2][2], 1, 5));
  EXPECT_TRUE(std::isnan(bf16ToFloat(at<uint16_t>(kv, layer + row + 2 * 576)))); // position 130: behind the context
  EXPECT_TRUE(std::isnan(bf16ToFloat(at<uint16_t>(kv, row))));                   // the other layer
}
