// What the cost model chooses for the products of DeepSeek-V3.
#include "codegen/sm90/gemm/GemmSchedule.h"
#include "codegen/sm90/gemm/Int4Schedule.h"

#include <gtest/gtest.h>

#include <array>

namespace dsv3::codegen {
namespace {
GemmShape shape(int64_t rows, int64_t n, int64_t k, int64_t weights = 1, Operands operands = Operands::Bf16) {
  return {rows, n, k, 1, weights, operands, 2};
}
constexpr Operands kOperands[] = {Operands::Bf16, Operands::ExpandedFp8, Operands::Fp8, Operands::Int8, Operands::Int8Groups};
constexpr int64_t kWeights[][2] = {{1536, 7168}, {2112, 7168}, {576, 7168}, {256, 7168}, {24576, 1536}, {7168, 16384}, {7168, 18432},
                                   {2048, 7168}, {7168, 2048}, {129280, 7168}, {16, 256}, {3584, 256}};
} // namespace

TEST(GemmSchedule, FewWeightRowsShareK) {
  EXPECT_EQ(splitOfWeight(shape(8, 256, 7168)), 8);
  EXPECT_EQ(splitOfWeight(shape(8, 576, 7168)), 8);
  EXPECT_EQ(splitOfWeight(shape(8, 24576, 1536)), 1);
  EXPECT_EQ(splitOfWeight(shape(8, 129280, 7168)), 1);
}

TEST(GemmSchedule, SplitDependsOnTheWeightAlone) {
  for (auto [n, k] : kWeights)
    for (int64_t rows : {1, 8, 32, 64, 128, 256, 4096}) {
      EXPECT_EQ(splitOfWeight(shape(rows, n, k)), splitOfWeight(shape(1, n, k))) << n << " x " << k << ", " << rows << " rows";
    }
}

TEST(GemmSchedule, NoClusterWaitsForAnother) {
  const GpuModel gpu;
  for (auto [n, k] : kWeights)
    for (int64_t weights : {1, 2})
      for (int64_t rows : {1, 8, 64, 128}) {
        GemmShape p = shape(rows, n, k, weights);
        int64_t split = splitOfWeight(p);
        ColsSchedule s = chooseCols(p, split, 256);
        int64_t items = (n + s.bm() - 1) / s.bm() * ((rows + s.tokens - 1) / s.tokens);
        EXPECT_TRUE(split == 1 || items <= gpu.clusters(split)) << n << " x " << k << ", " << rows << " rows: " << items << " clusters of " << split;
      }
}

/// What an H200 measured of int8: the schedules that won.
TEST(GemmSchedule, Int8OfFewRows) {
  // Pairs of 64 rows take tokens as M in small tiles with much under way, if their sums would have to be exchanged.
  EXPECT_TRUE(takesRows(shape(64, 2048, 7168, 2, Operands::Int8)));
  EXPECT_EQ(chooseRows(shape(64, 2048, 7168, 2, Operands::Int8)).stages, 12);
  EXPECT_FALSE(takesRows(shape(64, 18432, 7168, 2, Operands::Int8)));
  EXPECT_FALSE(takesRows(shape(63, 2048, 7168, 2, Operands::Int8)));
  // 3 rounds of 192 columns and not 2 of 144 tiles that 132 multiprocessors do not share evenly.
  RowsSchedule pair = chooseRows(shape(128, 18432, 7168, 2, Operands::Int8));
  EXPECT_EQ(pair.warpgroups, 1);
  EXPECT_EQ(pair.bn, 192);
  // No stages of the next item where K is short; no long queue where one round fills the device.
  for (int64_t rows : {1, 8, 32, 64})
    EXPECT_EQ(chooseCols(shape(rows, 32768, 512, 1, Operands::Int8), 1, 256).stages, 4) << rows;
  EXPECT_EQ(chooseCols(shape(64, 7168, 16384, 1, Operands::Int8), 1, 256).stages, 10);
  EXPECT_EQ(chooseCols(shape(64, 4096, 7168, 1, Operands::Int8), 1, 256).stages, 13);
}

/// One row's few items of int4 pairs, scaled per group: a weight a block. Not where a sum over K can be cut instead, nor for more rows.
TEST(GemmSchedule, Int4PairsApart) {
  auto apart = [](int64_t rows, bool wGrouped) {
    Int4Shape p;
    static_cast<GemmShape &>(p) = shape(rows, 256, 7168, 2);
    p.batch = 256, p.grouped = true, p.wide = p.wGrouped = p.promoted = wGrouped, p.freeSplit = !wGrouped;
    return chooseInt4(p).apart;
  };
  EXPECT_EQ(apart(8, true), 1);
  EXPECT_EQ(apart(8, false), 0);
  EXPECT_EQ(apart(64, true), 0);
}

/// Many rows of experts: a warpgroup has one weight of a pair, except where two share scales of codes, and takes turns with the other
/// where columns have scales of every 128 k. Few rows, and rows that are not promoted, are as they were.
TEST(GemmSchedule, Int4ManyRows) {
  auto chosen = [](int64_t rows, int64_t weights, bool e4m3, bool wGrouped, bool xGrouped, bool pairs = false) {
    Int4Shape p;
    static_cast<GemmShape &>(p) = weights == 2 ? shape(rows, 2048, 7168, 2) : shape(rows, 7168, 2048, 1);
    p.batch = 32, p.grouped = true, p.e4m3 = e4m3, p.wGrouped = wGrouped, p.xGrouped = xGrouped, p.pairs = pairs;
    p.promoted = e4m3 || wGrouped || xGrouped, p.freeSplit = !p.promoted;
    return chooseInt4(p);
  };
  for (bool e4m3 : {false, true})
    for (bool xGrouped : {false, true}) {
      ColsSchedule s = chosen(4096, 2, e4m3, true, xGrouped);
      EXPECT_EQ(s.beside, 1);
      EXPECT_EQ(s.turns, xGrouped);
      EXPECT_GE(s.tokens, 144); // one tile for most experts
      EXPECT_TRUE(e4m3 || s.tokens % 16 == 0) << s.tokens;
      s = chosen(512, 2, e4m3, true, xGrouped);
      EXPECT_EQ(s.beside + s.turns, 0);
    }
  EXPECT_EQ(chosen(4096, 2, false, false, false).beside, 0);
  EXPECT_EQ(chosen(4096, 2, true, true, false, true).beside, 0);
  ColsSchedule down = chosen(4096, 1, true, true, true);
  EXPECT_EQ(down.beside, 0);
  EXPECT_EQ(down.turns, 1);
  // An eighth of 256 experts: K is one stage, where two would wait for each other.
  Int4Shape p;
  static_cast<GemmShape &>(p) = shape(32768, 7168, 256, 1);
  p.batch = 256, p.grouped = p.e4m3 = p.wGrouped = p.xGrouped = p.promoted = true;
  EXPECT_EQ(chooseInt4(p).bk, 256);
}

TEST(GemmSchedule, FitsSharedMemoryAndRegisters) {
  const GpuModel gpu;
  for (auto [n, k] : kWeights)
    for (int64_t weights : {1, 2})
      for (Operands operands : kOperands)
        for (int64_t rows : {1, 8, 32, 64, 128, 256, 4096}) {
          GemmShape p = shape(rows, n, k, weights, operands);
          for (int64_t split : {int64_t(1), splitOfWeight(p)}) {
            ColsSchedule s = chooseCols(p, split, 256);
            ASSERT_GT(s.warpgroups, 0);
            EXPECT_LE(s.stages * (stageBytes(p, s) + 16) + s.exchangeBytes(weights) + s.stagingBytes(), gpu.sharedBytes) << n << " x " << k;
            EXPECT_GE(s.stages, 3);
            EXPECT_TRUE(split == 1 || s.bk <= 128); // parts of K begin at multiples of 128
            EXPECT_TRUE(s.bk == 64 || s.warpgroups == 1 || p.weightBytes() == 1); // a view of several atoms needs all rows
          }
          RowsSchedule r = chooseRows(p);
          EXPECT_LE(r.stages * stageBytes(p, r), gpu.sharedBytes - 2048);
        }
}

TEST(GemmSchedule, ManyTokensTakeTheWideTile) {
  RowsSchedule s = chooseRows(shape(4096, 24576, 1536));
  EXPECT_EQ(s.bm(), 128);
  EXPECT_EQ(s.bn, 256);
  EXPECT_EQ(s.stages, 4);
}

TEST(GemmSchedule, LastRoundIsShort) {
  // 3072 tiles leave 36 for the 24th round of 132. Of two columns as halves, 128 tiles, each multiprocessor has one at most.
  EXPECT_EQ(chooseRows(shape(4096, 24576, 1536, 1, Operands::Int8)).narrow, 512);
  EXPECT_EQ(chooseRows(shape(4096, 32768, 512, 1, Operands::Int8)).narrow, 256); // 4096: 31 rounds and 4 tiles
  EXPECT_EQ(chooseRows(shape(4096, 4096, 7168, 1, Operands::Int8)).narrow, 0);   // 512: 116 for the fourth round
}

TEST(GemmSchedule, WeightsLeaveL2FirstWhileRowsOfXStay) {
  EXPECT_EQ(chooseCols(shape(128, 7168, 16384, 1, Operands::Int8), 1, 256).once, 1);
  EXPECT_EQ(chooseCols(shape(8, 7168, 16384, 1, Operands::Int8), 1, 256).once, 0);
  EXPECT_EQ(chooseCols(shape(128, 7168, 16384), 1, 256).once, 0); // 4 MiB of x
}

TEST(GemmSchedule, AllRowsShareABandWhileTheyStayInL2) {
  EXPECT_EQ(chooseRows(shape(4096, 24576, 1536)).group, 32);
  EXPECT_EQ(chooseRows(shape(4096, 4096, 7168)).group, 8);
}

TEST(GemmSchedule, WidthFillsTheMultiprocessors) {
  EXPECT_EQ(chooseRows(shape(512, 7168, 16384)).bn, 224);  // 128 tiles of 132, where 256 makes 112
  EXPECT_EQ(chooseRows(shape(4096, 576, 7168)).bn, 144);   // 128, where 192 makes 96
  EXPECT_EQ(chooseRows(shape(8192, 8192, 8192)).bn, 256);  // 15.5 rounds: the widest reads least
  EXPECT_EQ(chooseRows(shape(512, 600, 7168)).bn % 64, 0); // an edge cuts pieces of 64
}

TEST(GemmSchedule, FewTilesTakeWeightsAsM) {
  for (auto [rows, n] : {std::pair<int64_t, int64_t>{512, 256}, {4096, 256}, {512, 576}}) {
    GemmShape p = shape(rows, n, 7168);
    EXPECT_LT(estimate(p, chooseCols(p, 1, 256)), estimate(p, chooseRows(p))) << rows << " x " << n;
  }
  GemmShape p = shape(4096, 576, 7168);
  EXPECT_LT(estimate(p, chooseRows(p)), estimate(p, chooseCols(p, 1, 256)));
}

TEST(GemmSchedule, TokenTileFollowsTheCapacity) {
  for (auto [rows, tokens] : {std::pair<int64_t, int64_t>{1, 8}, {9, 16}, {64, 64}, {100, 128}})
    EXPECT_EQ(chooseCols(shape(rows, 24576, 1536), 1, 256).tokens, tokens);
}

static GemmShape experts(int64_t count, int64_t rows, int64_t n, int64_t k, int64_t weights, Operands operands = Operands::Bf16) {
  return {rows, n, k, count, weights, operands, 2, 0, true};
}

TEST(GemmSchedule, RowTileOfExpertsFollowsTheirShare) {
  EXPECT_EQ(chooseCols(experts(256, 8, 2048, 7168, 2), 1, 256).tokens, 8);
  EXPECT_EQ(chooseCols(experts(32, 512, 2048, 7168, 2), 1, 256).tokens, 32); // 16 each, twice as many where they crowd
  EXPECT_EQ(chooseCols(experts(32, 4096, 7168, 2048, 1), 1, 256).tokens, 128);
}

TEST(GemmSchedule, ExpertsFitSharedMemoryAndRegisters) {
  const GpuModel gpu;
  for (int64_t count : {1, 8, 32, 256})
    for (int64_t rows : {1, 8, 32, 64, 128, 256, 512, 4096, 65536})
      for (auto [n, k, weights] : {std::array<int64_t, 3>{2048, 7168, 2}, {7168, 2048, 1}, {256, 7168, 2}, {7168, 256, 1}})
        for (Operands operands : kOperands) {
          GemmShape p = experts(count, rows, n, k, weights, operands);
          ColsSchedule s = chooseCols(p, 1, 256);
          ASSERT_GT(s.warpgroups, 0);
          EXPECT_EQ(s.split, 1);
          EXPECT_LE(s.stages * (stageBytes(p, s) + 16) + s.stagingBytes() + 16 * (1 + mostRowTiles(p, s.tokens)), gpu.sharedBytes)
              << count << " experts, " << rows << " rows of " << n << " x " << k;
        }
}

TEST(GemmSchedule, MostRowTilesIsReachedAndNeverPassed) {
  for (int64_t rows = 1; rows < 14; ++rows)
    for (int64_t tokens : {1, 2, 4, 5}) {
      int64_t most = 0;
      for (int64_t a = 0; a <= rows; ++a)
        for (int64_t b = 0; a + b <= rows; ++b) {
          int64_t tiles = 0;
          for (int64_t r : {a, b, rows - a - b})
            tiles += (r + tokens - 1) / tokens;
          most = std::max(most, tiles);
        }
      EXPECT_EQ(mostRowTiles(experts(3, rows, 64, 64, 1), tokens), most) << rows << " rows in tiles of " << tokens;
    }
}

} // namespace dsv3::codegen
