// The engine over a module whose logits depend on every id, position and cache slot
// (FakeModel.h), compared with the same arithmetic done without a cache.
#include "runtime/engine/Engine.h"

#include "Rig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;
using testing::HasSubstr;

namespace {

/// Runs all prompts together.
std::vector<Outcome> runTogether(Engine &engine, const std::vector<Ids> &prompts, int maxTokens) {
  std::vector<Outcome> outcomes(prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i)
    EXPECT_TRUE(bool(engine.submit(request(prompts[i], maxTokens, outcomes[i]))));
  Status s = engine.runAll();
  EXPECT_TRUE(bool(s)) << s.error().message;
  return outcomes;
}

const int kLengths[] = {1, 63, 64, 65, 200, 17, 300};

std::vector<Ids> prompts() {
  std::vector<Ids> out;
  for (int n : kLengths)
    out.push_back(randomIds(n, n));
  return out;
}

TEST(Engine, GeneratesWhatTheModelSays) {
  Rig s;
  Outcome one;
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(100, 1), 40, one))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(one.ids, expectedTokens(randomIds(100, 1), 40));
  EXPECT_EQ(one.reason, FinishReason::Length);
  EXPECT_LT(one.logprobs[0], 0);
}

TEST(Engine, OrderChunksAndThreadsChangeNothing) {
  std::vector<Ids> all = prompts(), want;
  for (const Ids &p : all)
    want.push_back(expectedTokens(p, 10));
  for (int round = 0; round < 6; ++round) {
    const int64_t chunks[] = {0, 1, 7, 16, 33, 48};
    Rig s(chunks[round], 0, 1 + round % 3);
    std::vector<size_t> order(all.size());
    for (size_t i = 0; i < order.size(); ++i)
      order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(round));
    std::vector<Ids> shuffled;
    for (size_t i : order)
      shuffled.push_back(all[i]);
    std::vector<Outcome> got = runTogether(*s.engine, shuffled, 10);
    for (size_t i = 0; i < order.size(); ++i)
      EXPECT_EQ(got[i].ids, want[order[i]]) << "length " << kLengths[order[i]] << ", chunk " << chunks[round];
    EXPECT_EQ(s.engine->snapshot().freePages, s.engine->snapshot().totalPages);
  }
}

TEST(Engine, PicksTheSmallestProgramsThatFit) {
  auto runsFor = [](const std::vector<Ids> &prompts) {
    Rig s;
    runTogether(*s.engine, prompts, 5);
    return s.engine->snapshot().runs;
  };
  Ids small = randomIds(5, 1), large = randomIds(30, 2);
  //                                        prefill 8, 48; decode 1, 2, 4; score, mtp
  EXPECT_EQ(runsFor({small}), (std::vector<uint64_t>{1, 0, 4, 0, 0, 0, 0}));
  EXPECT_EQ(runsFor({large}), (std::vector<uint64_t>{0, 1, 4, 0, 0, 0, 0}));
  EXPECT_EQ(runsFor({small, small}), (std::vector<uint64_t>{0, 1, 0, 4, 0, 0, 0}));
  EXPECT_EQ(runsFor({small, small, small}), (std::vector<uint64_t>{0, 1, 0, 0, 4, 0, 0}));
}

TEST(Engine, PromptsAndRunningSequencesTakeTurns) {
  Rig s(16);
  Outcome early, late;
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(5, 1), 30, early))));
  ASSERT_TRUE(bool(s.engine->step()));
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(160, 2), 2, late))));
  size_t before = early.ids.size();
  for (int i = 0; i < 10; ++i)
    ASSERT_TRUE(bool(s.engine->step()));
  EXPECT_EQ(early.ids.size(), before + 5) << "every other step goes on with the running one";
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(early.ids, expectedTokens(randomIds(5, 1), 30));
  EXPECT_EQ(late.ids, expectedTokens(randomIds(160, 2), 2));
}

TEST(Engine, WaitsForPages) {
  // 5 pages: each request of 70 + 59 - 1 = 128 tokens takes two.
  Rig s(0, 5);
  std::vector<Ids> three = {randomIds(70, 1), randomIds(70, 2), randomIds(70, 3)};
  std::vector<Outcome> outcomes(3);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(bool(s.engine->submit(request(three[i], 59, outcomes[i]))));
  ASSERT_TRUE(bool(s.engine->step()));
  EXPECT_EQ(s.engine->snapshot().running, 2u);
  EXPECT_EQ(s.engine->snapshot().waiting, 1u);
  EXPECT_EQ(s.engine->snapshot().freePages, 1);
  ASSERT_TRUE(bool(s.engine->runAll()));
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(outcomes[i].ids, expectedTokens(three[i], 59)) << "with reused pages";
  EXPECT_EQ(s.engine->snapshot().freePages, 5);
}

