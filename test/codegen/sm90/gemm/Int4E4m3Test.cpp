// Products of E4M3 rows and int4 weights on the tile simulator, and the machine code of DeepSeek-V3's.
#include "test/codegen/sm90/gemm/Int4Cases.h"

using namespace mlir;

namespace dsv3::codegen::test {

static Int4Case of(Int4Case c) {
  c.elem = "f8E4M3FN";
  return c;
}

TEST(Int4E4m3, RowsAndChannels) {
  check(of({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 336}), false);
  check(of({.rows = {40, 0, 0}, .capacity = 40, .n = 128, .k = 128, .out = "bf16"}), false);
  check(of({.rows = {11}, .capacity = 16, .n = 136, .k = 512, .experts = false}), false);
  check(of({.rows = {11}, .capacity = 16, .n = 136, .k = 512, .experts = false}), false, {{"split", 4}, {"bk", 128}, {"warpgroups", 2}});
}

TEST(Int4E4m3, Groups) {
  check(of({.rows = {0, 19, 1, 0, 33}, .capacity = 64, .n = 200, .k = 336, .w = "1x128"}), false);
  check(of({.rows = {3, 0, 30}, .capacity = 40, .n = 136, .k = 256, .gated = true, .w = "1x128", .x = "1x128"}), false);
  check(of({.rows = {19, 1}, .capacity = 24, .n = 72, .k = 400, .x = "1x128"}), false);
  check(of({.rows = {19, 1}, .capacity = 24, .n = 72, .k = 512, .x = "1x128"}), false); // scales come with the stages
}

TEST(Int4E4m3, Gated) {
  for (auto via : {"f32", "bf16"})
    check(of({.rows = {5, 0, 50, 17}, .capacity = 80, .n = 96, .k = 144, .gated = true, .out = "bf16", .via = via}), false);
}

/// What mistakes of the packing or of the tables would do is seen: halves of words exchanged, a code that is not negative.
TEST(Int4E4m3, MistakesOfPackingAreSeen) {
  Int4Product p(of({.rows = {5, 3}, .capacity = 8, .n = 64, .k = 128}));
  p.run();
  EXPECT_EQ(p.wrong(false), 0);
  p.run(1, 0, [](Bytes &codes) {
    for (size_t i = 0; i < codes.size(); i += 4)
      std::swap(codes[i], codes[i + 2]), std::swap(codes[i + 1], codes[i + 3]);
  });
  EXPECT_GT(p.wrong(false), 400);
  p.run(1, 0, [](Bytes &codes) {
    for (uint8_t &b : codes)
      b = (b & 15) == 8 ? uint8_t((b & 0xf0) | 7) : b; // -8 as if it were out of range
  });
  EXPECT_GT(p.wrong(false), 400);
}

TEST(Int4E4m3, EverySchedule) {
  Int4Case c = of({.rows = {7, 0, 18, 5}, .capacity = 40, .n = 264, .k = 512});
  for (int64_t bk : {128, 256, 512})
    for (int64_t warpgroups : {1, 2, 4})
      check(c, false, {{"bk", bk}, {"warpgroups", warpgroups}, {"tokens", 16}, {"stages", 3}, {"row_tiles", 6}}, uint64_t(bk / 128 + warpgroups), 2);
  c.w = "1x128", c.x = "1x128";
  check(c, false, {{"bk", 256}, {"warpgroups", 2}, {"tokens", 8}, {"stages", 3}, {"row_tiles", 8}}, 3, 2);
}

/// SwiGLU and E4M3 with a scale per row and 128 columns in one launch: scales and codes of the numbers that would be stored.
TEST(Int4E4m3, StoresCodes) {
  for (bool gated : {true, false}) {
    Int4Case c = of({.rows = {5, 0, 18, 1}, .capacity = 40, .n = 384, .k = 256, .gated = gated, .out = "bf16"});
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

/// Rows that token_of picks are copied where they are multiplied; of those with a scale per 128 channels there is no such kernel.
TEST(Int4E4m3, GathersRows) {
  Int4Case c = of({.rows = {3, 0, 18}, .capacity = 24, .n = 256, .k = 1024, .gated = true, .out = "bf16", .tokens = 7});
  check(c, false, {}, 1, 2);
  check(c, false, {{"split", 2}, {"warpgroups", 2}, {"tokens", 8}, {"bk", 128}, {"stages", 3}}, 2, 4);
  c.w = "1x128";
  check(c, false, {}, 3, 2);
  c.x = "1x128";
  EXPECT_EQ(LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()).substr(0, 68),
            "rows of x are picked by token_of and have a scale per 128 channels, ");
}

/// Experts of few rows of weights join sums of two halves of K, or of four parts if codes are stored, in a block or over those of a cluster.
TEST(Int4E4m3, PartsOfKInOneBlockOrMore) {
  for (bool codes : {false, true}) {
    Int4Case c = of({.rows = {7, 0, 18}, .capacity = 40, .n = 256, .k = 1024, .gated = true, .out = "bf16", .codes = codes});
    Int4Product one(c, {{"split", 1}, {"warpgroups", 2}, {"tokens", 16}, {"bk", 256}, {"stages", 3}, {"row_tiles", 5}});
    const int64_t parts = codes ? 4 : 2;
    Int4Product more(c, {{"split", parts}, {"warpgroups", 2}, {"tokens", 8 * parts}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}});
    one.run(1, 2), more.run(2, 2 * parts);
    EXPECT_EQ(cast<kernel::KernelOp>(one.kernel->op()).getKernelNumerics().getChain(), "k_blocks128_split" + std::to_string(parts));
    EXPECT_TRUE(one.sameBits(more));
    EXPECT_TRUE(codes || one.wrong(false) == 0);
  }
  // Prompts, weights with enough rows, and pairs that blocks have one each of have one sum.
  for (Int4Case c : {of({.rows = {7, 0, 18}, .capacity = 40, .n = 256, .k = 1024, .gated = true, .w = "1x128"}), of({.rows = {7, 0, 18}, .capacity = 40, .n = 4288, .k = 1024}), of({.rows = {7, 0, 18}, .capacity = 512, .n = 256, .k = 1024})})
    EXPECT_EQ(cast<kernel::KernelOp>(c.compile()->op()).getKernelNumerics().getChain(), "k_blocks128");
}

/// Tensor cores keep 13 bits of a sum of E4M3 products: also where one scale would do for all of K.
TEST(Int4E4m3, SumsAreJoinedOutside) {
  auto chain = [](const Int4Case &c) {
    auto kernel = c.compile();
    auto numerics = cast<kernel::KernelOp>(kernel->op()).getKernelNumerics();
    EXPECT_TRUE(numerics.getAcc().isF32());
    EXPECT_TRUE(numerics.getMul() == (c.e4m3() ? Type(Float8E4M3FNType::get(numerics.getContext())) : IntegerType::get(numerics.getContext(), 8)));
    return numerics.getChain().str();
  };
  EXPECT_EQ(chain(of({.rows = {8, 1}, .capacity = 16, .n = 64, .k = 512})), "k_blocks128");
  EXPECT_EQ(chain(of({.rows = {8, 1}, .capacity = 16, .n = 64, .k = 512, .w = "1x128", .x = "1x128"})), "k_blocks128");
  Int4Product p(of({.rows = {8, 1}, .capacity = 16, .n = 64, .k = 1024}));
  int64_t sums = 0;
  p.kernel->kernel().walk([&](tile::MmaOp mma) { sums += isa_and_nonnull<tile::NoneOp>(mma.getAcc().getDefiningOp()); });
  EXPECT_GT(sums, 0) << "no product starts a sum of its own";
}

TEST(Int4E4m3, MutantsAreReported) {
  Int4Case c = of({.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .gated = true, .out = "bf16", .codes = true});
  Int4Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 128}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(3);
  c = of({.rows = {5, 0, 18}, .capacity = 40, .n = 128, .k = 1024, .w = "1x128", .x = "1x128"});
  Int4Product(c, {{"warpgroups", 2}, {"tokens", 16}, {"bk", 256}, {"stages", 3}, {"row_tiles", 5}}).expectMutantsReported(3);
}

