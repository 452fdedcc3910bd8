// Descriptors against what kernels that ran on the hardware use.
#include "dialects/tile/Descriptor.h"

#include <gtest/gtest.h>

namespace dsv3::tile {
namespace {

/// A tile of `rows` x `columns` 16-bit elements as a TMA load with this swizzle leaves it: atoms `rowBytes` wide side by
/// side, each `rows` high. `row0`, `column0`: the view's corner.
std::function<int64_t(int64_t, int64_t)> tmaTile(SwizzleMode mode, int64_t rows, int64_t elementBytes = 2, int64_t row0 = 0,
                                                 int64_t column0 = 0) {
  const int64_t perRow = rowBytes(mode) / elementBytes;
  return [=](int64_t row, int64_t column) {
    row += row0;
    column += column0;
    return swizzled(mode, (column / perRow) * rows * rowBytes(mode) + row * rowBytes(mode) +
                              (column % perRow) * elementBytes);
  };
}

WgmmaOperand kMajor(int64_t mn, int64_t k, std::function<int64_t(int64_t, int64_t)> at, int64_t elementBytes = 2) {
  return {mn, k, elementBytes, Major::K, std::move(at)};
}

/// `at` takes (k, mn): the tile's rows run along k.
WgmmaOperand mnMajor(int64_t mn, int64_t k, std::function<int64_t(int64_t, int64_t)> at) {
  return {mn, k, 2, Major::MN, [at = std::move(at)](int64_t m, int64_t kk) { return at(kk, m); }};
}

std::string errorOf(const WgmmaOperand &op) {
  Result<WgmmaDescriptor> d = solveDescriptor(op);
  return d ? "" : d.error().message;
}

} // namespace

TEST(Descriptor, KMajorSw128) {
  Result<WgmmaDescriptor> d = solveDescriptor(kMajor(256, 64, tmaTile(SwizzleMode::B128, 256)));
  ASSERT_TRUE(bool(d)) << d.error().message;
  EXPECT_EQ(d->mode, SwizzleMode::B128);
  EXPECT_EQ(d->start, 0);
  EXPECT_EQ(d->lbo, 16);
  EXPECT_EQ(d->sbo, 1024);
  EXPECT_EQ(d->kStep(), 32);
  EXPECT_EQ(d->bits(), uint64_t(1) << 16 | uint64_t(64) << 32 | uint64_t(1) << 62); // as the measured GEMM has it
}

TEST(Descriptor, SecondWarpgroupOfATile) {
  Result<WgmmaDescriptor> d = solveDescriptor(kMajor(64, 64, tmaTile(SwizzleMode::B128, 128, 2, 64)));
  ASSERT_TRUE(bool(d));
  EXPECT_EQ(d->start, 8192);
  EXPECT_EQ(d->sbo, 1024);
}

TEST(Descriptor, KAcrossAtoms) {
  // MLA's Q: 64 heads x 576, nine atoms side by side: 4 steps in an atom, then the next one.
  Result<WgmmaDescriptor> d = solveDescriptor(kMajor(64, 576, tmaTile(SwizzleMode::B128, 64)));
  ASSERT_TRUE(bool(d));
  ASSERT_EQ(d->kOffset.size(), 36u);
  EXPECT_EQ(d->kStep(), -1);
  EXPECT_EQ(d->kOffset[3], 96);
  EXPECT_EQ(d->kOffset[4], 8192);
  EXPECT_EQ(d->kOffset[35], 8 * 8192 + 96);
}

TEST(Descriptor, EightBitElements) {
  Result<WgmmaDescriptor> d = solveDescriptor(kMajor(128, 128, tmaTile(SwizzleMode::B128, 128, 1), 1));
  ASSERT_TRUE(bool(d));
  EXPECT_EQ(d->kOffset, (std::vector<int64_t>{0, 32, 64, 96}));
}

TEST(Descriptor, NarrowerSwizzles) {
  for (SwizzleMode mode : {SwizzleMode::B64, SwizzleMode::B32}) {
    Result<WgmmaDescriptor> d = solveDescriptor(kMajor(64, 32, tmaTile(mode, 64)));
    ASSERT_TRUE(bool(d)) << d.error().message;
    EXPECT_EQ(d->mode, mode);
    EXPECT_EQ(d->sbo, 8 * rowBytes(mode));
  }
}

TEST(Descriptor, CoreMatricesWithoutSwizzle) {
  // Core matrices of 8 rows x 16 bytes, those of one row group side by side: 64 x 64.
  auto at = [](int64_t row, int64_t k) { return (row / 8) * 1024 + (k / 8) * 128 + (row % 8) * 16 + (k % 8) * 2; };
  Result<WgmmaDescriptor> d = solveDescriptor(kMajor(64, 64, at));
  ASSERT_TRUE(bool(d)) << d.error().message;
  EXPECT_EQ(d->mode, SwizzleMode::None);
  EXPECT_EQ(d->lbo, 128);
  EXPECT_EQ(d->sbo, 1024);
  EXPECT_EQ(d->kStep(), 256);
}

TEST(Descriptor, MnMajorSw128) {
  // MLA's V: the left 256 columns of 64 tokens x 576, columns along n.
  Result<WgmmaDescriptor> d = solveDescriptor(mnMajor(256, 64, tmaTile(SwizzleMode::B128, 64)));
  ASSERT_TRUE(bool(d)) << d.error().message;
  EXPECT_EQ(d->lbo, 8192);
  EXPECT_EQ(d->sbo, 1024);
  EXPECT_EQ(d->kStep(), 2048);
  Result<WgmmaDescriptor> right = solveDescriptor(mnMajor(256, 64, tmaTile(SwizzleMode::B128, 64, 2, 0, 256)));
  ASSERT_TRUE(bool(right));
  EXPECT_EQ(right->start, 4 * 8192);
}

TEST(Descriptor, AgreesWithTheHardwareFunctionEverywhere) {
  auto at = tmaTile(SwizzleMode::B128, 64);
  Result<WgmmaDescriptor> d = solveDescriptor(mnMajor(128, 64, at));
  ASSERT_TRUE(bool(d));
  for (int64_t k = 0; k < 64; ++k)
    for (int64_t mn = 0; mn < 128; ++mn)
      ASSERT_EQ(hardwareByte(*d, 2, k / 16, mn, k % 16), at(k, mn)) << mn << ", " << k;
}

TEST(Descriptor, RefusesRowMajor) {
  auto rowMajor = [](int64_t row, int64_t k) { return row * 128 + k * 2; };
  EXPECT_EQ(errorOf(kMajor(64, 64, rowMajor)),
            "not a wgmma layout (sw128, k contiguous): expected element (1, 0) at byte 144, got 128");
}

TEST(Descriptor, RefusesPadding) {
  auto padded = [](int64_t row, int64_t k) { return row * 144 + k * 2; };
  EXPECT_NE(errorOf(kMajor(64, 64, padded)), "");
}

TEST(Descriptor, RefusesTheOtherMajor) {
  EXPECT_NE(errorOf(mnMajor(64, 64, [](int64_t k, int64_t mn) { return swizzled(SwizzleMode::B128, mn * 128 + k * 2); })), "");
  EXPECT_EQ(errorOf({64, 64, 1, Major::MN, [](int64_t, int64_t) { return 0; }}),
            "expected 16-bit elements for an operand that is contiguous along m or n, got 8 bits");
}

TEST(Descriptor, RefusesToStartInsideAnAtom) {
  const std::string why = errorOf(kMajor(64, 64, tmaTile(SwizzleMode::B128, 128, 2, 4)));
  EXPECT_NE(why.find("starts at byte 512, inside a swizzle atom"), std::string::npos) << why;
}

TEST(Descriptor, RefusesPartOfAStep) {
  EXPECT_EQ(errorOf(kMajor(64, 24, tmaTile(SwizzleMode::B128, 64))), "expected k to be a multiple of 16, got 24");
  EXPECT_EQ(errorOf(kMajor(60, 64, tmaTile(SwizzleMode::B128, 64))), "expected a multiple of 8 rows, got 60");
}

} // namespace dsv3::tile
