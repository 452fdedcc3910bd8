// Bytes, FLOPs and floors by the anchors' formulas; reading anchors.
#include "test/tools/dsv3-bench/Cases.h"
#include "tools/dsv3-bench/Floor.h"

using namespace dsv3;
using namespace dsv3::bench;

TEST(FloorTest, FloorIsTheLargerOfBytesAndFlops) {
  EXPECT_DOUBLE_EQ((Cost{4.7e6, 1}.floorUs()), 1.0);
  EXPECT_DOUBLE_EQ((Cost{1, 810e6}.floorUs()), 1.0);
}

TEST(FloorTest, GemmCountsTheRowsOfTheStep) {
  Pack pack = packOf(gemmCase({{"m", 8}, {"rows", 6}, {"n", 16}, {"k", 32}}));
  Cost cost = costOf(pack.cases[0], dataOf(pack), 0);
  EXPECT_DOUBLE_EQ(cost.flops, 2.0 * 6 * 16 * 32);
  EXPECT_DOUBLE_EQ(cost.bytes, 2.0 * (6 * 32 + 16 * 32 + 6 * 16));
}

TEST(FloorTest, Fp8WeightCountsItsScales) {
  Case c = gemmCase({{"m", 4}, {"n", 256}, {"k", 384}});
  c.buffers[1] = fp8Weight("w", 256, 384);
  Pack pack = packOf(c);
  EXPECT_DOUBLE_EQ(costOf(pack.cases[0], dataOf(pack), 0).bytes, 2.0 * 4 * 384 + 256 * 384 + 2 * 3 * 4 + 2.0 * 4 * 256);
}

TEST(FloorTest, DecodeIsTheAnchorsFormula) {
  Case c;
  c.name = c.op = "attn_decode";
  c.shape = {{"op", "attn_decode"}, {"batch", 2}, {"ctx", 100}, {"heads", 16}};
  c.buffers = {plain("q_latent", Role::Input, DType::BF16, {2, 16, 512}), plain("q", Role::Input, DType::BF16, {2, 16, 192}),
               plain("step", Role::Step, DType::U8, {64}), plain("kv", Role::Cache, DType::BF16, {1, 0, 64, 576}),
               plain("out", Role::Output, DType::BF16, {2, 16, 512})};
  Pack pack = packOf(c);
  Cost cost = costOf(pack.cases[0], dataOf(pack), 0);
  double b = 2, h = 16, ctx = 100;
  EXPECT_DOUBLE_EQ(cost.flops, 2 * b * h * ctx * (576 + 512));
  EXPECT_DOUBLE_EQ(cost.bytes, b * ctx * 576 * 2 + b * h * 1088 * 2);
}

TEST(FloorTest, PrefillIsTheCausalHalf) {
  Case c;
  c.name = c.op = "attn_prefill";
  c.shape = {{"op", "attn_prefill"}, {"lens", 128}, {"heads", 4}};
  c.buffers = {plain("q", Role::Input, DType::BF16, {128, 4, 192}), plain("keys", Role::Input, DType::BF16, {2, 4, 64, 192}),
               plain("values", Role::Input, DType::BF16, {2, 4, 64, 128}), plain("out", Role::Output, DType::BF16, {128, 4, 128})};
  Pack pack = packOf(c);
  pack.tokens = 128;
  for (StepField &f : pack.fields)
    f.offset = (&f - pack.fields.data()) * 4096;
  pack.stepBytes = 4096 * DSV3_FIELD_COUNT;
  EXPECT_DOUBLE_EQ(costOf(pack.cases[0], dataOf(pack), 0).flops, 4.0 * 128 * 128 * (192 + 128));
}

TEST(FloorTest, ExpertsCountActiveWeights) {
  Case c;
  c.name = c.op = "grouped_gemm";
  c.shape = {{"op", "grouped_gemm"}, {"m", 2}, {"top", 2}, {"experts", 64}, {"n", 8}, {"k", 16}};
  c.buffers = {plain("x", Role::Input, DType::BF16, {4, 16}), weight("w", DType::BF16, {64, 8, 16}, "(e, n, k) -> [e, n, k]"),
               plain("offsets", Role::Input, DType::I32, {65}), plain("out", Role::Output, DType::BF16, {4, 8})};
  Pack pack = packOf(c);
  CaseData data = dataOf(pack);
  ASSERT_GE(data.routing(0).active, 2);
  Cost cost = costOf(pack.cases[0], data, 0);
  EXPECT_DOUBLE_EQ(cost.flops, 2.0 * 4 * 8 * 16);
  EXPECT_DOUBLE_EQ(cost.bytes, double(data.routing(0).active) * 8 * 16 * 2 + 4 * (16 + 8) * 2.0);
}

TEST(FloorTest, AnchorsKeepTheFastestPeerAndNameBadLines) {
  Result<Anchors> a = Anchors::parse("group,case,type,peer,us\nD,\"a, b\",bf16,slow,9.5,1,1\nD,\"a, b\",bf16,fast,3.25,1,1\n", "x.csv");
  ASSERT_TRUE(a) << a.error().message;
  ASSERT_TRUE(a->find("D|a, b|bf16"));
  EXPECT_EQ(a->find("D|a, b|bf16")->peer, "fast");
  EXPECT_DOUBLE_EQ(a->find("D|a, b|bf16")->us, 3.25);
  EXPECT_FALSE(a->find("D|a|bf16"));
  Result<Anchors> bad = Anchors::parse("header\nD,a,bf16,peer,fast\n", "x.csv");
  ASSERT_FALSE(bad);
  EXPECT_NE(bad.error().message.find("x.csv:2: expected group,case,type,peer,us"), std::string::npos);
}

TEST(FloorTest, ProductsOfTwoFp8OperandsHaveTheirRate) {
  Case c = gemmCase({{"m", 16}, {"n", 128}, {"k", 256}});
  c.buffers[0] = fp8Rows("x", Role::Input, 16, 256);
  c.buffers[1] = fp8Weight("w", 128, 256);
  Pack pack = packOf(c);
  Cost cost = costOf(pack.cases[0], dataOf(pack), 0);
  EXPECT_TRUE(cost.fp8);
  EXPECT_DOUBLE_EQ(cost.bytes, (16 * 256 + 16 * 2 * 4) + (128 * 256 + 2 * 4) + 16 * 128 * 2.0);
  EXPECT_DOUBLE_EQ((Cost{0, 1620e6, true}).floorUs(), 1.0);
  EXPECT_DOUBLE_EQ((Cost{0, 810e6, false}).floorUs(), 1.0);
}

TEST(FloorTest, SummaryIsGeometric) {
  Summary s = summarize({0.5, 2.0, 8.0});
  EXPECT_EQ(s.count, 3);
  EXPECT_DOUBLE_EQ(s.geomean, 2.0);
  EXPECT_DOUBLE_EQ(s.worst, 8.0);
  EXPECT_EQ(summarize({}).geomean, 0);
}
