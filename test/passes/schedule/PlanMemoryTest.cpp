#include "passes/schedule/PlanMemory.h"

#include <gtest/gtest.h>

#include <random>

namespace dsv3 {

TEST(PlanMemory, ReusesWhatIsFree) {
  // a is dead when c begins; b is alive with both.
  std::vector<Lifetime> buffers = {{256, 0, 1}, {128, 1, 3}, {256, 2, 3}};
  MemoryPlan plan = planMemory(buffers, 64);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 256, 0}));
  EXPECT_EQ(plan.bytes, 384);
  EXPECT_TRUE(bool(checkPlan(buffers, plan, 64)));
}

TEST(PlanMemory, InputAndOutputOfOneOperationAreApart) {
  std::vector<Lifetime> buffers = {{64, 0, 1}, {64, 1, 2}};
  EXPECT_EQ(planMemory(buffers, 64).bytes, 128);
}

TEST(PlanMemory, AlignsOffsets) {
  std::vector<Lifetime> buffers = {{100, 0, 5}, {90, 0, 5}, {1, 0, 5}};
  MemoryPlan plan = planMemory(buffers, 64);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 128, 256}));
  EXPECT_EQ(plan.bytes, 320);
}

TEST(PlanMemory, TakesTheLowestGap) {
  // Three large ones stacked; the middle one dies, and a small one fits into its place.
  std::vector<Lifetime> buffers = {{512, 0, 9}, {256, 0, 3}, {192, 0, 9}, {64, 4, 9}};
  MemoryPlan plan = planMemory(buffers, 64);
  EXPECT_EQ(plan.offsets[3], 512);
}

TEST(PlanMemory, NothingToPlan) {
  MemoryPlan plan = planMemory({}, 64);
  EXPECT_EQ(plan.bytes, 0);
  EXPECT_TRUE(bool(checkPlan({}, plan, 64)));
  EXPECT_EQ(liveSetBound({}, 64), 0);
}

TEST(CheckPlan, FindsOverlaps) {
  std::vector<Lifetime> buffers = {{128, 0, 2}, {128, 2, 4}};
  MemoryPlan wrong{{0, 64}, 192};
  Status s = checkPlan(buffers, wrong, 64);
  ASSERT_FALSE(bool(s));
  EXPECT_NE(s.error().message.find("meets"), std::string::npos) << s.error().message;
  buffers[1].first = 3; // now one after the other
  EXPECT_TRUE(bool(checkPlan(buffers, wrong, 64)));
}

TEST(CheckPlan, FindsWhatLiesOutside) {
  std::vector<Lifetime> buffers = {{128, 0, 2}};
  EXPECT_FALSE(bool(checkPlan(buffers, {{64}, 128}, 64)));
  EXPECT_FALSE(bool(checkPlan(buffers, {{32}, 256}, 64)));
  EXPECT_FALSE(bool(checkPlan(buffers, {{-64}, 256}, 64)));
  EXPECT_FALSE(bool(checkPlan(buffers, {{}, 256}, 64)));
}

TEST(LiveSetBound, IsThePeak) {
  std::vector<Lifetime> buffers = {{256, 0, 1}, {128, 1, 3}, {250, 2, 3}};
  EXPECT_EQ(liveSetBound(buffers, 64), 384);
}

/// Random intervals: every plan passes the independent check, is never below the bound, and a planted overlap is found.
TEST(PlanMemory, RandomPlansHold) {
  std::mt19937 random(7);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers(size_t(1 + below(60)));
    for (Lifetime &b : buffers) {
      b.bytes = 1 + below(4000);
      b.first = below(50);
      b.last = b.first + below(10);
    }
    MemoryPlan plan = planMemory(buffers, 64);
    Status s = checkPlan(buffers, plan, 64);
    ASSERT_TRUE(bool(s)) << s.error().message;
    ASSERT_GE(plan.bytes, liveSetBound(buffers, 64));
    for (size_t i = 1; i < buffers.size(); ++i)
      if (buffers[i].first <= buffers[0].last && buffers[0].first <= buffers[i].last) {
        MemoryPlan wrong = plan;
        wrong.offsets[i] = wrong.offsets[0];
        wrong.bytes += 4096;
        ASSERT_FALSE(bool(checkPlan(buffers, wrong, 64)));
        break;
      }
  }
}

} // namespace dsv3
