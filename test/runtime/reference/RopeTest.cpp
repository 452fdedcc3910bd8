#include "runtime/reference/Rope.h"
#include "Util.h"
#include "runtime/core/Safetensors.h"

#include <cmath>

using namespace dsv3;
using namespace dsv3::reference;
using testing::HasSubstr;

static RopeParams released() {
  RopeParams p;
  p.yarn = true;
  p.factor = 40;
  p.mscale = p.mscaleAllDim = 1;
  return p;
}

TEST(Rope, PlainFrequencies) {
  RopeParams p;
  p.dims = 4;
  RopeTable t = ok(ropeTable(p));
  ASSERT_EQ(t.invFreq.size(), 2u);
  EXPECT_EQ(t.invFreq[0], 1.0f);
  EXPECT_FLOAT_EQ(t.invFreq[1], 0.01f); // 10000^-(2/4)
  EXPECT_EQ(t.attentionFactor, 1.0f);
}

TEST(Rope, YarnKeepsFastPairsAndInterpolatesSlowOnes) {
  RopeParams plain, yarn = released();
  RopeTable a = ok(ropeTable(plain)), b = ok(ropeTable(yarn));
  // The ramp runs over pairs 10 to 23 for these numbers.
  for (int i = 0; i <= 10; ++i)
    EXPECT_EQ(a.invFreq[i], b.invFreq[i]) << i;
  for (int i = 23; i < 32; ++i)
    EXPECT_FLOAT_EQ(a.invFreq[i] / 40, b.invFreq[i]) << i;
  float ramp = float(15 - 10) / (23 - 10);
  EXPECT_FLOAT_EQ(b.invFreq[15], a.invFreq[15] / 40 * ramp + a.invFreq[15] * (1 - ramp));
}

TEST(Rope, ScalesOfTheRelease) {
  EXPECT_NEAR(yarnMscale(40, 1), 1.3688879454113936, 1e-15);
  EXPECT_EQ(yarnMscale(1, 1), 1);
  EXPECT_NEAR(softmaxScale(192, released()), 0.135234, 5e-7);
  EXPECT_NEAR(softmaxScale(192, RopeParams()), 1 / std::sqrt(192.0), 1e-15);
  RopeParams uneven = released();
  uneven.mscaleAllDim = 0;
  EXPECT_FLOAT_EQ(ok(ropeTable(uneven)).attentionFactor, 1.3688879f);
  EXPECT_NEAR(softmaxScale(192, uneven), 1 / std::sqrt(192.0), 1e-15);
}

TEST(Rope, FrequenciesAreTransformersBits) {
  // From transformers' own rotary embedding of the example model: pairs where
  // another order of the same operations gives another last bit.
  RopeTable t = ok(ropeTable(released()));
  const std::pair<int, float> want[] = {
      {12, 0x1.b86436p-6f}, {23, 0x1.17a8e2p-15f}, {24, 0x1.a36e2ep-16f}, {29, 0x1.8dd9bap-18f}, {31, 0x1.bf749ep-19f}};
  for (auto [pair, frequency] : want)
    EXPECT_EQ(t.invFreq[pair], frequency) << "pair " << pair;
}

TEST(Rope, MatchesGoldenTable) {
  auto file = SafetensorsFile::open(DSV3_SOURCE_DIR "/test/goldens/goldens_fp8_w8a8.safetensors");
  ASSERT_TRUE(file) << file.error().message;
  const StoredTensor *inv = file->find("rope.inv_freq"), *pos = file->find("rope.positions"),
                     *cos = file->find("rope.cos"), *sin = file->find("rope.sin");
  ASSERT_TRUE(inv && pos && cos && sin);
  auto value = [](const StoredTensor *t, int64_t i) {
    return loadAsFloat(t->dtype, t->data.data(), size_t(i));
  };
  RopeTable ours = ok(ropeTable(released())), golden{{}, 1};
  for (int i = 0; i < 32; ++i) { // the golden's order of operations is another one
    golden.invFreq.push_back(value(inv, i));
    EXPECT_NEAR(ours.invFreq[i] / golden.invFreq[i], 1, 0x1p-23) << "pair " << i;
  }
  for (int p = 0; p < pos->shape[0]; ++p)
    for (int i = 0; i < 32; ++i) {
      RopeTable::CosSin turn = golden.at(int64_t(value(pos, p)), i);
      EXPECT_EQ(turn.cos, value(cos, p * 32 + i)) << "position " << value(pos, p) << " pair " << i;
      EXPECT_EQ(turn.sin, value(sin, p * 32 + i)) << "position " << value(pos, p) << " pair " << i;
    }
}

TEST(Rope, LayoutsByHand) {
  RopeTable t{{1.0f, 0.5f}, 1};
  Array<double> x({1, 1, 5}, {7, 1, 2, 3, 4}); // lane 0 does not turn
  Ids at2({1}, {2});                           // angles 2 and 1
  double c0 = std::cos(2.0), s0 = std::sin(2.0), c1 = std::cos(1.0), s1 = std::sin(1.0);
  std::vector<double> pairs = {7, 1 * c0 - 2 * s0, 1 * s0 + 2 * c0, 3 * c1 - 4 * s1,
                               3 * s1 + 4 * c1};
  std::vector<double> halves = {7, 1 * c0 - 3 * s0, 2 * c1 - 4 * s1, 1 * s0 + 3 * c0,
                                2 * s1 + 4 * c1};
  Array<double> a = ok(rope(x, at2, t, 1, true)), b = ok(rope(x, at2, t, 1, false));
  for (int i = 0; i < 5; ++i) {
    EXPECT_NEAR(a.data[i], pairs[i], 1e-6) << i;
    EXPECT_NEAR(b.data[i], halves[i], 1e-6) << i;
  }
}

TEST(Rope, ScoresDependOnDistanceOnly) {
  RopeTable t = ok(ropeTable(released()));
  Array<double> q = noise<double>({1, 64}, 1), k = noise<double>({1, 64}, 2);
  auto score = [&](int32_t qPos, int32_t kPos) {
    auto a = ok(rope(q, Ids({1}, {qPos}), t, 0, true)), b = ok(rope(k, Ids({1}, {kPos}), t, 0, true));
    return std::inner_product(a.data.begin(), a.data.end(), b.data.begin(), 0.0);
  };
  EXPECT_NEAR(score(9, 2), score(1009, 1002), 1e-5);
  EXPECT_GT(std::fabs(score(9, 2) - score(9, 3)), 1e-3);
}

TEST(Rope, PaddedRowsPassAndErrorsNameTheNumbers) {
  RopeTable t{{1.0f}, 1};
  Array<float> x({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(ok(rope(x, Ids({2}, {-1, 0}), t, 0, true)).data, x.data);
  EXPECT_THAT(errorOf(rope(x, Ids({2}, {0, 0}), t, 1, true)), HasSubstr("lanes 1 to 3"));
  EXPECT_THAT(errorOf(rope(x, Ids({1}, {0}), t, 0, true)), HasSubstr("positions of shape [2]"));
  RopeParams odd;
  odd.dims = 7;
  EXPECT_THAT(errorOf(ropeTable(odd)), HasSubstr("got 7"));
}
