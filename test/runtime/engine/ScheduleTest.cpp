// Which requests run when, over the fake module: prefixes, preemption, policies, and that none of it changes a token.
#include "Rig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;

namespace {

Engine::Options cached() {
  Engine::Options options;
  options.prefixCache = true;
  return options;
}

/// Ids that begin with the same `shared` tokens.
Ids withPrefix(int shared, int own, int seed) {
  Ids ids = randomIds(shared, 1000), rest = randomIds(own, seed);
  ids.insert(ids.end(), rest.begin(), rest.end());
  return ids;
}

void expectPagesBack(const Engine &engine) {
  EXPECT_EQ(engine.snapshot().freePages, engine.snapshot().totalPages);
  EXPECT_EQ(engine.snapshot().running + engine.snapshot().waiting, 0u);
}

TEST(PrefixCache, ASharedBeginningIsComputedOnce) {
  Rig s(cached(), 20);
  int64_t cachedTokens = -1;
  for (int i = 0; i < 3; ++i) {
    Outcome o;
    Request r = request(withPrefix(130, 20, i), 10, o);
    r.onStart = [&](int64_t n) { cachedTokens = n; };
    ASSERT_TRUE(bool(s.engine->submit(r)));
    ASSERT_TRUE(bool(s.engine->runAll()));
    EXPECT_EQ(cachedTokens, i ? 128 : 0);
    EXPECT_EQ(o.ids, expectedTokens(withPrefix(130, 20, i), 10)) << "from the cache";
  }
  EXPECT_EQ(s.engine->snapshot().prefixHits, 256u);
  EXPECT_EQ(s.engine->snapshot().promptTokens, uint64_t(150 + 2 * 22));
  expectPagesBack(*s.engine);
}

TEST(PrefixCache, TheLastTokenIsAlwaysComputed) {
  Rig s(cached(), 20);
  for (int i = 0; i < 2; ++i) {
    Outcome o;
    ASSERT_TRUE(bool(s.engine->submit(request(withPrefix(128, 0, 0), 3, o))));
    ASSERT_TRUE(bool(s.engine->runAll()));
    EXPECT_EQ(o.ids, expectedTokens(withPrefix(128, 0, 0), 3));
  }
  EXPECT_EQ(s.engine->snapshot().prefixHits, 64u);
}

TEST(PrefixCache, SaltsKeepRequestsApart) {
  Rig s(cached(), 20);
  for (const char *salt : {"a", "b", "a"}) {
    Outcome o;
    Request r = request(withPrefix(128, 5, 0), 2, o);
    r.cacheSalt = salt;
    ASSERT_TRUE(bool(s.engine->submit(r)));
    ASSERT_TRUE(bool(s.engine->runAll()));
  }
  EXPECT_EQ(s.engine->snapshot().prefixHits, 128u) << "only the second of a";
}

TEST(PrefixCache, PagesThatDecodeWroteAreNotShared) {
  Rig s(cached(), 20);
  Outcome first, second;
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(60, 1), 80, first))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  Ids turn = randomIds(60, 1);
  turn.insert(turn.end(), first.ids.begin(), first.ids.end());
  ASSERT_TRUE(bool(s.engine->submit(request(turn, 2, second))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(s.engine->snapshot().prefixHits, 0u);
  EXPECT_EQ(second.ids, expectedTokens(turn, 2));
}

TEST(Preemption, WhoHasToWaitGetsTheSameTokens) {
  for (bool cache : {false, true}) {
    Engine::Options options;
    options.prefixCache = cache;
    Rig s(options, 6); // four times 1 page of prompt, and three pages in the end
    std::vector<Outcome> outcomes(4);
    for (int i = 0; i < 4; ++i)
      ASSERT_TRUE(bool(s.engine->submit(request(randomIds(50, i), 100, outcomes[size_t(i)]))));
    ASSERT_TRUE(bool(s.engine->runAll()));
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(outcomes[size_t(i)].ids, expectedTokens(randomIds(50, i), 100));
      EXPECT_EQ(outcomes[size_t(i)].reason, FinishReason::Length);
    }
    EXPECT_GT(s.engine->snapshot().preemptions, 0u);
    expectPagesBack(*s.engine);
  }
}

