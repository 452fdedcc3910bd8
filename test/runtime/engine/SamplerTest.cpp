#include "runtime/engine/Sampler.h"

#include "runtime/core/Philox.h"
#include "runtime/reference/Sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <numeric>
#include <algorithm>

using namespace dsv3;

namespace {

std::vector<float> randomLogits(int count, int seed, float spread = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> out(count);
  for (float &x : out)
    x = normal(random);
  return out;
}

SamplingParams withTemperature(double t) {
  SamplingParams p;
  p.temperature = t;
  return p;
}

/// How often each id comes in `n` draws at positions 1..n.
std::map<int, int> draws(const std::vector<float> &logits, const SamplingParams &params, int n) {
  Sampler sampler(logits.size());
  std::map<int, int> seen;
  std::vector<int32_t> history;
  for (int i = 0; i < n; ++i) {
    history.push_back(0);
    ++seen[sampler.sample(logits.data(), params, history)->id];
  }
  return seen;
}

// Known answers of the Random123 distribution, file kat_vectors.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t f = 0xffffffff;
  EXPECT_EQ(philox4x32({f, f, f, f}, {f, f}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DependsOnEachPartOfTheKey) {
  double u = philoxUniform(1, 2, 3);
  EXPECT_NE(u, philoxUniform(9, 2, 3));
  EXPECT_NE(u, philoxUniform(1, 9, 3));
  EXPECT_NE(u, philoxUniform(1, 2, 9));
  EXPECT_NE(u, philoxUniform(1 + (uint64_t(1) << 40), 2, 3));
  EXPECT_EQ(u, reference::sampleUniform(1, 2, 3));
}

TEST(Sampler, GreedyTakesTheLowerOfEquals) {
  std::vector<float> logits = {1, 5, 5, -2};
  Sampler sampler(4);
  auto token = sampler.sample(logits.data(), {}, {0});
  EXPECT_EQ(token->id, 1);
  double sum = std::exp(-4.0) + 1 + 1 + std::exp(-7.0);
  EXPECT_NEAR(token->logprob, -std::log(sum), 3e-7);
}

TEST(Sampler, FrequenciesFollowTheDistribution) {
  std::vector<float> logits = {0, 1, 2, -1};
  const int n = 40000;
  auto seen = draws(logits, withTemperature(0.7), n);
  double total = 0;
  for (float x : logits)
    total += std::exp(x / 0.7);
  for (int i = 0; i < 4; ++i) {
    double p = std::exp(logits[i] / 0.7) / total;
    EXPECT_NEAR(seen[i], n * p, 4.5 * std::sqrt(n * p * (1 - p))) << "id " << i;
  }
}

/// Forbids what is in a set, and remembers what it was told.
struct Forbid : TokenConstraint {
  explicit Forbid(std::vector<int32_t> ids) : ids(std::move(ids)) {}
  void mask(float *logits, int64_t vocab) override {
    for (int32_t id : ids)
      if (id < vocab)
        logits[id] = -std::numeric_limits<float>::infinity();
  }
  void accept(int32_t id) override { accepted.push_back(id); }
  std::vector<int32_t> ids, accepted;
};

/// Every parameter alone and together, against the independent reference.
TEST(Sampler, AgreesWithTheReference) {
  Sampler sampler(50);
  std::mt19937 random(5);
  std::uniform_real_distribution<double> unit(0, 1);
  int differentFromGreedy = 0;
  for (int round = 0; round < 1200; ++round) {
    std::vector<float> logits = randomLogits(50, round);
    SamplingParams p = withTemperature(round % 5 ? 0.3 + 2 * unit(random) : 0);
    p.topK = round & 1 ? random() % 20 : 0;
    p.topP = round & 2 ? 0.05 + 0.9 * unit(random) : 1;
    p.minP = round & 4 ? 0.3 * unit(random) : 0;
    p.repetitionPenalty = round & 8 ? 1.7 : 1;
    p.presencePenalty = round & 16 ? 4 * unit(random) - 2 : 0;
    p.frequencyPenalty = round & 32 ? 4 * unit(random) - 2 : 0;
    for (int i = 0; round & 64 && i < 5; ++i)
      p.logitBias.push_back({random() % 50, 6 * unit(random) - 3});
    p.seed = random();
    p.stream = round;
    std::vector<int32_t> history(1 + random() % 30);
    for (int32_t &id : history)
      id = random() % 50;
    int64_t prompt = 1 + random() % history.size();
    std::vector<int32_t> forbidden;
    for (int i = 0; round & 128 && i < 20; ++i)
      forbidden.push_back(random() % 50);
    Forbid constraint(forbidden);
    reference::Array<double> wide({50});
    std::copy(logits.begin(), logits.end(), wide.data.begin());
    for (int32_t id : forbidden)
      wide.data[id] = -std::numeric_limits<double>::infinity();
    reference::SamplingParams same{p.temperature,     p.topK, p.topP, p.minP, p.repetitionPenalty, p.presencePenalty,
                                   p.frequencyPenalty, {p.logitBias.begin(), p.logitBias.end()}};
    auto want = reference::sample(wide, same, p.seed, p.stream, history.size(), history,
                                  {history.begin() + prompt, history.end()});
    ASSERT_TRUE(bool(want));
    auto got = sampler.sample(logits.data(), p, history, {prompt, -1, round & 128 ? &constraint : nullptr});
    ASSERT_TRUE(bool(got));
    EXPECT_EQ(got->id, *want) << "round " << round;
    EXPECT_NEAR(got->logprob, logProbability(logits.data(), 50, got->id), 1e-6) << "the model's, not the penalised";
    if (round & 128) {
      EXPECT_EQ(constraint.accepted, std::vector<int32_t>{got->id});
    }
    differentFromGreedy += *want != argmax(logits.data(), 50);
  }
  EXPECT_GT(differentFromGreedy, 300);
}

TEST(Sampler, PresenceCountsOnceAndFrequencyEachTimeOfTheOutput) {
  std::vector<float> logits = {2, 1, 0};
  Sampler sampler(3);
  SamplingParams p;
  p.presencePenalty = 0.9;
  EXPECT_EQ(sampler.sample(logits.data(), p, {0, 0, 0}, {1})->id, 0) << "2 - 0.9 > 1";
  p.presencePenalty = 1.1;
  EXPECT_EQ(sampler.sample(logits.data(), p, {0, 0, 0}, {1})->id, 1);
  EXPECT_EQ(sampler.sample(logits.data(), p, {0, 0, 0}, {3})->id, 0) << "the prompt does not count";
  p.presencePenalty = 0;
  p.frequencyPenalty = 0.9;
  EXPECT_EQ(sampler.sample(logits.data(), p, {0, 0}, {1})->id, 0);
  EXPECT_EQ(sampler.sample(logits.data(), p, {0, 0, 0}, {1})->id, 1) << "2 - 2 * 0.9 < 1";
  EXPECT_EQ(sampler.sample(logits.data(), p, {0, 0}, {1})->id, 0) << "counts of one call do not reach the next";
}

TEST(Sampler, BiasForcesAndForbids) {
  std::vector<float> logits = {2, 1, 0};
  Sampler sampler(3);
  SamplingParams p;
  p.logitBias = {{2, 100}};
  EXPECT_EQ(sampler.sample(logits.data(), p, {0})->id, 2);
  p.logitBias = {{0, -100}, {1, -0.5f}, {1, -0.6f}};
  EXPECT_EQ(sampler.sample(logits.data(), p, {0})->id, 2) << "both biases of 1 count";
  p.logitBias = {{3, 1}};
  auto bad = sampler.sample(logits.data(), p, {0});
  ASSERT_FALSE(bool(bad));
  EXPECT_EQ(bad.error().message, "logit-bias: expected a token id from 0 to 2, got 3");
}

TEST(Sampler, ListsTheMostProbableOfTheModel) {
  std::vector<float> logits = {1, 3, 3, -2, 2};
  Sampler sampler(5);
  SamplingParams p;
  p.logitBias = {{3, 100}};
  auto token = sampler.sample(logits.data(), p, {0}, {1, 4});
  EXPECT_EQ(token->id, 3);
  std::vector<int32_t> ids;
  for (const TokenLogprob &t : token->top) {
    ids.push_back(t.id);
    EXPECT_NEAR(t.logprob, logProbability(logits.data(), 5, t.id), 1e-6);
  }
  EXPECT_EQ(ids, (std::vector<int32_t>{1, 2, 4, 0})) << "ties by the lower id, without the bias";
  EXPECT_EQ(sampler.sample(logits.data(), {}, {0}, {1, 99})->top.size(), 5u) << "no more than there are";
  EXPECT_TRUE(sampler.sample(logits.data(), {}, {0}, {1, 0})->top.empty());
  EXPECT_EQ(topLogprobs(logits.data(), 5, 2)[1].id, 2);
}

TEST(Sampler, TopKCountsAllowedTokensOnly) {
  std::vector<float> logits = {9, 8, 7, 1, 1};
  Forbid constraint({0, 1, 2});
  SamplingParams p = withTemperature(1);
  p.topK = 4;
  Sampler sampler(5);
  std::map<int, int> seen;
  for (int i = 0; i < 200; ++i)
    ++seen[sampler.sample(logits.data(), p, std::vector<int32_t>(i + 1), {1, -1, &constraint})->id];
  EXPECT_TRUE(seen[3] && seen[4] && seen.size() == 2);
}

TEST(Sampler, TheDeviceChoosesOnlyWhatItCan) {
  SamplingParams p;
  EXPECT_TRUE(canChooseOnDevice(p));
  EXPECT_TRUE(canChooseOnDevice(p, {5, 0, nullptr})) << "the chosen token's probability comes from the device too";
  EXPECT_FALSE(canChooseOnDevice(p, {5, 1, nullptr}));
  Forbid constraint({});
  EXPECT_FALSE(canChooseOnDevice(p, {5, -1, &constraint}));
  p.presencePenalty = 0.1;
  EXPECT_FALSE(canChooseOnDevice(p));
  p = {};
  p.frequencyPenalty = -1;
  EXPECT_FALSE(canChooseOnDevice(p));
  p = {};
  p.repetitionPenalty = 1.1;
  EXPECT_FALSE(canChooseOnDevice(p));
  p = {};
  p.logitBias = {{0, 0}};
  EXPECT_FALSE(canChooseOnDevice(p));
}

TEST(Sampler, FiltersKeepWhatTheySay) {
  std::vector<float> logits = {0, 3, 2, 1};
  SamplingParams p = withTemperature(1);
  p.topK = 2;
  auto seen = draws(logits, p, 500);
  EXPECT_TRUE(seen[1] && seen[2] && !seen[0] && !seen[3]);
  p = withTemperature(1);
  p.topP = 0.7; // probabilities .644 .237 .087 .032: the second crosses 0.7
  seen = draws(logits, p, 500);
  EXPECT_TRUE(seen[1] && seen[2] && !seen[0] && !seen[3]);
  p = withTemperature(1);
  p.minP = 0.3; // ratios to the best: 1 .368 .135 .05
  seen = draws(logits, p, 500);
  EXPECT_TRUE(seen[1] && seen[2] && !seen[0] && !seen[3]);
}

TEST(Sampler, RepetitionPenaltyCountsAnIdOnce) {
  std::vector<float> logits = {-1, 4, 3};
  SamplingParams p;
  p.repetitionPenalty = 1.5;
  Sampler sampler(3);
  EXPECT_EQ(sampler.sample(logits.data(), p, {1, 1, 1, 1})->id, 2) << "4 / 1.5 < 3";
  p.repetitionPenalty = 1.3;
  EXPECT_EQ(sampler.sample(logits.data(), p, {1, 1, 1, 1})->id, 1)
      << "4 / 1.3 > 3, however often it was seen";
  EXPECT_EQ(sampler.sample(logits.data(), p, {1})->logprob, sampler.sample(logits.data(), {}, {1})->logprob)
      << "log probabilities are those of the model";
}

TEST(Sampler, ExtremesAreSafe) {
  std::vector<float> logits = {-3e38f, 3e38f, 0};
  Sampler sampler(3);
  EXPECT_EQ(sampler.sample(logits.data(), withTemperature(1e-300), {0})->id, 1);
  logits[2] = std::numeric_limits<float>::quiet_NaN();
  auto bad = sampler.sample(logits.data(), {}, {0});
  ASSERT_FALSE(bool(bad));
  EXPECT_EQ(bad.error().message, "logit 2 at position 0 is not finite: the weights overflow");
  EXPECT_EQ(bad.error().code, ExitCode::BadCheckpoint);
}

TEST(Sampler, RefusesParametersOutOfRange) {
  auto refused = [](auto change) {
    SamplingParams p;
    change(p);
    return !p.validate();
  };
  EXPECT_TRUE(bool(SamplingParams().validate()));
  EXPECT_TRUE(refused([](auto &p) { p.temperature = -1; }));
  EXPECT_TRUE(refused([](auto &p) { p.temperature = NAN; }));
  EXPECT_TRUE(refused([](auto &p) { p.topK = -3; }));
  EXPECT_TRUE(refused([](auto &p) { p.topP = 0; }));
  EXPECT_TRUE(refused([](auto &p) { p.topP = 1.5; }));
  EXPECT_TRUE(refused([](auto &p) { p.minP = 2; }));
  EXPECT_TRUE(refused([](auto &p) { p.repetitionPenalty = 0; }));
  EXPECT_TRUE(refused([](auto &p) { p.frequencyPenalty = NAN; }));
  EXPECT_TRUE(refused([](auto &p) { p.logitBias = {{1, 101}}; }));
  EXPECT_TRUE(refused([](auto &p) { p.logitBias = {{-1, 1}}; }));
  SamplingParams p;
  p.presencePenalty = 3;
  EXPECT_EQ(p.validate().error().message, "presence-penalty: expected a number from -2 to 2, got 3");
  p = {};
  p.logitBias = {{7, 1}};
  EXPECT_TRUE(bool(p.validate(8)));
  EXPECT_FALSE(bool(p.validate(7)));
}

TEST(Sampler, ForbiddenIdsAreNotChosenWhileThereAreOthers) {
  Sampler sampler(4);
  const std::vector<float> logits = {1, 5, 4, 3};
  SamplingParams greedy;
  const std::vector<int32_t> one = {1, 1, 77}, most = {1, 2, 0}, all = {0, 1, 2, 3};
  auto choose = [&](const std::vector<int32_t> *forbidden) { return *sampler.sample(logits.data(), greedy, {0}, {1, -1, nullptr, forbidden}); };
  EXPECT_EQ(choose(nullptr).id, 1);
  EXPECT_EQ(choose(&one).id, 2);
  EXPECT_EQ(choose(&most).id, 3);
  EXPECT_EQ(choose(&all).id, 1) << "some token has to come";
  EXPECT_NEAR(choose(&one).logprob, logProbability(logits.data(), 4, 2), 1e-6) << "of the model's own logits";
  EXPECT_FALSE(canChooseOnDevice(greedy, {1, -1, nullptr, &one}));
  const std::vector<int32_t> none;
  EXPECT_TRUE(canChooseOnDevice(greedy, {1, -1, nullptr, &none}));
}

/// The definition in runtime/core/TokenChoice.h, word for word: sorted lists, no buckets.
int32_t chooseByDefinition(const std::vector<float> &logits, const dsv3_sampling &how) {
  struct Token {
    float below;
    int32_t id;
    uint64_t weight;
  };
  const float top = *std::max_element(logits.begin(), logits.end()) + 0.0f;
  std::vector<Token> kept;
  for (size_t i = 0; i < logits.size(); ++i)
    if (uint64_t weight = tokenWeight(top - logits[i], how.scale); weight >= how.min_weight && std::isfinite(logits[i]))
      kept.push_back({top - logits[i], int32_t(i), weight});
  std::stable_sort(kept.begin(), kept.end(), [](auto &a, auto &b) { return a.below < b.below; });
  if (how.top_k && how.top_k < kept.size()) {
    const float last = kept[how.top_k - 1].below;
    kept.erase(std::find_if(kept.begin(), kept.end(), [&](auto &t) { return t.below > last; }), kept.end());
  }
  auto sum = [&] { return std::accumulate(kept.begin(), kept.end(), uint64_t(0), [](uint64_t s, auto &t) { return s + t.weight; }); };
  if (how.top_p) {
    const auto limit = uint64_t(((unsigned __int128)how.top_p * sum() + ~uint64_t(0)) >> 64); // rounded up
    uint64_t before = 0;
    size_t n = 0;
    while (n < kept.size() && before < limit)
      before += kept[n++].weight;
    kept.resize(n);
  }
  std::sort(kept.begin(), kept.end(), [](auto &a, auto &b) { return a.id < b.id; });
  const auto target = uint64_t((unsigned __int128)how.random * sum() >> 64);
  uint64_t passed = 0;
  for (const Token &t : kept)
    if ((passed += t.weight) > target)
      return t.id;
  return -1;
}

TEST(TokenChoice, IsItsDefinitionWhateverTheRow) {
  std::mt19937_64 random(12);
  TokenChooser chooser;
  std::normal_distribution<float> normal(0, 4);
  for (int round = 0; round < 4000; ++round) {
    std::vector<float> logits(size_t(1 + random() % 3000));
    const auto kind = random() % 4;
    for (float &x : logits) {
      x = kind == 0 ? normal(random) : kind == 1 ? float(random() % 5) : kind == 2 ? 0 : normal(random) * 20;
      if (random() % 50 == 0)
        x = -0.0f;
      else if (kind == 3 && random() % 3 == 0)
        x = -INFINITY;
    }
    logits[random() % logits.size()] = 3;
    const double temperatures[] = {1, 0.1, 1e-30, 40, 1e5}, shares[] = {1, 0.9, 0.5, 1e-12, 0.999999999};
    dsv3_sampling how = samplingOf(temperatures[random() % 5], random() % 3 ? 0 : int64_t(random() % 40), shares[random() % 5],
                                   random() % 3 ? 0 : 0.05, random() >> 11);
    ASSERT_EQ(chooser.pick(logits.data(), int64_t(logits.size()), how), chooseByDefinition(logits, how)) << "round " << round;
    auto most = std::max_element(logits.begin(), logits.end());
    ASSERT_EQ(firstGreatest(logits.data(), int64_t(logits.size())), most - logits.begin());
    if (kind == 3)
      continue;
    ASSERT_EQ(firstNotFinite(logits.data(), int64_t(logits.size())), 0);
    const size_t bad = random() % logits.size();
    logits[bad] = random() % 2 ? NAN : INFINITY;
    ASSERT_EQ(firstNotFinite(logits.data(), int64_t(logits.size())), int32_t(bad) + 1);
  }
}

} // namespace
