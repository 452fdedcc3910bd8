// Products with int4 weights on the tile simulator: integer sums to the bit, and the machine code of DeepSeek-V3's.
#include "test/codegen/sm90/gemm/Int4Cases.h"

using namespace mlir;

namespace dsv3::codegen::test {

/// A scale per row of both: one integer sum over K, and f32 in the reference's order.
TEST(Int4, SumsAreExact) {
  check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 336}, true);
  check({.rows = {40, 0, 0}, .capacity = 40, .n = 128, .k = 128, .out = "bf16"}, true);
  check({.rows = {11}, .capacity = 16, .n = 136, .k = 512, .experts = false}, true);
  check({.rows = {11}, .capacity = 16, .n = 136, .k = 512, .experts = false}, true, {{"split", 4}, {"bk", 128}, {"warpgroups", 2}});
}

/// What a mistake of the packing would do is seen: halves of bytes exchanged, a code that is not negative.
TEST(Int4, MistakesOfPackingAreSeen) {
  Int4Case c{.rows = {5, 3}, .capacity = 8, .n = 64, .k = 128};
  Int4Product p(c);
  p.run();
  EXPECT_EQ(p.wrong(true), 0);
  p.run(1, 0, [](Bytes &codes) {
    for (uint8_t &b : codes)
      b = uint8_t(b << 4 | b >> 4);
  });
  EXPECT_GT(p.wrong(true), 400);
  p.run(1, 0, [](Bytes &codes) {
    for (uint8_t &b : codes)
      b = (b & 15) == 8 ? uint8_t((b & 0xf0) | 7) : b; // -8 as if it were out of range
  });
  EXPECT_GT(p.wrong(true), 200); // of the rows in low halves
}

TEST(Int4, Gated) {
  for (auto via : {"f32", "bf16"})
    check({.rows = {5, 0, 50, 17}, .capacity = 80, .n = 96, .k = 144, .gated = true, .out = "bf16", .via = via}, false);
}

TEST(Int4, Groups) {
  check({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 336, .w = "1x128"}, false);
  check({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = "1x128"}, false);
  check({.rows = {19, 1}, .capacity = 24, .n = 72, .k = 400, .x = "1x128"}, false);
}

TEST(Int4, PlainRows) {
  check({.rows = {0, 19, 1}, .capacity = 24, .n = 200, .k = 336, .x = ""}, false);
  check({.rows = {19}, .capacity = 24, .n = 72, .k = 400, .experts = false, .w = "1x128", .x = "", .out = "bf16"}, false);
  check({.rows = {3, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = ""}, false);
}

TEST(Int4, ZeroPoints) {
  check({.rows = {0, 19, 1}, .capacity = 24, .n = 200, .k = 336, .x = "", .zeros = true}, false);
  check({.rows = {3, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = "", .zeros = true}, false);
  Int4Case c{.rows = {8}, .capacity = 8, .n = 64, .k = 128, .zeros = true};
  EXPECT_EQ(LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()), "x is quantised, and int4 weights with zero points are multiplied with plain rows");
}

TEST(Int4, EverySchedule) {
  Int4Case c{.rows = {7, 0, 18, 5}, .capacity = 40, .n = 264, .k = 512};
  for (int64_t bk : {128, 256, 512})
    for (int64_t warpgroups : {1, 2, 4})
      check(c, true, {{"bk", bk}, {"warpgroups", warpgroups}, {"tokens", 16}, {"stages", 3}, {"row_tiles", 6}}, uint64_t(bk / 128 + warpgroups), 2);
  c.w = "1x128", c.x = "1x128";
  check(c, false, {{"bk", 256}, {"warpgroups", 2}, {"tokens", 8}, {"stages", 3}, {"row_tiles", 8}}, 3, 2);
}

/// Rows that producers pick, of each kind of x.
TEST(Int4, GathersRows) {
  Int4Case c{.rows = {3, 0, 18}, .capacity = 24, .n = 136, .k = 528, .gated = true, .out = "bf16", .tokens = 7};
  for (uint64_t seed : {0, 1, 2, 3})
    check(c, false, {}, seed, 2);
  check(c, false, {{"warpgroups", 2}, {"tokens", 32}, {"bk", 128}, {"stages", 3}, {"row_tiles", 4}, {"split", 1}}, 2, 2);
  c.w = "1x128", c.x = "", c.k = 512;
  check(c, false, {}, 1, 2);
  check(c, false, {{"warpgroups", 1}, {"tokens", 8}, {"bk", 256}, {"stages", 3}, {"row_tiles", 8}, {"split", 2}, {"apart", 1}}, 2, 2);
  c.x = "1x128";
  EXPECT_EQ(LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()),
            "rows of x are picked by token_of and have a scale per 128 channels, and this kernel reads gathered rows (--dsv3-expand-experts gathers "
            "them)");
}