TEST(Preemption, TheFirstInTheOrderNeverWaits) {
  Rig s(0, 4);
  std::vector<Outcome> outcomes(3);
  std::vector<int> order;
  for (int i = 0; i < 3; ++i) {
    Request r = request(randomIds(60, i), 120, outcomes[size_t(i)]);
    r.onFinish = [&order, i](FinishReason) { order.push_back(i); };
    ASSERT_TRUE(bool(s.engine->submit(r)));
  }
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
}

TEST(Policy, PriorityGoesBeforeArrivalButWaitingCounts) {
  double now = 0;
  Engine::Options options;
  options.clock = [&] { return now; };
  options.scheduling.policy = Policy::Priority;
  options.scheduling.maxNumSeqs = 1;
  Rig s(options);
  std::vector<Outcome> outcomes(4);
  std::vector<int> order;
  auto submit = [&](int i, int priority) {
    Request r = request(randomIds(5, i), 2, outcomes[size_t(i)]);
    r.priority = priority;
    r.onFinish = [&order, i](FinishReason) { order.push_back(i); };
    ASSERT_TRUE(bool(s.engine->submit(r)));
  };
  submit(0, 2);
  submit(1, 0);
  now = 5;
  submit(2, 1);
  now = 25;
  submit(3, 0); // by now the first has waited for longer than its priority says
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(order, (std::vector<int>{1, 2, 0, 3}));
}