TEST(Int4E4m3, Refusals) {
  auto why = [](Int4Case c) { return LaunchKernel::whyIllegal(c.args(), c.body(), c.attributes()); };
  EXPECT_EQ(why(of({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .x = "1x64"})),
            "x is quantised, but not to i8 or f8E4M3FN with an f32 scale per row or per row and 128 channels, which int4 weights are multiplied with");
  EXPECT_EQ(why(of({.rows = {8}, .capacity = 8, .n = 64, .k = 136})), "rows of x have K = 136 codes, no multiple of 16 bytes");
  EXPECT_EQ(why(of({.rows = {8}, .capacity = 8, .n = 64, .k = 128, .codes = true})),
            "a row of the result has 64 values, no multiple of the 128 that share a scale");
}

TEST(Int4E4m3Code, Experts) {
  for (int64_t capacity : {1, 64, 512, 4096})
    for (const char *w : {"1x?", "1x128"})
      for (const char *x : {"1x?", "1x128"}) {
        std::vector<int64_t> rows(32);
        assemble(of({.rows = rows, .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .x = x, .out = "bf16"}));
        assemble(of({.rows = rows, .capacity = capacity, .n = 2048, .k = 7168, .gated = true, .w = w, .x = x, .out = "bf16", .codes = true}));
        assemble(of({.rows = rows, .capacity = capacity, .n = 7168, .k = 2048, .w = w, .x = x, .out = "bf16"}));
      }
}

TEST(Int4E4m3Code, Dense) {
  for (int64_t capacity : {1, 64, 512, 4096})
    for (const char *x : {"1x?", "1x128"})
      assemble(of({.rows = {capacity}, .capacity = capacity, .n = 7168, .k = 2048, .experts = false, .w = "1x128", .x = x, .out = "bf16"}));
}

} // namespace dsv3::codegen::test