/// Gate and up by a block of a cluster each: the sums are the same, and meet in distributed shared memory.
TEST(Int4, PairsApart) {
  const SmallVector<std::pair<StringRef, int64_t>> apart{{"warpgroups", 1}, {"tokens", 8}, {"bk", 256}, {"stages", 3}, {"row_tiles", 8}, {"split", 2}, {"apart", 1}};
  Int4Case c{.rows = {3, 0, 18}, .capacity = 24, .n = 136, .k = 512, .gated = true, .w = "1x128", .x = ""};
  for (uint64_t seed : {0, 1, 2, 3})
    check(c, false, apart, seed, 4);
  c.zeros = true;
  check(c, false, apart, 1, 2);
  check({.rows = {3, 0, 18}, .capacity = 24, .n = 192, .k = 512, .gated = true, .w = "1x128", .x = "1x128", .out = "bf16"}, false, apart, 3, 2);
  check({.rows = {1}, .capacity = 1, .n = 192, .k = 1024, .gated = true, .w = "1x128", .out = "bf16"}, false, apart, 3, 2);
  c = {.rows = {2, 1}, .capacity = 3, .n = 128, .k = 2048, .gated = true, .w = "1x128", .x = ""};
  check(c, false, {{"warpgroups", 1}, {"tokens", 8}, {"bk", 1024}, {"stages", 3}, {"split", 2}, {"apart", 1}}, 1, 2);
  // Scales of x come with a stage four to a row, for 512 k.
  c.x = "1x128";
  check(c, false, {{"warpgroups", 1}, {"tokens", 8}, {"bk", 1024}, {"stages", 3}, {"split", 2}, {"apart", 1}}, 1, 2);
  for (auto x : {"", "1x128"}) // as chosen for few rows
    for (auto elem : {"i8", "f8E4M3FN"}) {
      c.x = x, c.elem = elem;
      check(c, false, {}, 2, 2);
    }
}

using Forced = SmallVector<std::pair<StringRef, int64_t>>;
static Forced ownRoles(int64_t tokens, int64_t bk, int64_t beside, int64_t turns) {
  return {{"warpgroups", 2}, {"tokens", tokens}, {"bk", bk}, {"stages", 3}, {"row_tiles", 8}, {"split", 1}, {"beside", beside}, {"turns", turns}};
}

/// Gate and up by a warpgroup of a block each: the bits of both by one. Of 24 columns the second one stores 8, the others are even.
TEST(Int4, PairsBeside) {
  for (const char *elem : {"i8", "f8E4M3FN"})
    for (const char *w : {"1x?", "1x128"})
      for (int64_t k : {256, 512}) {
        Int4Case c{.rows = {5, 0, 50}, .capacity = 64, .n = 192, .k = k, .gated = true, .w = w, .x = k == 256 ? "1x?" : "1x128", .out = "bf16", .elem = elem};
        Int4Product plain(c, ownRoles(16, 128, 0, 0));
        plain.run(1, 2);
        EXPECT_EQ(plain.wrong(false), 0);
        for (auto [tokens, bk, turns] : {std::tuple<int64_t, int64_t, int64_t>{16, 128, 0}, {24, 128, 1}, {32, 256, 1}}) {
          Int4Product beside(c, ownRoles(tokens, bk, 1, turns));
          beside.run(uint64_t(tokens + k), 2);
          EXPECT_TRUE(beside.sameBits(plain)) << beside.kernel->schedule();
        }
      }
  Int4Case c{.rows = {3, 0, 18}, .capacity = 24, .n = 192, .k = 256, .gated = true, .w = "1x128", .out = "bf16", .tokens = 7};
  for (uint64_t seed : {0, 1, 2, 3})
    check(c, false, ownRoles(32, 128, 1, 0), seed, 2);
}

/// Two warpgroups that take turns, of one weight.
TEST(Int4, TakesTurns) {
  Int4Case c{.rows = {5, 0, 50}, .capacity = 64, .n = 192, .k = 512, .w = "1x128", .x = "1x128", .out = "bf16"};
  Int4Product plain(c, ownRoles(16, 128, 0, 0));
  plain.run(1, 2);
  for (auto [tokens, bk] : {std::pair<int64_t, int64_t>{48, 128}, {32, 256}, {16, 512}}) {
    Int4Product turns(c, ownRoles(tokens, bk, 0, 1));
    turns.run(uint64_t(bk), 2);
    EXPECT_TRUE(turns.sameBits(plain)) << turns.kernel->schedule();
  }
}

