// The known answers: accesses of a warp under the layouts that kernels use.
#include "passes/tile/BankConflicts.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <set>

namespace dsv3::tile {
namespace {

using Address = std::function<int64_t(int lane)>;

std::array<int64_t, 32> lanes(const Address &address) {
  std::array<int64_t, 32> out;
  for (int lane = 0; lane < 32; ++lane)
    out[lane] = address(lane);
  return out;
}

unsigned degree(SmemInstruction instruction, const Address &address) {
  return countBankConflicts(instruction, lanes(address)).degree;
}

/// Byte of (row, byte in row): rows `pitch` apart, then swizzle<bits, base, shift>.
struct Rows {
  int64_t pitch;
  int bits = 0, base = 0, shift = 0;
  int64_t operator()(int64_t row, int64_t column) const {
    const int64_t b = row * pitch + column;
    return b ^ (((b >> (base + shift)) & ((int64_t(1) << bits) - 1)) << base);
  }
};

/// f32 [64, 64] as sw128 atoms side by side: 32 columns wide.
int64_t wideSw128(int64_t row, int64_t column) {
  return (column / 128) * 64 * 128 + Rows{128, 3, 4, 3}(row, column % 128);
}

// The same question asked in another way: word by word, a bank at a time.
BankConflicts bruteForce(SmemInstruction instruction, const Address &address) {
  const int64_t bytes = bytesPerLane(instruction);
  const int lanesPerPhase = int(128 / bytes);
  BankConflicts out;
  for (int phase = 0; phase * lanesPerPhase < int(addressLanes(instruction)); ++phase) {
    std::map<int64_t, std::set<int64_t>> wanted; // bank -> words
    for (int i = 0; i < lanesPerPhase; ++i)
      for (int64_t b = 0; b < bytes; ++b) {
        const int64_t at = address(phase * lanesPerPhase + i) + b;
        wanted[(at % 128) / 4].insert(at / 4);
      }
    size_t worst = 0;
    for (auto &[bank, words] : wanted)
      worst = std::max(worst, words.size());
    ++out.phases;
    out.degree = std::max(out.degree, unsigned(worst));
    out.excess += unsigned(worst) - 1;
  }
  return out;
}

} // namespace

TEST(BankConflicts, ColumnOfFloatsFourBytesALane) {
  auto column = [](Rows at) { return degree(SmemInstruction::Access4, [=](int l) { return at(l, 20); }); };
  EXPECT_EQ(column({128}), 32u);
  EXPECT_EQ(column({128 + 4}), 1u);
  EXPECT_EQ(column({128, 3, 4, 3}), 4u); // "the 128-byte swizzle has no conflicts" is true of 16-byte accesses only
  EXPECT_EQ(column({128, 5, 2, 5}), 1u);
}

TEST(BankConflicts, PairsOfFloatsDownAColumn) {
  auto column = [](Rows at) { return degree(SmemInstruction::Access8, [=](int l) { return at(l, 24); }); };
  EXPECT_EQ(column({128}), 16u);
  EXPECT_EQ(column({128 + 8}), 1u);
  EXPECT_EQ(column({128 + 16}), 2u);
  EXPECT_EQ(column({128, 3, 4, 3}), 2u);
  EXPECT_EQ(column({128, 4, 3, 4}), 1u);
}

TEST(BankConflicts, SixteenBytesDownAColumn) {
  auto column = [](Rows at) { return degree(SmemInstruction::Access16, [=](int l) { return at(l, 48); }); };
  EXPECT_EQ(column({128}), 8u);
  EXPECT_EQ(column({128 + 16}), 1u);
  EXPECT_EQ(column({128 + 8}), 2u);
  EXPECT_EQ(column({128, 3, 4, 3}), 1u);
}

TEST(BankConflicts, MatrixOfBf16) {
  // A 16 x 16 tile as four 8 x 8 matrices: lane l names row l % 16, column half l / 16.
  auto tile = [](Rows at) {
    return countBankConflicts(SmemInstruction::Matrix4, lanes([=](int l) { return at(l % 16, (l / 16) * 16); }));
  };
  EXPECT_EQ(tile({128}).degree, 8u);
  EXPECT_EQ(tile({128}).phases, 4u);
  EXPECT_EQ(tile({128}).excess, 28u);
  EXPECT_EQ(tile({64}).degree, 4u);
  EXPECT_EQ(tile({32}).degree, 2u);
  EXPECT_EQ(tile({128 + 16}).degree, 1u);
  EXPECT_EQ(tile({128, 3, 4, 3}).degree, 1u);
  EXPECT_EQ(tile({64, 2, 4, 3}).degree, 1u);
  EXPECT_EQ(tile({32, 1, 4, 3}).degree, 1u);
  EXPECT_EQ(tile({128, 3, 4, 3}).excess, 0u);
}

TEST(BankConflicts, AccumulatorOfFloatsInPairs) {
  // wgmma's D: a lane has row l / 4 and columns 2 (l % 4), + 1.
  auto pairs = [](const std::function<int64_t(int64_t, int64_t)> &at) {
    return degree(SmemInstruction::Access8, [&](int l) { return at(l / 4, (l % 4) * 8); });
  };
  EXPECT_EQ(pairs(Rows{256}), 4u);
  EXPECT_EQ(pairs(Rows{256 + 32}), 1u);
  EXPECT_EQ(pairs(Rows{256 + 16}), 2u);
  EXPECT_EQ(pairs(Rows{256 + 8}), 4u);
  EXPECT_EQ(pairs(wideSw128), 2u);
}

TEST(BankConflicts, AccumulatorOfBf16InPairs) {
  auto pairs = [](Rows at) { return degree(SmemInstruction::Access4, [=](int l) { return at(l / 4, (l % 4) * 4); }); };
  EXPECT_EQ(pairs({128}), 8u);
  EXPECT_EQ(pairs({128 + 16}), 1u);
  EXPECT_EQ(pairs({128, 3, 4, 3}), 1u);
}

TEST(BankConflicts, StagingOfTransposedRowsOf32Bytes) {
  auto staging = [](Rows at) {
    return degree(SmemInstruction::Matrix4, [=](int l) { return at(l % 16, (l / 16) * 16); });
  };
  EXPECT_EQ(staging({32}), 2u);
  EXPECT_EQ(staging({32 + 16}), 1u);
  EXPECT_EQ(staging({32, 1, 4, 3}), 1u);
}

TEST(BankConflicts, EqualWordsAreSentOnce) {
  EXPECT_EQ(degree(SmemInstruction::Access4, [](int) { return 256; }), 1u);
  EXPECT_EQ(degree(SmemInstruction::Access4, [](int l) { return (l % 2) * 128; }), 2u);
}

TEST(BankConflicts, MaskedLanesDoNotCount) {
  auto some = [](int l) { return l < 4 ? l * 128 : kInactiveLane; };
  BankConflicts c = countBankConflicts(SmemInstruction::Access16, lanes(some));
  EXPECT_EQ(c.phases, 1u);
  EXPECT_EQ(c.degree, 4u);
  EXPECT_EQ(countBankConflicts(SmemInstruction::Access4, lanes([](int) { return kInactiveLane; })).degree, 0u);
}

TEST(BankConflicts, NarrowMatricesReadTheFirstLanes) {
  auto at = [](int l) { return l < 8 ? l * 16 : int64_t(l) * 128; };
  EXPECT_EQ(degree(SmemInstruction::Matrix1, at), 1u);
  EXPECT_EQ(degree(SmemInstruction::Matrix2, at), 8u);
}

// Layouts that nobody tuned for: the answer comes from counting in another way.
TEST(BankConflicts, AgreesWithCountingWordByWord) {
  const std::map<std::string, Address> layouts = {
      {"column, pitch 96", [](int l) { return int64_t(l) * 96; }},
      {"16 x 16 tile, pitch 160, sw64", [](int l) { return Rows{160, 2, 4, 3}(l % 16, (l / 16) * 16); }},
      {"diagonal, pitch 144, swizzle<2,5,4>", [](int l) { return Rows{144, 2, 5, 4}(l, (l % 8) * 16); }},
      {"two rows interleaved, pitch 2064", [](int l) { return Rows{2064}(l % 2, (l / 2) * 32); }},
  };
  std::set<unsigned> seen;
  for (auto &[what, at] : layouts)
    for (auto instruction : {SmemInstruction::Access4, SmemInstruction::Access8, SmemInstruction::Access16,
                             SmemInstruction::Matrix1, SmemInstruction::Matrix2, SmemInstruction::Matrix4}) {
      const BankConflicts got = countBankConflicts(instruction, lanes(at)), want = bruteForce(instruction, at);
      EXPECT_EQ(got.degree, want.degree) << what << ", " << name(instruction, false);
      EXPECT_EQ(got.excess, want.excess) << what << ", " << name(instruction, false);
      EXPECT_EQ(got.phases, want.phases) << what << ", " << name(instruction, false);
      seen.insert(got.degree);
    }
  EXPECT_GT(seen.size(), 2u); // the layouts differ, or the comparison says little
}

} // namespace dsv3::tile