TEST(Mixed, EveryRowRunsInOneProgram) {
  Engine::Options options = cached();
  options.scheduling.schedule = Schedule::Mixed;
  Rig s(options, 20);
  std::vector<Outcome> outcomes(3);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(bool(s.engine->submit(request(withPrefix(70, 10 * i, i), 70, outcomes[size_t(i)]))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(outcomes[size_t(i)].ids, expectedTokens(withPrefix(70, 10 * i, i), 70));
  std::vector<uint64_t> runs = s.engine->snapshot().runs;
  EXPECT_EQ(runs[2] + runs[3] + runs[4], 0) << "decode programs";
  // The second turn finds the first answer, which the same program wrote.
  Ids turn = withPrefix(70, 0, 0);
  turn.insert(turn.end(), outcomes[0].ids.begin(), outcomes[0].ids.end());
  uint64_t before = s.engine->snapshot().prefixHits;
  Outcome second;
  ASSERT_TRUE(bool(s.engine->submit(request(turn, 3, second))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(s.engine->snapshot().prefixHits - before, 128u);
  EXPECT_EQ(second.ids, expectedTokens(turn, 3));
  expectPagesBack(*s.engine);
}

TEST(Mixed, PreemptionChangesNothing) {
  Engine::Options options;
  options.scheduling.schedule = Schedule::Mixed;
  Rig s(options, 6);
  std::vector<Outcome> outcomes(4);
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(bool(s.engine->submit(request(randomIds(50, i), 100, outcomes[size_t(i)]))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(outcomes[size_t(i)].ids, expectedTokens(randomIds(50, i), 100));
  EXPECT_GT(s.engine->snapshot().preemptions, 0u);
  expectPagesBack(*s.engine);
}

TEST(Mixed, APromptThatIsJudgedGoesOnWhenNoOtherHasPages) {
  // The judged one goes first and holds 3 of 5 pages, one row a step; the other needs its third page before that is done.
  Engine::Options options;
  options.scheduling.schedule = Schedule::Mixed;
  options.scheduling.prefillChunk = 1;
  options.scheduling.policy = Policy::Priority;
  Rig s(options, 5);
  Outcome judged, other;
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(10, 2), 150, other))));
  while (other.ids.empty())
    ASSERT_TRUE(bool(s.engine->step()));
  Request first = request(randomIds(180, 1), 0, judged);
  first.promptLogprobs = 0;
  first.priority = -1;
  ASSERT_TRUE(bool(s.engine->submit(first)));
  Status ran = s.engine->runAll();
  ASSERT_TRUE(bool(ran)) << ran.error().message;
  EXPECT_GT(s.engine->snapshot().preemptions, 0u);
  EXPECT_EQ(other.ids, expectedTokens(randomIds(10, 2), 150));
  expectPagesBack(*s.engine);
}

TEST(Schedule, NoMoreRunThanAStepHasTokensFor) {
  for (Schedule schedule : {Schedule::Split, Schedule::Mixed}) {
    Engine::Options options;
    options.scheduling.schedule = schedule;
    options.scheduling.maxNumBatchedTokens = 2;
    Rig s(options);
    EXPECT_EQ(s.engine->snapshot().maxRunning, 2u) << "a third would wait for a place in every step, unseen";
    std::vector<Outcome> outcomes(3);
    for (int i = 0; i < 3; ++i)
      ASSERT_TRUE(bool(s.engine->submit(request(randomIds(5, i), 9, outcomes[size_t(i)]))));
    ASSERT_TRUE(bool(s.engine->runAll()));
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(outcomes[size_t(i)].ids, expectedTokens(randomIds(5, i), 9));
  }
}

TEST(Schedule, MaxNumBatchedTokensLimitsAStep) {
  Engine::Options options;
  options.scheduling.maxNumBatchedTokens = 16;
  Rig s(options);
  std::vector<Outcome> outcomes(2);
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(bool(s.engine->submit(request(randomIds(24, i), 1, outcomes[size_t(i)]))));
  int steps = 0;
  for (; s.engine->hasWork(); ++steps)
    ASSERT_TRUE(bool(s.engine->step()));
  EXPECT_EQ(steps, 3);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(outcomes[size_t(i)].ids, expectedTokens(randomIds(24, i), 1));
}

TEST(StepCost, RowsThatFitBetweenTwoTokens) {
  StepCost cost;
  EXPECT_EQ(cost.rowsWithin(0.25), kNoLimit);
  cost.prefilled(100, 0.1); // 1 ms a row
  cost.decoded(0.025);
  EXPECT_EQ(cost.rowsWithin(0.25), 96);
  EXPECT_EQ(cost.rowsWithin(0.01), 16) << "prompts always move";
  cost.prefilled(10, 0.03);
  EXPECT_EQ(cost.rowsWithin(0.25), 48) << "rows became dearer";
}

TEST(PromptLogprobs, EveryTokenOfThePrompt) {
  for (int64_t maxTokens : {0, 3}) {
    Rig s(7);
    Ids prompt = randomIds(40, 3);
    Outcome o;
    PromptLogprobs seen;
    Request r = request(prompt, int(maxTokens), o);
    r.promptLogprobs = 2;
    r.onPrompt = [&](const PromptLogprobs &all) {
      EXPECT_TRUE(o.ids.empty()) << "before the first token";
      seen = all;
    };
    ASSERT_TRUE(bool(s.engine->submit(r)));
    ASSERT_TRUE(bool(s.engine->runAll()));
    ASSERT_EQ(seen.size(), 40u);
    EXPECT_FALSE(seen[0]);
    std::vector<uint32_t> hidden = fake::expected(prompt).hidden;
    std::vector<float> logits(fake::kVocab);
    for (size_t i = 1; i < 40; ++i) {
      for (int v = 0; v < fake::kVocab; ++v)
        logits[size_t(v)] = fake::logit(hidden[i - 1], v);
      ASSERT_TRUE(bool(seen[i]));
      EXPECT_EQ(seen[i]->token.id, prompt[i]);
      EXPECT_NEAR(seen[i]->token.logprob, logProbability(logits.data(), fake::kVocab, prompt[i]), 1e-6);
      ASSERT_EQ(seen[i]->top.size(), 2u);
      EXPECT_EQ(seen[i]->top[0].id, greedy(hidden[i - 1]));
    }
    EXPECT_EQ(o.ids, expectedTokens(prompt, int(maxTokens)));
    EXPECT_EQ(o.reason, FinishReason::Length);
    expectPagesBack(*s.engine);
  }
}

TEST(PromptLogprobs, SurvivePreemption) {
  Rig s(0, 6);
  std::vector<Outcome> outcomes(4);
  std::vector<int> prompts(4);
  for (int i = 0; i < 4; ++i) {
    Request r = request(randomIds(50, i), 100, outcomes[size_t(i)]);
    r.promptLogprobs = 0;
    r.onPrompt = [&prompts, i](const PromptLogprobs &all) { prompts[size_t(i)] += int(all.size()); };
    ASSERT_TRUE(bool(s.engine->submit(r)));
  }
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_GT(s.engine->snapshot().preemptions, 0u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(outcomes[size_t(i)].ids, expectedTokens(randomIds(50, i), 100));
    EXPECT_EQ(prompts[size_t(i)], 50) << "told once";
  }
}

} // namespace