TEST(Engine, RefusesWhatCanNeverRun) {
  Rig s(0, 2);
  auto refused = [&](const Ids &prompt, ExitCode code, const char *message) {
    Outcome o;
    auto r = s.engine->submit(request(prompt, 10, o));
    ASSERT_FALSE(bool(r));
    EXPECT_EQ(r.error().code, code);
    EXPECT_THAT(r.error().message, HasSubstr(message));
  };
  refused({}, ExitCode::Usage, "the prompt is empty");
  refused({1, -1}, ExitCode::Usage, "token 1: expected an id from 0 to 3583, got -1");
  refused({fake::kVocab}, ExitCode::Usage, "got 3584");
  refused(Ids(321, 5), ExitCode::Usage,
          "expected at most 320 tokens (max_model_len of the artifact), got 321");
  refused(Ids(150, 5), ExitCode::DoesNotFit, "expected at most 2 kv pages, got 3");
  EXPECT_FALSE(s.engine->hasWork());
}

TEST(Engine, ThePlanLimitsTheLength) {
  Rig s;
  Outcome full, nearly;
  ASSERT_TRUE(bool(s.engine->submit(request(Ids(320, 5), 50, full))));
  ASSERT_TRUE(bool(s.engine->submit(request(Ids(318, 5), 50, nearly))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(full.ids, expectedTokens(Ids(320, 5), 1));
  EXPECT_EQ(nearly.ids, expectedTokens(Ids(318, 5), 3));
  EXPECT_EQ(nearly.reason, FinishReason::Length);
}

TEST(Engine, StopsAtEndIdsAndWhenAsked) {
  Rig s;
  Ids prompt = randomIds(9, 4), want = expectedTokens(prompt, 8);
  Outcome ended, asked;
  Request r = request(prompt, 100, ended);
  r.endIds = {want[3], 77777};
  ASSERT_TRUE(bool(s.engine->submit(std::move(r))));
  r = request(prompt, 100, asked);
  r.onToken = [&](const SampledToken &t) {
    asked.ids.push_back(t.id);
    return asked.ids.size() < 2;
  };
  ASSERT_TRUE(bool(s.engine->submit(std::move(r))));
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(ended.ids, Ids(want.begin(), want.begin() + 4)) << "the end id is reported";
  EXPECT_EQ(asked.ids, Ids(want.begin(), want.begin() + 2));
  EXPECT_EQ(ended.reason, FinishReason::Stop);
  EXPECT_EQ(asked.reason, FinishReason::Stop);
}

TEST(Engine, CancelFreesPagesAndSparesTheOthers) {
  Rig s;
  Outcome cancelled, kept;
  auto id = s.engine->submit(request(randomIds(80, 1), 100, cancelled));
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(30, 2), 12, kept))));
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(bool(s.engine->step()));
  EXPECT_TRUE(s.engine->cancel(*id));
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(cancelled.reason, FinishReason::Cancelled);
  EXPECT_LT(cancelled.ids.size(), 100u);
  EXPECT_EQ(kept.ids, expectedTokens(randomIds(30, 2), 12));
  EXPECT_FALSE(s.engine->cancel(*id));
  EXPECT_EQ(s.engine->snapshot().freePages, s.engine->snapshot().totalPages);
}

TEST(Engine, SamplingIsTheSameAloneAndAmongOthers) {
  auto sampled = [](int others, uint64_t stream) {
    Rig s;
    std::vector<Outcome> rest(others);
    Outcome mine;
    for (int i = 0; i < others; ++i)
      EXPECT_TRUE(bool(s.engine->submit(request(randomIds(20 + i, i), 9, rest[i]))));
    Request r = request(randomIds(33, 5), 12, mine);
    r.sampling.temperature = 1.5;
    r.sampling.seed = 42;
    r.sampling.stream = stream;
    EXPECT_TRUE(bool(s.engine->submit(std::move(r))));
    EXPECT_TRUE(bool(s.engine->runAll()));
    return mine.ids;
  };
  EXPECT_EQ(sampled(0, 0), sampled(5, 0));
  EXPECT_NE(sampled(0, 0), sampled(0, 1));
}

