// The layout evaluator against brute force, and its refusals.
#include "dialects/kernel/Layout.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>

namespace dsv3 {
namespace {

using Shape = std::vector<int64_t>;

Layout parse(const std::string &text) {
  Result<Layout> layout = Layout::parse(text);
  EXPECT_TRUE(layout) << layout.error().message;
  return *layout;
}

/// Calls `fn` with every index below `shape`, last dim fastest.
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

/// Compares with a function written out by hand on every padded index, and counts the places.
void expectPlaces(const std::string &text, const Shape &shape, int64_t elements, const std::function<int64_t(const Shape &)> &place) {
  SCOPED_TRACE(text);
  Layout layout = parse(text);
  EXPECT_EQ(layout.elements(shape), elements);
  forEach(layout.paddedShape(shape), [&](const Shape &i) { ASSERT_EQ(layout.offset(i, shape), place(i)) << i[0] << ", " << i.back(); });
}

TEST(Layout, RowMajor) {
  expectPlaces("(n) -> [n]", {7}, 7, [](const Shape &i) { return i[0]; });
  expectPlaces("(n, k) -> [n, k]", {5, 7}, 35, [](const Shape &i) { return i[0] * 7 + i[1]; });
  expectPlaces("(n, k) -> [k, n]", {5, 7}, 35, [](const Shape &i) { return i[1] * 5 + i[0]; });
}

TEST(Layout, Panels) {
  // 20 x 10 in panels of 16 rows and 4 columns: padded to 32 x 12
  expectPlaces("(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4", {20, 10}, 32 * 12,
               [](const Shape &i) { return ((i[0] / 16 * 3 + i[1] / 4) * 16 + i[0] % 16) * 4 + i[1] % 4; });
}

TEST(Layout, DividedAndReduced) {
  // n/4%2: pairs of blocks of four rows
  expectPlaces("(n, k) -> [n/8, k, n/4%2, n%4] pad n:8", {16, 3}, 48,
               [](const Shape &i) { return ((i[0] / 8 * 3 + i[1]) * 2 + i[0] / 4 % 2) * 4 + i[0] % 4; });
}

TEST(Layout, Swizzle) {
  // 128 bytes of bf16: chunks of eight lanes change places with the row
  std::string text = "(r, c) -> [r/8, r%8, c/8 ^ r%8, c%8] pad r:8 c:64";
  expectPlaces(text, {16, 64}, 1024, [](const Shape &i) { return (i[0] / 8 * 8 + i[0] % 8) * 64 + ((i[1] / 8) ^ (i[0] % 8)) * 8 + i[1] % 8; });
  EXPECT_TRUE(parse(text).isBijective({16, 64}));
  EXPECT_TRUE(parse(text).isBijective({3, 50})); // padded to 8 x 64
  // A row has one chunk per bank column: no two rows of a group of eight put chunk 0 in the same one.
  Layout layout = parse(text);
  std::vector<bool> column(8, false);
  for (int64_t r = 0; r < 8; ++r) {
    int64_t c = layout.offset({r, 0}, {8, 64}) % 64 / 8;
    EXPECT_FALSE(column[size_t(c)]);
    column[size_t(c)] = true;
  }
}

TEST(Layout, XorWithConstant) {
  expectPlaces("(k) -> [k/2, k%2 ^ 1]", {6}, 6, [](const Shape &i) { return i[0] / 2 * 2 + (i[0] % 2 ^ 1); });
}

TEST(Layout, PaddedShapeAndExtents) {
  Layout layout = parse("(n, k) -> [n/16, k/4, n%16, k%4] pad n:16 k:4");
  EXPECT_EQ(layout.rank(), 2u);
  EXPECT_EQ(layout.dimNames(), (std::vector<std::string>{"n", "k"}));
  EXPECT_EQ(layout.paddedShape({17, 4}), (Shape{32, 4}));
  EXPECT_EQ(layout.termExtents({17, 4}), (Shape{2, 1, 16, 4}));
  // A dim below the modulus takes no more places than it has values.
  EXPECT_EQ(parse("(n) -> [n/16, n%16]").termExtents({5}), (Shape{1, 5}));
}

TEST(Layout, ScalesShareAPlace) {
  Layout layout = parse("(n, k) -> [n/128, k/128]");
  EXPECT_EQ(layout.elements({576, 7168}), 5 * 56);
  EXPECT_EQ(layout.offset({575, 7167}, {576, 7168}), 4 * 56 + 55);
  EXPECT_FALSE(layout.isBijective({256, 128}));
}

TEST(Layout, Bijective) {
  for (const char *text : {"(n, k) -> [n, k]", "(n, k) -> [k, n]", "(n, k) -> [n/16, k, n%16] pad n:16",
                           "(n, k) -> [n/16, k/2, n%16, k%2] pad n:16 k:2", "(n, k) -> [n/8, k/8, n%8, k%8 ^ n%8] pad n:8 k:8"}) {
    SCOPED_TRACE(text);
    for (Shape shape : {Shape{1, 1}, Shape{16, 8}, Shape{33, 7}, Shape{48, 40}})
      EXPECT_TRUE(parse(text).isBijective(shape)) << shape[0] << "x" << shape[1];
  }
}

TEST(Layout, NotBijective) {
  EXPECT_FALSE(parse("(n, k) -> [n]").isBijective({4, 2}));           // k is lost
  EXPECT_FALSE(parse("(n, k) -> [n, k, k]").isBijective({2, 3}));     // holes
  EXPECT_FALSE(parse("(n, k) -> [n/16, k, n%16]").isBijective({20, 2})); // no pad: the last panel has holes
  EXPECT_FALSE(parse("(n, k) -> [n/4, n%4 ^ k%4]").isBijective({4, 4}));
  EXPECT_FALSE(parse("(n, k) -> [n, n]").isBijective({3, 3}));        // right size, wrong places
  EXPECT_FALSE(parse("(n) -> [n ^ 4]").isBijective({6}));             // beyond the end
}

/// Random terms against an evaluation of their own: what the parser reads is what offset() computes.
TEST(Layout, RandomTermsAgreeWithBruteForce) {
  std::mt19937 random(7);
  auto pick = [&](int n) { return int64_t(random() % unsigned(n)); };
  for (int round = 0; round < 200; ++round) {
    struct Term {
      int64_t dim, div, mod;
    };
    std::vector<Term> terms;
    std::string text = "(a, b) -> [";
    for (int64_t t = 0, count = 1 + pick(4); t < count; ++t) {
      terms.push_back({pick(2), 1 + pick(4), pick(5)});
      text += (t ? ", " : "") + std::string(terms.back().dim ? "b" : "a") + "/" + std::to_string(terms.back().div);
      if (terms.back().mod)
        text += "%" + std::to_string(terms.back().mod);
    }
    text += "]";
    Shape shape{1 + pick(9), 1 + pick(9)};
    int64_t elements = 1;
    auto extent = [&](const Term &t) {
      int64_t n = (shape[size_t(t.dim)] + t.div - 1) / t.div;
      return t.mod ? std::min(n, t.mod) : n;
    };
    for (const Term &t : terms)
      elements *= extent(t);
    expectPlaces(text, shape, elements, [&](const Shape &i) {
      int64_t at = 0;
      for (const Term &t : terms) {
        int64_t v = i[size_t(t.dim)] / t.div;
        at = at * extent(t) + (t.mod ? v % t.mod : v);
      }
      return at;
    });
  }
}

TEST(Layout, SpacesMeanNothing) {
  EXPECT_EQ(parse("(n,k)->[n/16,k]pad n:16").offset({17, 1}, {32, 4}), parse("( n , k ) -> [ n / 16 , k ]  pad n : 16").offset({17, 1}, {32, 4}));
}

TEST(Layout, StridesSumToTheOffset) {
  Layout layout = parse("(n, k) -> [n/64, k/32, n/16%4, n%8, k/2%4, k/8%4, n/8%2, k%2] pad n:64 k:128");
  std::vector<int64_t> shape = {100, 130};
  auto strides = layout.strides(shape);
  ASSERT_TRUE(strides);
  for (int64_t n = 0; n < shape[0]; ++n)
    for (int64_t k = 0; k < shape[1]; ++k) {
      int64_t index[] = {n, k}, sum = 0;
      for (const Layout::Stride &s : *strides) {
        int64_t v = index[s.dim] / s.div;
        sum += (s.mod ? v % s.mod : v) * s.stride;
      }
      ASSERT_EQ(sum, layout.offset({n, k}, shape)) << n << ", " << k;
    }
  EXPECT_FALSE(parse("(n, k) -> [n, k^n%8]").strides({8, 8})) << "an xor is no sum";
}

TEST(Layout, RefusalsNameThePlace) {
  auto message = [](const std::string &text) {
    Result<Layout> layout = Layout::parse(text);
    return layout ? std::string("parsed") : layout.error().message;
  };
  EXPECT_EQ(message(""), "expected '(' at 0 in layout ''");
  EXPECT_EQ(message("() -> [n]"), "expected a new dimension name at 1 in layout '() -> [n]'");
  EXPECT_EQ(message("(n, n) -> [n]"), "expected a new dimension name at 4 in layout '(n, n) -> [n]'");
  EXPECT_EQ(message("(n, k) [n]"), "expected ') -> [' at 7 in layout '(n, k) [n]'");
  EXPECT_EQ(message("(n, k) -> []"), "expected a dimension name at 11 in layout '(n, k) -> []'");
  EXPECT_EQ(message("(n, k) -> [n, m]"), "expected a dimension name at 14 in layout '(n, k) -> [n, m]'");
  EXPECT_EQ(message("(n, k) -> [n, k"), "expected ']' at 15 in layout '(n, k) -> [n, k'");
  EXPECT_EQ(message("(n) -> [n/0]"), "expected a positive divisor at 11 in layout '(n) -> [n/0]'");
  EXPECT_EQ(message("(n) -> [n%]"), "expected a positive modulus at 10 in layout '(n) -> [n%]'");
  EXPECT_EQ(message("(n) -> [n ^ m]"), "expected a dimension name at 12 in layout '(n) -> [n ^ m]'");
  EXPECT_EQ(message("(n) -> [n] pad k:2"), "expected 'dim:multiple' at 16 in layout '(n) -> [n] pad k:2'");
  EXPECT_EQ(message("(n) -> [n] pad n:0"), "expected a positive multiple at 18 in layout '(n) -> [n] pad n:0'");
  EXPECT_EQ(message("(n) -> [n] tail"), "expected the end at 11 in layout '(n) -> [n] tail'");
}

} // namespace
} // namespace dsv3
