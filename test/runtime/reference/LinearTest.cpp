#include "runtime/reference/Linear.h"
#include "Util.h"
#include "runtime/reference/Norm.h"

using namespace dsv3;
using namespace dsv3::reference;
using testing::ElementsAre;
using testing::HasSubstr;

template <typename T> class Linear : public testing::Test {};
using Arithmetic = testing::Types<float, double>;
TYPED_TEST_SUITE(Linear, Arithmetic);

TYPED_TEST(Linear, EmbedCopiesRowsAndShardsGiveZeros) {
  Array<TypeParam> table({3, 2}, {0, 1, 10, 11, 20, 21});
  EXPECT_THAT(ok(embed(Ids({2}, {2, 0}), table)).data, ElementsAre(20, 21, 0, 1));
  // The shard holds ids 4..6 of a vocabulary of 8.
  EXPECT_THAT(ok(embed(Ids({3}, {5, 1, 7}), table, 4, 8)).data, ElementsAre(10, 11, 0, 0, 0, 0));
  EXPECT_THAT(errorOf(embed(Ids({2}, {0, 3}), table)),
              HasSubstr("expected ids below 3, got 3 at position 1"));
}

TYPED_TEST(Linear, MultipliesByRowsOfW) {
  Array<TypeParam> x({2, 2}, {1, 2, 3, 4}), w({3, 2}, {1, 0, 0, 1, 10, 100}), b({3}, {1, 2, 3});
  EXPECT_THAT(ok(linear(x, w)).data, ElementsAre(1, 2, 210, 3, 4, 430));
  EXPECT_THAT(ok(linear(x, w, b)).data, ElementsAre(2, 4, 213, 4, 6, 433));
  EXPECT_EQ(errorOf(linear(x, Array<TypeParam>({1, 3}))),
            "linear: expected last dimension of x to be 3, got shape [2, 2]");
}

TYPED_TEST(Linear, BatchedUsesOneMatrixPerHead) {
  Array<TypeParam> x({2, 2, 1}, {1, 2, 3, 4}), w({2, 2, 1}, {1, 10, 100, 1000});
  EXPECT_THAT(ok(batchedLinear(x, w)).data, ElementsAre(1, 10, 200, 2000, 3, 30, 400, 4000));
}

TYPED_TEST(Linear, GroupedFollowsOffsets) {
  Array<TypeParam> x({4, 1}, {1, 2, 3, 4}), w({3, 1, 1}, {1, 10, 100});
  // Expert 1 has no rows, row 3 belongs to nobody.
  EXPECT_THAT(ok(groupedLinear(x, w, Ids({4}, {0, 2, 2, 3}))).data, ElementsAre(1, 2, 300, 0));
  EXPECT_THAT(errorOf(groupedLinear(x, w, Ids({4}, {0, 2, 1, 3}))), HasSubstr("ascending"));
  EXPECT_THAT(errorOf(groupedLinear(x, w, Ids({4}, {0, 2, 2, 5}))), HasSubstr("at most 4 rows"));
}

TYPED_TEST(Linear, SplitConcatSelectAdd) {
  Array<TypeParam> x({2, 3}, {1, 2, 3, 4, 5, 6});
  auto parts = ok(split(x, {1, 2}));
  EXPECT_THAT(parts[0].data, ElementsAre(1, 4));
  EXPECT_THAT(parts[1].data, ElementsAre(2, 3, 5, 6));
  EXPECT_EQ(ok(concat(parts)).data, x.data);
  EXPECT_THAT(ok(selectRows(x, Ids({3}, {1, -1, 0}))).data,
              ElementsAre(4, 5, 6, 0, 0, 0, 1, 2, 3));
  EXPECT_THAT(ok(add(parts[1], parts[1])).data, ElementsAre(4, 6, 10, 12));
  EXPECT_THAT(errorOf(add(x, parts[0])), HasSubstr("expected b of shape [2, 3], got [2, 1]"));
  EXPECT_THAT(errorOf(split(x, {1, 1})), HasSubstr("to be 2, got shape [2, 3]"));
  EXPECT_THAT(errorOf(selectRows(x, Ids({1}, {2}))), HasSubstr("rows below 2, got 2"));
}

TYPED_TEST(Linear, RmsNormByHand) {
  // mean of squares (1 + 49) / 2 = 25, so with eps 0 the scale is 1/5.
  Array<TypeParam> x({1, 2}, {1, 7}), gamma({2}, {1, 10});
  auto y = ok(rmsNorm(x, gamma, 0));
  EXPECT_NEAR(y.data[0], 0.2, 1e-7);
  EXPECT_NEAR(y.data[1], 14, 1e-6);
  // eps is inside the root: 25 + 11 = 36.
  EXPECT_NEAR(ok(rmsNorm(x, gamma, 11)).data[0], 1 / 6.0, 1e-7);
}

TYPED_TEST(Linear, NormWithResidualEqualsAddThenNorm) {
  auto x = noise<TypeParam>({5, 16}, 1), r = noise<TypeParam>({5, 16}, 2),
       gamma = noise<TypeParam>({16}, 3);
  auto fused = ok(rmsNorm(x, r, gamma, 1e-6, Rounding::BF16));
  auto sum = roundTo(Rounding::BF16, ok(add(x, r)));
  EXPECT_EQ(fused.sum.data, sum.data);
  EXPECT_EQ(fused.y.data, ok(rmsNorm(sum, gamma, 1e-6)).data);
  EXPECT_NE(fused.y.data, ok(rmsNorm(x, r, gamma, 1e-6)).y.data) << "the sum was not rounded";
}

TYPED_TEST(Linear, SwigluByHand) {
  Array<TypeParam> gate({1, 2}, {0, 1}), up({1, 2}, {5, 2});
  auto y = ok(swiglu(gate, up));
  EXPECT_EQ(y.data[0], 0);
  EXPECT_NEAR(y.data[1], 2 * 0.7310585786300049, 1e-6); // 1 / (1 + e^-1)
  EXPECT_EQ(ok(swiglu(Array<TypeParam>({1, 4}, {0, 1, 5, 2}))).data, y.data);
  EXPECT_THAT(errorOf(swiglu(Array<TypeParam>({1, 3}))), HasSubstr("even last dimension"));
  // The gate may be very negative: the result is zero, not NaN.
  EXPECT_EQ(ok(swiglu(Array<TypeParam>({1}, {-2000}), Array<TypeParam>({1}, {1}))).data[0], 0);
}

TEST(Chain, KeepsTheFirstErrorAndSurvivesTheRest) {
  Chain chain;
  Array<float> a = chain(linear(Array<float>({1, 2}), Array<float>({1, 3})));
  a = chain(add(chain(linear(a, Array<float>({4, 4}))), a));
  EXPECT_TRUE(chain.failed());
  EXPECT_EQ(chain.error().message,
            "linear: expected last dimension of x to be 3, got shape [1, 2]");
}