TEST(Engine, ALogitThatIsNotFiniteEndsItsRequestAlone) {
  Engine::Options options;
  options.prefixCache = true;
  Rig s(options, 40, 2, "dsv3_fake_nan_some");
  std::vector<Outcome> outcomes(24);
  std::vector<Ids> want;
  size_t failing = 0;
  for (int i = 0; i < 24; ++i) {
    ASSERT_TRUE(bool(s.engine->submit(request(randomIds(70 + i, i), 12, outcomes[size_t(i)]))));
    want.push_back(tokensBeforeOverflow(randomIds(70 + i, i), 12));
    failing += want.back().size() < 12;
  }
  ASSERT_TRUE(failing > 2 && failing < 22) << failing;
  ASSERT_TRUE(bool(s.engine->runAll()));
  for (size_t i = 0; i < 24; ++i) {
    EXPECT_EQ(outcomes[i].ids, want[i]) << i;
    EXPECT_EQ(outcomes[i].reason, want[i].size() < 12 ? FinishReason::Error : FinishReason::Length);
    ASSERT_EQ(outcomes[i].error.has_value(), want[i].size() < 12);
    if (!outcomes[i].error)
      continue;
    EXPECT_EQ(outcomes[i].error->code, ExitCode::BadCheckpoint);
    EXPECT_EQ(outcomes[i].error->message, "request " + std::to_string(i) + ": logit 5 at position " +
                                              std::to_string(69 + i + want[i].size()) + " is not finite: the weights overflow");
  }
  EngineSnapshot now = s.engine->snapshot();
  EXPECT_EQ(now.nonFinite, failing);
  EXPECT_EQ(now.freePages, now.totalPages);
  // The page of a prompt is found again, but not that of a request that failed.
  for (size_t i = 0; i < 24; ++i) {
    int64_t cached = -1;
    Request again = request(randomIds(70 + int(i), int(i)), 1, outcomes[i]);
    again.onStart = [&](int64_t tokens) { cached = tokens; };
    ASSERT_TRUE(bool(s.engine->submit(again)));
    ASSERT_TRUE(bool(s.engine->runAll()));
    EXPECT_EQ(cached, want[i].size() < 12 ? 0 : 64) << i;
  }
}

TEST(Engine, AJudgedPromptThatOverflowsEndsItsRequestAlone) {
  Rig s(16, 0, 2, "dsv3_fake_nan_some");
  std::vector<Outcome> outcomes(8);
  std::vector<bool> told(8), failing(8);
  for (int i = 0; i < 8; ++i) {
    Request r = request(randomIds(30, i), 0, outcomes[size_t(i)]);
    r.promptLogprobs = 0;
    r.onPrompt = [&told, i](PromptLogprobs) { told[size_t(i)] = true; };
    ASSERT_TRUE(bool(s.engine->submit(r)));
    for (uint32_t hidden : fake::expected(randomIds(30, i)).hidden)
      failing[size_t(i)] = failing[size_t(i)] || fake::notFinite(hidden);
  }
  ASSERT_TRUE(bool(s.engine->runAll()));
  size_t count = size_t(std::count(failing.begin(), failing.end(), true));
  ASSERT_TRUE(count > 0 && count < 8) << count;
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(outcomes[i].reason, failing[i] ? FinishReason::Error : FinishReason::Length);
    EXPECT_EQ(told[i], !failing[i]);
  }
  EXPECT_EQ(s.engine->snapshot().freePages, s.engine->snapshot().totalPages);
}

TEST(Score, RowsThatAreNotFiniteAreAnError) {
  Rig s(0, 0, 2, "dsv3_fake_nan");
  ScoreSink sink;
  sink.mtpLogits = [](size_t, int64_t, int64_t, const float *) -> Status {
    ADD_FAILURE() << "handed out a row that is not finite";
    return {};
  };
  Status scored = s.engine->score({{1}, {1, 2}}, sink);
  EXPECT_EQ(scored.error().code, ExitCode::BadCheckpoint);
  EXPECT_EQ(scored.error().message, "request 1: mtp logit 0 at position 0 is "
                                    "not finite: the weights overflow");
}

/// Checks each row as it comes: in order, once, and right.
struct ScoreCheck {
  std::vector<Ids> prompts;
  std::vector<fake::Expected> expected;
  std::vector<int64_t> rows, mtpRows;
  std::vector<Ids> taps, mtpTaps;
  int wrong = 0;
  ScoreSink sink;

