// Which instruction moves a fragment, and what it costs, under the layouts that kernels use.
#include "passes/tile/SharedAccess.h"

#include <gtest/gtest.h>

namespace dsv3::tile {
namespace {

struct Answer {
  std::string instruction;
  unsigned degree;
  bool operator==(const Answer &o) const { return instruction == o.instruction && degree == o.degree; }
};
std::ostream &operator<<(std::ostream &out, const Answer &a) { return out << a.degree << "-way " << a.instruction; }

Answer answer(const std::vector<WarpAccess> &accesses, bool store) {
  const AccessCost cost = costOf(accesses);
  return {name(cost.instruction, store), cost.degree};
}

Answer store(FragKind kind, std::vector<int64_t> shape, unsigned bits, SmemKind layout, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
  return answer(accessesOf(Fragment(kind, shape), bits, SmemLayout(layout, shape, bits, a, b, c), false, true), true);
}

} // namespace

TEST(SharedAccess, AccumulatorOfBf16) {
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 16, SmemKind::Linear), (Answer{"stmatrix.x4", 8}));
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 16, SmemKind::Pad, 16), (Answer{"stmatrix.x4", 1}));
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 16, SmemKind::Sw128), (Answer{"stmatrix.x4", 1}));
  EXPECT_EQ(store(FragKind::Acc, {64, 128}, 16, SmemKind::Sw128), (Answer{"stmatrix.x4", 1})); // the GEMM's staging
  EXPECT_EQ(store(FragKind::Acc, {64, 32}, 16, SmemKind::Sw64), (Answer{"stmatrix.x4", 1}));
  EXPECT_EQ(store(FragKind::Acc, {64, 8}, 16, SmemKind::Linear), (Answer{"stmatrix.x2", 1})); // 16 bytes a row: 8 are 128
  // A pitch that is no multiple of 16 leaves pairs: eight rows one bank apart, four pairs each.
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 16, SmemKind::Pad, 4), (Answer{"st.shared", 4}));
}

TEST(SharedAccess, AccumulatorOfFloats) {
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 32, SmemKind::Linear), (Answer{"st.shared.v2", 4}));
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 32, SmemKind::Pad, 32), (Answer{"st.shared.v2", 1}));
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 32, SmemKind::Pad, 16), (Answer{"st.shared.v2", 2}));
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 32, SmemKind::Sw128), (Answer{"st.shared.v2", 2}));
  EXPECT_EQ(store(FragKind::Acc, {64, 64}, 32, SmemKind::Frag, int64_t(FragKind::Acc)), (Answer{"st.shared.v4", 1}));
}

TEST(SharedAccess, RowValuesAreStoredOnce) {
  EXPECT_EQ(store(FragKind::Row, {64}, 32, SmemKind::Linear), (Answer{"st.shared", 1}));
  const auto accesses = accessesOf(Fragment(FragKind::Row, {64}), 32, SmemLayout(SmemKind::Linear, {64}, 32), false, true);
  EXPECT_EQ(std::count(accesses[0].address.begin(), accesses[0].address.end(), kInactiveLane), 24);
}

TEST(SharedAccess, ColumnOfFloats) {
  auto column = [](SmemKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    Fragment lin(FragKind::Lin, {32, 32}, 1, 128);
    return answer(accessesOf(lin, 32, SmemLayout(kind, {32, 32}, 32, a, b, c), true, false), false);
  };
  EXPECT_EQ(column(SmemKind::Linear), (Answer{"ld.shared", 32}));
  EXPECT_EQ(column(SmemKind::Pad, 4), (Answer{"ld.shared", 1}));
  EXPECT_EQ(column(SmemKind::Sw128), (Answer{"ld.shared", 4}));
  EXPECT_EQ(column(SmemKind::Swizzle, 5, 2, 5), (Answer{"ld.shared", 1}));
}

TEST(SharedAccess, TransposedStagingOfEachWarp) {
  // The grouped GEMM's: [warps, 16 tokens, 16 features], 32-byte rows.
  auto staging = [](SmemKind kind, int64_t a = 0, int64_t b = 0, int64_t c = 0) {
    return costOf(restagingOf(16, SmemLayout(kind, {16, 16, 16}, 16, a, b, c), true)).degree;
  };
  EXPECT_EQ(staging(SmemKind::Linear), 2u);
  EXPECT_EQ(staging(SmemKind::Swizzle, 1, 4, 3), 1u);
  // Rows of 48 bytes are free of conflicts for stmatrix, but not for the 16-byte reloads.
  EXPECT_EQ(staging(SmemKind::Pad, 16), 2u);
}

TEST(SharedAccess, ClearingRows) {
  EXPECT_EQ(costOf(zeroingOf(SmemLayout(SmemKind::Sw128, {64, 512}, 16), 16)).degree, 1u);
  EXPECT_EQ(costOf(zeroingOf(SmemLayout(SmemKind::Linear, {64, 64}, 16), 16)).degree, 1u);
}

} // namespace dsv3::tile
