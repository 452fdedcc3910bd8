// Fragments: every element has its holders, and chosen registers are where the PTX manual draws them.
#include "dialects/tile/Fragment.h"

#include <gtest/gtest.h>

#include <map>

namespace dsv3::tile {
namespace {

using Coord = std::vector<int64_t>;

/// Each element is held by `copies` threads, `place` finds the first, and nothing else is held.
void expectPartition(FragKind kind, std::vector<int64_t> shape, int64_t vec = 1, int64_t threads = 128) {
  SCOPED_TRACE(fragName(kind));
  Fragment f(kind, shape, vec, threads);
  std::map<Coord, int64_t> holders;
  for (int64_t warp = 0; warp < threads / 32; ++warp)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t reg = 0; reg < f.registers(); ++reg) {
        Coord c = f.coord(reg, lane, warp);
        ASSERT_EQ(c.size(), shape.size());
        for (size_t d = 0; d < shape.size(); ++d)
          ASSERT_TRUE(c[d] >= 0 && c[d] < shape[d]);
        if (holders[c]++ == 0) {
          Fragment::Place p = f.place(c);
          ASSERT_EQ(f.coord(p.reg, p.lane, p.warp), c);
        }
      }
  int64_t elements = 1;
  for (int64_t d : shape)
    elements *= d;
  EXPECT_EQ(int64_t(holders.size()), elements);
  for (auto &[coord, n] : holders)
    ASSERT_EQ(n, f.copies());
}

TEST(Fragment, Partitions) {
  expectPartition(FragKind::Acc, {64, 8});
  expectPartition(FragKind::Acc, {64, 256});
  expectPartition(FragKind::OpA, {64, 96});
  expectPartition(FragKind::OpA4, {64, 128});
  expectPartition(FragKind::OpA4T, {64, 128});
  expectPartition(FragKind::Acc4, {64, 128});
  expectPartition(FragKind::Row, {64});
  expectPartition(FragKind::Col, {24});
  expectPartition(FragKind::Quad, {64, 4});
  expectPartition(FragKind::Line, {8});
  expectPartition(FragKind::Line, {160});
  expectPartition(FragKind::Lin, {16, 96}, 4, 128);
  expectPartition(FragKind::Lin, {512}, 8, 64);
}

/// Eight lanes share a line of 128 bytes.
TEST(Fragment, LinesOfEightLanes) {
  Fragment f(FragKind::Line, {32});
  for (int64_t lane = 8; lane < 16; ++lane)
    EXPECT_EQ(f.coord(1, lane, 2), (Coord{25}));
}

TEST(Fragment, AccumulatorRegisters) {
  Fragment f(FragKind::Acc, {64, 16});
  // PTX ISA, wgmma: lane 5 of warp 2 starts at row 33, column 2
  EXPECT_EQ(f.coord(0, 5, 2), (Coord{33, 2}));
  EXPECT_EQ(f.coord(1, 5, 2), (Coord{33, 3}));
  EXPECT_EQ(f.coord(2, 5, 2), (Coord{41, 2}));
  EXPECT_EQ(f.coord(4, 5, 2), (Coord{33, 10}));
  EXPECT_EQ(f.coord(7, 31, 3), (Coord{63, 15}));
}

TEST(Fragment, OperandA8) {
  Fragment f(FragKind::OpA, {64, 64});
  // four bytes a register: a0 (row, k), a1 (row + 8, k), a2 (row, k + 16), a3 (row + 8, k + 16)
  EXPECT_EQ(f.coord(3, 6, 1), (Coord{17, 11}));
  EXPECT_EQ(f.coord(4, 6, 1), (Coord{25, 8}));
  EXPECT_EQ(f.coord(8, 6, 1), (Coord{17, 24}));
  EXPECT_EQ(f.coord(12, 6, 1), (Coord{25, 24}));
  EXPECT_EQ(f.coord(16, 6, 1), (Coord{17, 40}));
}

/// `(w << 4) & 0xf0f0f0f0` and `w & 0xf0f0f0f0` of a packed word are registers 2i and 2i + 1 of opA.
TEST(Fragment, ExpandIsTwoMasks) {
  Fragment packed(FragKind::OpA4, {64, 64}), wide(FragKind::OpA, {64, 64});
  for (int64_t lane : {0, 13, 31})
    for (int64_t word = 0; word < 4; ++word)
      for (int64_t byte = 0; byte < 4; ++byte) {
        EXPECT_EQ(packed.coord(8 * word + 2 * byte, lane, 1), wide.coord(8 * word + byte, lane, 1));
        EXPECT_EQ(packed.coord(8 * word + 2 * byte + 1, lane, 1), wide.coord(8 * word + 4 + byte, lane, 1));
      }
}

/// Halves of a packed word are registers 2i and 2i + 1 of opA, nibble for byte.
TEST(Fragment, ExpandIsALookUp) {
  Fragment packed(FragKind::OpA4T, {64, 64}), wide(FragKind::OpA, {64, 64});
  for (int64_t lane : {0, 13, 31})
    for (int64_t code = 0; code < 32; ++code)
      EXPECT_EQ(packed.coord(code, lane, 1), wide.coord(code, lane, 1));
}

/// Nibbles i and i + 4 of a packed word are the pair of 16 bits in register i of wgmma's A.
TEST(Fragment, ExpandToPairs) {
  Fragment packed(FragKind::Acc4, {64, 64}), wide(FragKind::Acc, {64, 64});
  for (int64_t lane : {0, 13, 31})
    for (int64_t word = 0; word < 4; ++word)
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t half = 0; half < 2; ++half)
          EXPECT_EQ(packed.coord(8 * word + i + 4 * half, lane, 1), wide.coord(8 * word + 2 * i + half, lane, 1));
}

TEST(Fragment, Refusals) {
  auto why = [](FragKind kind, const Coord &shape, unsigned bits, int64_t vec = 1, int64_t threads = 128) { return Fragment::whyIllegal(kind, shape, bits, vec, threads); };
  EXPECT_EQ(why(FragKind::Acc, {64, 24}, 32), "");
  EXPECT_EQ(why(FragKind::Acc, {64, 12}, 32), "expected a multiple of 8 columns for acc, got 12");
  EXPECT_EQ(why(FragKind::Acc, {64}, 32), "expected rank 2 for acc, got 1");
  EXPECT_EQ(why(FragKind::OpA, {64, 32}, 16), "expected 8-bit elements for opA, got 16");
  EXPECT_EQ(why(FragKind::OpA4, {64, 16}, 4), "expected a multiple of 32 columns for opA4, got 16");
  EXPECT_EQ(why(FragKind::OpA4T, {64, 48}, 4), "expected a multiple of 32 columns for opA4t, got 48");
  EXPECT_EQ(why(FragKind::Acc4, {64, 24}, 4), "expected a multiple of 16 columns for acc4, got 24");
  EXPECT_EQ(why(FragKind::Row, {32}, 32), "expected 64 rows for row, got 32");
  EXPECT_EQ(why(FragKind::Quad, {64, 8}, 32), "expected 4 columns for quad, got 8");
  EXPECT_EQ(why(FragKind::Lin, {100}, 32, 4, 128), "expected a multiple of 512 elements for lin, got 100");
}

} // namespace
} // namespace dsv3::tile