  explicit ScoreCheck(std::vector<Ids> p)
      : prompts(std::move(p)), rows(prompts.size()), mtpRows(prompts.size()), taps(prompts.size()),
        mtpTaps(prompts.size()) {
    for (const Ids &ids : prompts)
      expected.push_back(fake::expected(ids));
    sink.logits = [this](size_t i, int64_t row, int64_t n, const float *l) {
      return check(expected[i].hidden, rows[i], row, n, l);
    };
    sink.mtpLogits = [this](size_t i, int64_t row, int64_t n, const float *l) {
      return check(expected[i].mtpHidden, mtpRows[i], row, n, l);
    };
    sink.taps = [this](size_t i, uint32_t tap, int64_t n, const void *data) {
      auto values = static_cast<const int32_t *>(data);
      Ids &to = tap ? mtpTaps[i] : taps[i];
      to.insert(to.end(), values, values + n * (tap ? 1 : 2));
      return Status();
    };
  }

  Status check(const std::vector<uint32_t> &hidden, int64_t &next, int64_t row, int64_t n,
               const float *logits) {
    wrong += row != next;
    for (int64_t r = 0; r < n; ++r)
      for (int v = 0; v < fake::kVocab; v += 97)
        wrong += logits[r * fake::kVocab + v] != fake::logit(hidden.at(row + r), v);
    next = row + n;
    return {};
  }
};

TEST(Score, EveryRowOfEveryPromptInAnyChunking) {
  for (int64_t chunk : {0, 1, 13, 16, 48}) {
    Rig s(chunk);
    ScoreCheck check(prompts());
    Status status = s.engine->score(check.prompts, check.sink);
    ASSERT_TRUE(bool(status)) << status.error().message;
    EXPECT_EQ(check.wrong, 0) << "chunk " << chunk;
    for (size_t i = 0; i < check.prompts.size(); ++i) {
      int64_t n = int64_t(check.prompts[i].size());
      EXPECT_EQ(check.rows[i], n);
      EXPECT_EQ(check.mtpRows[i], n - 1);
      Ids want;
      for (int64_t t = 0; t < n; ++t) {
        want.push_back(check.prompts[i][t]);
        want.push_back(int32_t(t));
      }
      EXPECT_EQ(check.taps[i], want);
      EXPECT_EQ(int64_t(check.mtpTaps[i].size()), n - 1);
    }
    EXPECT_EQ(s.engine->snapshot().freePages, s.engine->snapshot().totalPages);
  }
}

TEST(Score, PacksPromptsIntoSteps) {
  Rig s;
  ScoreCheck check({randomIds(10, 1), randomIds(10, 2), randomIds(10, 3)});
  ASSERT_TRUE(bool(s.engine->score(check.prompts, check.sink)));
  EXPECT_EQ(s.engine->snapshot().runs[5], 1u);
  EXPECT_EQ(s.engine->snapshot().runs[6], 1u);
  check.sink.mtpLogits = nullptr;
  check.sink.taps = nullptr;
  check.rows.assign(3, 0);
  ASSERT_TRUE(bool(s.engine->score(check.prompts, check.sink)));
  EXPECT_EQ(s.engine->snapshot().runs[6], 1u) << "nobody asked for the MTP module";
}

TEST(Score, LeavesRunningRequestsAlone) {
  Rig s;
  Outcome o;
  ASSERT_TRUE(bool(s.engine->submit(request(randomIds(70, 8), 20, o))));
  for (int i = 0; i < 8; ++i)
    ASSERT_TRUE(bool(s.engine->step()));
  ScoreCheck check({randomIds(100, 1)});
  ASSERT_TRUE(bool(s.engine->score(check.prompts, check.sink)));
  EXPECT_EQ(check.wrong, 0);
  ASSERT_TRUE(bool(s.engine->runAll()));
  EXPECT_EQ(o.ids, expectedTokens(randomIds(70, 8), 20));
}

TEST(Score, AnErrorOfTheSinkEndsIt) {
  Rig s;
  ScoreSink sink;
  sink.logits = [](size_t, int64_t, int64_t, const float *) -> Status { return usageError("disk full"); };
  EXPECT_EQ(s.engine->score({randomIds(100, 1)}, sink).error().message, "disk full");
  EXPECT_EQ(s.engine->snapshot().freePages, s.engine->snapshot().totalPages);
  EXPECT_THAT(s.engine->score({{}}, sink).error().message, HasSubstr("empty"));
}

} // namespace
