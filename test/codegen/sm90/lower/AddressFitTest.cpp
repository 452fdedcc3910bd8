// Closed forms of addresses: found where there are some, never wrong.
#include "codegen/sm90/lower/AddressFit.h"

#include <gtest/gtest.h>

namespace dsv3::codegen {

using tile::Fragment;
using tile::FragKind;
using tile::SmemKind;
using tile::SmemLayout;

static int64_t evaluate(const AddressFit &fit, int64_t reg, int64_t thread) {
  int64_t sum = fit.offset[reg], exchanged = fit.mask[reg];
  for (int i = 0; i < AddressFit::kBits; ++i)
    if (thread >> i & 1) {
      sum += fit.linear[i];
      exchanged ^= fit.exchanged[i];
    }
  return sum + exchanged;
}

static void expectFit(FragKind kind, std::vector<int64_t> shape, unsigned bits, SmemLayout layout) {
  Fragment frag(kind, shape);
  auto at = [&](int64_t reg, int64_t t) { return layout.byte(frag.coord(reg, t % 32, t / 32)); };
  std::optional<AddressFit> fit = fitAddress(frag.registers(), at, layout.exchange());
  ASSERT_TRUE(fit.has_value());
  for (int64_t reg = 0; reg < frag.registers(); ++reg)
    for (int64_t t = 0; t < 128; ++t)
      ASSERT_EQ(evaluate(*fit, reg, t), at(reg, t)) << "register " << reg << ", thread " << t;
}

TEST(AddressFit, EveryLayoutOfAccumulators) {
  expectFit(FragKind::Acc, {64, 64}, 32, SmemLayout(SmemKind::Linear, {64, 64}, 32));
  expectFit(FragKind::Acc, {64, 64}, 32, SmemLayout(SmemKind::Pad, {64, 64}, 32, 32));
  expectFit(FragKind::Acc, {64, 64}, 32, SmemLayout(SmemKind::Sw128, {64, 64}, 32));
  expectFit(FragKind::Acc, {64, 256}, 16, SmemLayout(SmemKind::Sw128, {64, 256}, 16));
  expectFit(FragKind::Acc, {64, 32}, 16, SmemLayout(SmemKind::Sw64, {64, 32}, 16));
  expectFit(FragKind::Acc, {64, 16}, 16, SmemLayout(SmemKind::Sw32, {64, 16}, 16));
  expectFit(FragKind::Acc, {64, 16}, 32, SmemLayout(SmemKind::Frag, {64, 16}, 32, int64_t(FragKind::Acc)));
  expectFit(FragKind::Acc, {64, 64}, 32, SmemLayout(SmemKind::Swizzle, {64, 64}, 32, 4, 3, 4));
}

TEST(AddressFit, OtherFragments) {
  expectFit(FragKind::OpA, {64, 128}, 8, SmemLayout(SmemKind::Sw128, {64, 128}, 8));
  expectFit(FragKind::OpA4, {64, 128}, 4, SmemLayout(SmemKind::Frag, {64, 128}, 4, int64_t(FragKind::OpA4)));
  expectFit(FragKind::Row, {64}, 32, SmemLayout(SmemKind::Linear, {64}, 32));
  expectFit(FragKind::Col, {16}, 32, SmemLayout(SmemKind::Linear, {16}, 32));
}

TEST(AddressFit, ExchangedBitsThatMeet) {
  // Rows of 32 bytes under swizzle<1, 4, 3>: row bit 2 and the half of the row exchange the same address bit.
  SmemLayout layout(SmemKind::Swizzle, {16, 16}, 16, 1, 4, 3);
  auto at = [&](int64_t, int64_t t) { return layout.byte({t % 16, 8 * (t / 16 % 2)}); };
  std::optional<AddressFit> fit = fitAddress(1, at, layout.exchange());
  ASSERT_TRUE(fit.has_value());
  for (int64_t t = 0; t < 128; ++t)
    ASSERT_EQ(evaluate(*fit, 0, t), at(0, t)) << t;
}

TEST(AddressFit, WhatIsNoSumIsRefused) {
  EXPECT_FALSE(fitAddress(1, [](int64_t, int64_t t) { return t * t; }).has_value());
  EXPECT_FALSE(fitAddress(2, [](int64_t reg, int64_t t) { return reg * t; }).has_value());
  // Three rows a warp: the row is no sum over the bits.
  EXPECT_FALSE(fitAddress(1, [](int64_t, int64_t t) { return (t / 32) * 100 + (t % 32) / 12; }).has_value());
}

} // namespace dsv3::codegen
