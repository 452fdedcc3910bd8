#include "runtime/reference/Sampling.h"
#include "Util.h"

#include <cmath>

using namespace dsv3;
using namespace dsv3::reference;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Philox, PublishedVectors) { // Random123, kat_vectors, "philox4x32 10"
  EXPECT_THAT(philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  uint32_t f = 0xffffffff;
  EXPECT_THAT(philox4x32({f, f, f, f}, {f, f}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(Philox, UniformIsAFunctionOfSeedRequestPosition) {
  // The first two words of the zero vector.
  EXPECT_EQ(sampleUniform(0, 0, 0), double((uint64_t{0x6627e8d5} << 21) | (0xe169c58d >> 11)) / 0x1p53);
  EXPECT_NE(sampleUniform(1, 0, 0), sampleUniform(0, 0, 0));
  EXPECT_NE(sampleUniform(0, 1, 0), sampleUniform(0, 0, 1));
  EXPECT_NE(sampleUniform(uint64_t{1} << 32, 0, 0), sampleUniform(1, 0, 0));
  double mean = 0;
  for (int i = 0; i < 4096; ++i)
    mean += sampleUniform(7, 3, i) / 4096;
  EXPECT_NEAR(mean, 0.5, 0.02);
}

TEST(Sampling, GreedyTiesGoToTheLowerId) {
  EXPECT_EQ(ok(greedy(Array<float>({4}, {1, 3, 3, 2}))), 1);
  EXPECT_THAT(errorOf(greedy(Array<float>({2}, {1, NAN}))), HasSubstr("nan at id 1"));
  EXPECT_THAT(errorOf(greedy(Array<float>())), HasSubstr("shape [?]"));
}

TEST(Sampling, LogSoftmax) {
  auto y = ok(logSoftmax(Array<double>({1, 2}, {1000, 1000 + std::log(3)})));
  EXPECT_NEAR(y.data[0], std::log(0.25), 1e-12);
  EXPECT_NEAR(y.data[1], std::log(0.75), 1e-12);
}

static std::vector<double> dist(std::vector<double> probs, SamplingParams p,
                                std::vector<int32_t> seen = {}) {
  Array<double> logits({int64_t(probs.size())});
  for (size_t i = 0; i < probs.size(); ++i)
    logits.data[i] = std::log(probs[i]);
  auto d = ok(sampleDistribution(logits, p, seen)).data;
  for (double &v : d)
    v = std::round(v * 1e9) / 1e9;
  return d;
}

TEST(Sampling, EachFilterByHand) {
  std::vector<double> p = {0.1, 0.4, 0.2, 0.3};
  SamplingParams k, t, top, min, cold;
  k.topK = 2;
  EXPECT_THAT(dist(p, k), ElementsAre(0, 0.571428571, 0, 0.428571429));
  t.temperature = 0.5; // squares: 1, 16, 4, 9 of 30
  EXPECT_THAT(dist(p, t), ElementsAre(0.033333333, 0.533333333, 0.133333333, 0.3));
  top.topP = 0.65; // 0.4 and 0.3 are needed
  EXPECT_THAT(dist(p, top), ElementsAre(0, 0.571428571, 0, 0.428571429));
  top.topP = 0.1;
  EXPECT_THAT(dist(p, top), ElementsAre(0, 1, 0, 0)) << "the best stays";
  min.minP = 0.6; // 0.24
  EXPECT_THAT(dist(p, min), ElementsAre(0, 0.571428571, 0, 0.428571429));
  cold.temperature = 0;
  EXPECT_THAT(dist(p, cold), ElementsAre(0, 1, 0, 0));
}

TEST(Sampling, TopPSeesTheRestOfTopK) {
  SamplingParams p;
  p.topK = 2;
  p.topP = 0.55; // after top-k the best has 4/7 = 0.571, alone enough; before, 0.4
  EXPECT_THAT(dist({0.1, 0.4, 0.2, 0.3}, p), ElementsAre(0, 1, 0, 0));
}

TEST(Sampling, TopPSeesTheRestOfMinP) {
  SamplingParams p;
  p.topP = 0.45; // after min-p the best has 4/7 = 0.571, alone enough; before, 0.4 is not
  p.minP = 0.6;
  EXPECT_THAT(dist({0.1, 0.4, 0.2, 0.3}, p), ElementsAre(0, 1, 0, 0));
}

TEST(Sampling, RepetitionPenaltyDividesOrMultipliesOnce) {
  SamplingParams p;
  p.repetitionPenalty = 2;
  Array<double> logits({3}, {2, -1, 0.5});
  auto d = ok(sampleDistribution(logits, p, {0, 1, 0}));
  auto want = ok(sampleDistribution(Array<double>({3}, {1, -2, 0.5}), SamplingParams()));
  EXPECT_EQ(d.data, want.data);
  EXPECT_THAT(errorOf(sampleDistribution(logits, p, {3})), HasSubstr("below 3, got 3"));
}

TEST(Sampling, DrawInvertsTheCumulativeDistribution) {
  Array<double> p({4}, {0, 0.25, 0, 0.75});
  EXPECT_EQ(ok(draw(p, 0.0)), 1);
  EXPECT_EQ(ok(draw(p, 0.2499)), 1);
  EXPECT_EQ(ok(draw(p, 0.25)), 3);
  EXPECT_EQ(ok(draw(p, 0.9999)), 3);
  EXPECT_EQ(ok(draw(Array<double>({2}, {0.5, 0.25}), 0.9)), 1) << "mass lost to rounding";
  EXPECT_THAT(errorOf(draw(p, 1.0)), HasSubstr("[0, 1)"));
}

TEST(Sampling, FrequenciesFollowTheDistribution) {
  Array<double> logits({3}, {std::log(0.2), std::log(0.5), std::log(0.3)});
  int count[3] = {};
  for (int i = 0; i < 8192; ++i)
    ++count[ok(sample(logits, SamplingParams(), 11, 5, i))];
  EXPECT_NEAR(count[0] / 8192.0, 0.2, 0.02);
  EXPECT_NEAR(count[1] / 8192.0, 0.5, 0.02);
}

TEST(Sampling, RefusesParametersOutOfRange) {
  auto error = [](auto set) {
    SamplingParams p;
    set(p);
    return errorOf(sampleDistribution(Array<double>({2}), p));
  };
  EXPECT_THAT(error([](auto &p) { p.temperature = -1; }), HasSubstr("temperature"));
  EXPECT_THAT(error([](auto &p) { p.topK = -1; }), HasSubstr("top_k"));
  EXPECT_THAT(error([](auto &p) { p.topP = 0; }), HasSubstr("top_p"));
  EXPECT_THAT(error([](auto &p) { p.minP = 2; }), HasSubstr("min_p"));
  EXPECT_THAT(error([](auto &p) { p.repetitionPenalty = 0; }), HasSubstr("repetition_penalty"));
}