/// Sums that leave no registers for scales of all columns are scaled and stored in pieces.
TEST(Int4, ManyTokensInPieces) {
  Int4Case c{.rows = {290}, .capacity = 300, .n = 136, .k = 256, .experts = false, .out = "bf16"};
  check(c, true, {{"bk", 128}, {"warpgroups", 2}, {"tokens", 256}, {"stages", 3}, {"split", 1}});
  c.gated = true;
  check(c, false, {{"bk", 128}, {"warpgroups", 1}, {"tokens", 128}, {"stages", 3}, {"split", 1}});
}

/// SwiGLU and int8 with a scale per row and 128 columns in one launch: scales and codes of the numbers that would be stored.
TEST(Int4, StoresCodes) {
  for (bool gated : {true, false}) {
    Int4Case c{.rows = {5, 0, 18, 1}, .capacity = 40, .n = 384, .k = 256, .gated = gated, .out = "bf16"};
    Int4Product plain(c);
    plain.run();
    c.codes = true;
    for (auto force : {SmallVector<std::pair<StringRef, int64_t>>{}, SmallVector<std::pair<StringRef, int64_t>>{{"warpgroups", 2}, {"tokens", 16}, {"row_tiles", 5}, {"stages", 3}}}) {
      Int4Product coded(c, force);
      coded.run(2, 3);
      EXPECT_EQ(coded.wrongCodes(plain), 0) << coded.kernel->schedule();
    }
  }
}

/// One sum over K and sums of 128 k, whose scales come with the stages; both epilogues.
TEST(Int4, MutantsAreReported) {
  Int4Case c{.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .gated = true};
  Int4Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(7);
  c.codes = true, c.out = "bf16";
  Int4Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(7);
  c = {.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .gated = true, .tokens = 9};
  Int4Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(5);
  c = {.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 256, .gated = true, .w = "1x128", .x = "", .out = "bf16"};
  Int4Product(c, {{"warpgroups", 1}, {"tokens", 8}, {"bk", 128}, {"stages", 3}, {"row_tiles", 8}, {"split", 2}, {"apart", 1}}).expectMutantsReported(2);
  c = {.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .w = "1x128", .x = "1x128"};
  Int4Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 256}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(3);
}

/// What two warpgroups beside each other hand over. Turns order no data: taken or passed on too early they only cost time.
TEST(Int4, MutantsOfOwnRolesAreReported) {
  Int4Case c{.rows = {5, 18}, .capacity = 24, .n = 128, .k = 128, .gated = true, .w = "1x128", .out = "bf16"};
  Int4Product(c, ownRoles(16, 128, 1, 0)).expectMutantsReported(10);
  c.gated = false, c.k = 384;
  Int4Product(c, ownRoles(16, 128, 0, 1)).expectMutantsReported(10, {"earlier signal 0", "earlier meet 1", "earlier signal 2"});
}

TEST(Int4, Refusals) {
  auto why = [](Int4Case c) { return LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()); };
  EXPECT_EQ(why({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .w = "64x128"}), "int4 weights have a scale per 64 rows, not per row");
  EXPECT_EQ(why({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .w = "1x32"}),
            "groups of 32 int4 weights are not a multiple of 128, which products are promoted by");
  EXPECT_EQ(why({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .x = "1x64"}),
            "x is quantised, but not to i8 or f8E4M3FN with an f32 scale per row or per row and 128 channels, which int4 weights are multiplied with");
}

TEST(Int4Code, Experts) {
  for (int64_t capacity : {1, 64, 512, 4096})
    for (const char *w : {"1x?", "1x128"}) {
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .out = "bf16"});
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .out = "bf16", .codes = true});
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 7168, .k = 2048, .w = w, .x = "1x128", .out = "bf16"});
      assemble({.rows = std::vector<int64_t>(32), .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .x = "", .out = "bf16"});
    }
}

TEST(Int4Code, Dense) {
  for (int64_t capacity : {1, 64, 512, 4096})
    for (const char *x : {"", "1x?"})
      assemble({.rows = {capacity}, .capacity = capacity, .n = 7168, .k = 2048, .experts = false, .w = "1x128", .x = x, .out = "bf16"});
}

} // namespace dsv3::codegen::test
