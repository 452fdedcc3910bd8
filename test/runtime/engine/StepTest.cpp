// Planning within capacities, and the pages.
#include "runtime/engine/Step.h"
#include "runtime/engine/KvBudget.h"
#include "runtime/engine/Programs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

using namespace dsv3;

namespace {

dsv3_program_desc program(uint32_t tokens, uint32_t seqs, uint32_t qblocks = 0, uint32_t kblocks = 0) {
  dsv3_program_desc p{};
  p.tokens = tokens;
  p.seqs = seqs;
  p.qblocks = qblocks;
  p.kblocks = kblocks;
  return p;
}

struct Planned {
  std::vector<Sequence> sequences;
  std::vector<StepItem> items;
  /// {tokens, cached} of each sequence.
  Planned(const dsv3_program_desc &p, std::vector<std::pair<int, int>> of, int64_t chunk = 1 << 20) {
    std::vector<Sequence *> pointers;
    for (auto [tokens, cached] : of) {
      sequences.emplace_back();
      sequences.back().tokens.resize(tokens);
      sequences.back().cached = cached;
    }
    for (Sequence &s : sequences)
      pointers.push_back(&s);
    items = planStep(p, pointers, chunk);
    EXPECT_TRUE(fitsStep(p, items));
  }
  std::vector<int64_t> rows() const {
    std::vector<int64_t> out(sequences.size(), 0);
    for (const StepItem &i : items)
      out[i.sequence - sequences.data()] = i.rows;
    return out;
  }
};

using Rows = std::vector<int64_t>;

TEST(PlanStep, FillsTokensInOrder) {
  EXPECT_EQ(Planned(program(48, 4), {{20, 0}, {20, 0}, {20, 0}}).rows(), (Rows{20, 20, 8}));
  EXPECT_EQ(Planned(program(48, 4), {{20, 15}, {100, 64}}).rows(), (Rows{5, 36}));
}

TEST(PlanStep, ChunkLimitsEachSequence) {
  EXPECT_EQ(Planned(program(48, 4), {{20, 0}, {20, 18}, {20, 0}}, 7).rows(), (Rows{7, 2, 7}));
}

TEST(PlanStep, SequencesAreLimited) {
  EXPECT_EQ(Planned(program(48, 2), {{3, 0}, {3, 0}, {3, 0}}).rows(), (Rows{3, 3, 0}));
}

TEST(PlanStep, QueryTilesStartAtMultiplesOfSixteen) {
  EXPECT_EQ(queryTiles(0, 16), 1);
  EXPECT_EQ(queryTiles(15, 2), 2);
  EXPECT_EQ(queryTiles(16, 1), 1);
  EXPECT_EQ(Planned(program(99, 4, 2), {{60, 10}}).rows(), (Rows{22})) << "6 rows to the boundary, then 16";
  EXPECT_EQ(Planned(program(99, 4, 2), {{12, 10}, {60, 0}, {9, 0}}).rows(), (Rows{2, 16, 0}));
}

TEST(PlanStep, KeyBlocksCoverTheWholeContext) {
  // 3 blocks: a context of 100 takes two of them.
  EXPECT_EQ(Planned(program(99, 4, 0, 3), {{100, 90}, {80, 0}}).rows(), (Rows{10, 64}));
  // The first needs three of three; one that does not fit is skipped, a later one may fit.
  EXPECT_EQ(Planned(program(99, 4, 0, 3), {{180, 170}, {10, 0}}).rows(), (Rows{10, 0}));
  EXPECT_EQ(Planned(program(99, 4, 0, 3), {{90, 70}, {200, 130}, {10, 0}}).rows(), (Rows{20, 0, 10}));
}

TEST(KvBudget, FullPlanFewerOrRefused) {
  KvBudget b{};
  b.pageBytes = 1 << 20;
  b.pagesPerSequence = 10;
  b.sequences = 8;
  b.otherBytes = 100 << 20;
  b.usableBytes = uint64_t(1) << 30;
  EXPECT_EQ(*kvPagesFor(b), 80);
  EXPECT_EQ(kvShortage(b, 80, 64), "");
  b.usableBytes = 135 << 20;
  EXPECT_EQ(*kvPagesFor(b), 35);
  EXPECT_EQ(kvShortage(b, 35, 64), "memory holds 35 of 80 kv pages (2240 tokens of cache in all): requests wait for each "
                                   "other sooner than max_batch 8 says");
  b.usableBytes = 108 << 20; // 8 pages
  auto refused = kvPagesFor(b);
  ASSERT_FALSE(bool(refused));
  EXPECT_EQ(refused.error().code, ExitCode::DoesNotFit);
  EXPECT_NE(refused.error().message.find("expected 110.00 MiB"), std::string::npos)
      << refused.error().message;
  b.requestedPages = 5;
  EXPECT_EQ(*kvPagesFor(b), 5);
  EXPECT_EQ(kvShortage(b, 5, 64), "") << "as many as were asked for";
  b.requestedPages = 9;
  EXPECT_FALSE(bool(kvPagesFor(b)));
}

} // namespace
