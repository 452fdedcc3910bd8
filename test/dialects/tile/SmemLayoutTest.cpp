// Layouts of shared memory: formulas written out by hand, one place per element, and what wgmma expects.
#include "dialects/tile/Descriptor.h"
#include "dialects/tile/SmemLayout.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

namespace dsv3::tile {
namespace {

using Shape = std::vector<int64_t>;

void forEach(const Shape &shape, const std::function<void(const Shape &)> &fn) {
  Shape index(shape.size(), 0);
  while (true) {
    fn(index);
    size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

/// Every element has a place of its own inside the buffer, and all bytes are used unless there is padding.
void expectOnePlaceEach(const SmemLayout &layout, unsigned bits, bool dense) {
  std::set<int64_t> places;
  forEach(layout.shape(), [&](const Shape &c) {
    int64_t bit = layout.bit(c);
    EXPECT_EQ(bit % bits, 0);
    EXPECT_GE(bit, 0);
    EXPECT_LE(bit + bits, layout.bytes() * 8);
    EXPECT_TRUE(places.insert(bit).second) << "two elements at bit " << bit;
  });
  if (dense)
    EXPECT_EQ(int64_t(places.size()) * bits, layout.bytes() * 8);
}

TEST(SmemLayout, OnePlaceEach) {
  expectOnePlaceEach({SmemKind::Linear, {3, 5, 8}, 16}, 16, true);
  expectOnePlaceEach({SmemKind::Pad, {5, 8}, 32, 16}, 32, false);
  for (SmemKind kind : {SmemKind::Sw32, SmemKind::Sw64, SmemKind::Sw128}) {
    expectOnePlaceEach({kind, {64, 192}, 16}, 16, true);
    expectOnePlaceEach({kind, {2, 16, 128}, 8}, 8, true);
    expectOnePlaceEach({kind, {8, 256}, 4}, 4, true);
  }
  expectOnePlaceEach({SmemKind::Swizzle, {16, 16, 16}, 16, 1, 4, 3}, 16, true);
  expectOnePlaceEach({SmemKind::Swizzle, {32, 32}, 32, 5, 2, 5}, 32, true);
  for (FragKind kind : {FragKind::Acc, FragKind::OpA})
    expectOnePlaceEach({SmemKind::Frag, {2, 64, 96}, 8, int64_t(kind)}, 8, true);
  expectOnePlaceEach({SmemKind::Frag, {2, 64, 64}, 4, int64_t(FragKind::OpA4)}, 4, true);
  expectOnePlaceEach({SmemKind::Frag, {64, 24}, 32, int64_t(FragKind::Acc)}, 32, true);
}

TEST(SmemLayout, AtomsLieSideBySide) {
  SmemLayout layout(SmemKind::Sw128, {64, 576}, 16); // nine atoms of 64 rows of 128 bytes
  EXPECT_EQ(layout.bytes(), 64 * 576 * 2);
  EXPECT_EQ(layout.alignment(), 1024);
  EXPECT_EQ(layout.atomStride(), 8192);
  forEach(layout.shape(), [&](const Shape &c) {
    int64_t byte = c[1] / 64 * 8192 + c[0] * 128 + c[1] % 64 * 2;
    ASSERT_EQ(layout.byte(c), byte ^ ((byte >> 7 & 7) << 4)) << c[0] << ", " << c[1];
  });
}

TEST(SmemLayout, PackedNibbles) {
  // A block of 64 x 128: byte j*2048 + thread*16 + c*4 + b of k-step 2j + c/2, half c%2; the low nibble is row g, the high one g + 8.
  SmemLayout layout(SmemKind::Frag, {64, 128}, 4, int64_t(FragKind::OpA4));
  EXPECT_EQ(layout.bytes(), 4096);
  for (int64_t j = 0; j < 2; ++j)
    for (int64_t thread = 0; thread < 128; ++thread)
      for (int64_t c = 0; c < 4; ++c)
        for (int64_t b = 0; b < 4; ++b) {
          int64_t byte = j * 2048 + thread * 16 + c * 4 + b, row = 16 * (thread / 32) + thread % 32 / 4;
          int64_t k = 32 * (2 * j + c / 2) + 16 * (c % 2) + 4 * (thread % 4) + b;
          ASSERT_EQ(layout.bit({row, k}), byte * 8);
          ASSERT_EQ(layout.bit({row + 8, k}), byte * 8 + 4);
        }
}

TEST(SmemLayout, WgmmaReadsEveryAtom) {
  for (SmemKind kind : {SmemKind::Sw32, SmemKind::Sw64, SmemKind::Sw128})
    for (unsigned bits : {8u, 16u})
      for (int64_t rows : {8, 64, 256}) {
        int64_t width = SmemLayout::atomBytes(kind) * 8 / bits;
        SmemLayout layout(kind, {rows, 3 * width}, bits);
        WgmmaOperand nt{rows, 3 * width, bits / 8, Major::K, [&](int64_t mn, int64_t k) { return layout.byte({mn, k}); }};
        EXPECT_TRUE(solveDescriptor(nt)) << rows << " x " << 3 * width;
        if (bits != 16 || rows < 16)
          continue;
        WgmmaOperand nn{3 * width, rows, 2, Major::MN, [&](int64_t mn, int64_t k) { return layout.byte({k, mn}); }};
        EXPECT_TRUE(solveDescriptor(nn)) << rows << " x " << 3 * width;
      }
}

TEST(SmemLayout, Refusals) {
  auto why = [](SmemKind kind, const Shape &shape, unsigned bits, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    return SmemLayout::whyIllegal(kind, shape, bits, a, b, c);
  };
  EXPECT_EQ(why(SmemKind::Sw128, {64, 64}, 16), "");
  EXPECT_EQ(why(SmemKind::Sw128, {64, 32}, 16), "expected rows of a multiple of 128 bytes for sw128, got 64");
  EXPECT_EQ(why(SmemKind::Sw128, {12, 128}, 16), "expected a multiple of 8 rows for sw128, got 12");
  EXPECT_EQ(why(SmemKind::Sw128, {1, 64}, 16), "");
  EXPECT_EQ(why(SmemKind::Pad, {4, 4}, 32, 6), "expected a pad of a multiple of 4 bytes, got 6");
  EXPECT_EQ(why(SmemKind::Swizzle, {4, 4}, 32, 3, 4, 2), "expected swizzle<B, M, S> with 1 <= B <= S and B + M + S <= 12, got <3, 4, 2>");
  EXPECT_EQ(why(SmemKind::Linear, {4, 3}, 4), "expected rows of whole bytes, got 12 bits");
  EXPECT_EQ(why(SmemKind::Frag, {32, 8}, 32, int64_t(FragKind::Acc)), "expected 64 rows for acc, got 32");
}

} // namespace
} // namespace dsv3::tile
