#include "runtime/reference/Moe.h"
#include "Util.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Norm.h"

#include <cmath>

using namespace dsv3;
using namespace dsv3::reference;
using testing::ElementsAre;
using testing::HasSubstr;

/// Logits whose sigmoid are the given scores.
static Array<double> fromScores(std::vector<double> scores) {
  for (double &s : scores)
    s = std::log(s / (1 - s));
  return Array<double>({1, int64_t(scores.size())}, scores);
}

static Array<double> zeros(int64_t n) { return Array<double>({n}); }

static std::vector<int32_t> idsOf(const std::vector<double> &scores, const Array<double> &bias,
                                  const RouteParams &p) {
  return ok(route(fromScores(scores), bias, p)).ids.data;
}

TEST(Route, WeightsAreNormalisedAndScaled) {
  RouteParams p{2, 2, 2, true, 2.5};
  auto r = ok(route(fromScores({0.1, 0.6, 0.2, 0.3}), zeros(4), p));
  EXPECT_THAT(r.ids.data, ElementsAre(1, 3)) << "best first";
  EXPECT_NEAR(r.weights.data[0], 2.5 * 0.6 / 0.9, 1e-12);
  EXPECT_NEAR(r.weights.data[1], 2.5 * 0.3 / 0.9, 1e-12);
  p.norm = false;
  EXPECT_NEAR(ok(route(fromScores({0.1, 0.6, 0.2, 0.3}), zeros(4), p)).weights.data[1], 0.75, 1e-12);
}

TEST(Route, GroupScoreIsTheSumOfItsTwoBest) {
  // By its best expert alone group 0 would win: 0.9 against 0.6.
  EXPECT_THAT(idsOf({0.9, 0.1, 0.05, 0.6, 0.6, 0.05}, zeros(6), {2, 1, 2, true, 1}),
              ElementsAre(3, 4));
  // By the sum of all members it would win too: 1.2 against 1.1.
  EXPECT_THAT(idsOf({0.4, 0.4, 0.4, 0.5, 0.5, 0.1}, zeros(6), {2, 1, 2, true, 1}),
              ElementsAre(3, 4));
}

TEST(Route, BiasSelectsButDoesNotWeigh) {
  Array<double> bias({4}, {0, 0, 0.5, 0});
  RouteParams p{2, 2, 2, true, 1};
  EXPECT_THAT(idsOf({0.5, 0.4, 0.2, 0.3}, zeros(4), p), ElementsAre(0, 1));
  auto r = ok(route(fromScores({0.5, 0.4, 0.2, 0.3}), bias, p));
  EXPECT_THAT(r.ids.data, ElementsAre(2, 0));
  EXPECT_NEAR(r.weights.data[0], 0.2 / 0.7, 1e-12);
  EXPECT_NEAR(r.weights.data[1], 0.5 / 0.7, 1e-12);
}

TEST(Route, BiasCountsInTheGroupScore) {
  Array<double> bias({4}, {0, 0, 0.5, 0});
  EXPECT_THAT(idsOf({0.5, 0.4, 0.2, 0.3}, bias, {2, 1, 1, true, 1}), ElementsAre(2));
}

TEST(Route, OutsideKeptGroupsIsMinusInfinity) {
  // All kept biased scores are negative: a mask of 0 would let group 1 in.
  Array<double> bias({4}, {-1, -1, -1, -1});
  EXPECT_THAT(idsOf({0.5, 0.4, 0.3, 0.2}, bias, {2, 1, 2, true, 1}), ElementsAre(0, 1));
}

TEST(Route, TiesGoToTheLowerIndex) {
  std::vector<double> same(8, 0.5);
  EXPECT_THAT(idsOf(same, zeros(8), {4, 2, 3, true, 1}), ElementsAre(0, 1, 2));
  // Groups 1 and 3 tie behind group 2, so 1 and 2 are kept; experts stay ordered.
  EXPECT_THAT(idsOf({0.1, 0.1, 0.5, 0.5, 0.7, 0.5, 0.5, 0.5}, zeros(8), {4, 2, 4, true, 1}),
              ElementsAre(4, 2, 3, 5));
}

TEST(Route, PaddedRowsHaveNoExpert) {
  Array<double> logits({2, 4});
  auto r = ok(route(logits, zeros(4), {2, 2, 2, true, 1}, 1));
  EXPECT_THAT(r.ids.data, ElementsAre(0, 1, -1, -1));
  EXPECT_THAT(r.weights.data, ElementsAre(0.5, 0.5, 0, 0));
}

TEST(Route, RefusesIllegalGroups) {
  Array<double> logits({1, 6});
  auto message = [&](RouteParams p) { return errorOf(route(logits, zeros(6), p)); };
  EXPECT_THAT(message({4, 1, 1, true, 1}), HasSubstr("6 experts in 4 groups"));
  EXPECT_THAT(message({6, 6, 1, true, 1}), HasSubstr("at least 2 experts, got 1"));
  EXPECT_THAT(message({2, 3, 1, true, 1}), HasSubstr("1 to 2 kept groups, got 3"));
  EXPECT_THAT(message({2, 1, 4, true, 1}), HasSubstr("1 to 3 experts per token, got 4"));
  logits.data[3] = NAN;
  EXPECT_THAT(message({2, 1, 2, true, 1}), HasSubstr("nan for expert 3 of row 0"));
}

TEST(Dispatch, ByHand) {
  Array<float> x({3, 1}, {10, 20, 30});
  auto d = ok(dispatch(x, Ids({3, 2}, {2, 0, 0, 2, -1, 2}), 4));
  EXPECT_THAT(d.rows.data, ElementsAre(10, 20, 10, 20, 30, 0)) << "tokens keep their order";
  EXPECT_THAT(d.offsets.data, ElementsAre(0, 2, 2, 5, 5));
  EXPECT_THAT(d.rowOf.data, ElementsAre(2, 0, 1, 3, -1, 4));
  Array<float> w({3, 2}, {1, 2, 3, 4, 5, 6}), plus({3, 1}, {1, 1, 1});
  EXPECT_THAT(ok(combine(d.rows, d.rowOf, w, plus)).data, ElementsAre(31, 141, 181));
  EXPECT_THAT(ok(combine(d.rows, d.rowOf, w)).data, ElementsAre(30, 140, 180));
  EXPECT_THAT(errorOf(dispatch(x, Ids({3, 1}, {0, 4, 0}), 4)), HasSubstr("below 4, got 4"));
}

TEST(Combine, SumsInTheOrderOfK) {
  // (1e8 + 1) - 1e8 loses the 1 in float; any other order keeps it.
  Array<float> rows({3, 1}, {1e8f, 1, -1e8f}), one({1, 3}, {1, 1, 1});
  EXPECT_EQ(ok(combine(rows, Ids({1, 3}, {0, 1, 2}), one)).data[0], 0);
  EXPECT_EQ(ok(combine(rows, Ids({1, 3}, {0, 2, 1}), one)).data[0], 1);
}

struct RandomMoe {
  int64_t tokens = 9, dim = 6, width = 5, experts = 8;
  RouteParams params{4, 2, 3, true, 2.5};
  Array<double> x = noise<double>({tokens, dim}, 1), logits = noise<double>({tokens, experts}, 2),
                bias = noise<double>({experts}, 3),
                gateUp = noise<double>({experts, 2 * width, dim}, 4),
                down = noise<double>({experts, dim, width}, 5),
                plus = noise<double>({tokens, dim}, 6);
};

TEST(RoutedExperts, EqualsOneTokenAtATimeWithoutDispatch) {
  RandomMoe m;
  auto y = ok(routedExperts(m.x, m.logits, m.bias, m.gateUp, m.down, m.plus, m.params));
  auto r = ok(route(m.logits, m.bias, m.params));
  for (int64_t t = 0; t < m.tokens; ++t) {
    Array<double> sum({1, m.dim}, std::vector<double>(m.plus.row(t), m.plus.row(t) + m.dim));
    for (int64_t k = 0; k < m.params.top; ++k) {
      int64_t e = r.ids.row(t)[k];
      auto matrix = [&](const Array<double> &w) {
        int64_t size = w.dim(1) * w.dim(2);
        return Array<double>({w.dim(1), w.dim(2)}, std::vector<double>(w.data.begin() + e * size,
                                                                       w.data.begin() + (e + 1) * size));
      };
      Array<double> one({1, m.dim}, std::vector<double>(m.x.row(t), m.x.row(t) + m.dim));
      auto h = ok(linear(ok(swiglu(ok(linear(one, matrix(m.gateUp))))), matrix(m.down)));
      for (int64_t i = 0; i < m.dim; ++i)
        sum.data[i] += r.weights.row(t)[k] * h.data[i];
    }
    for (int64_t i = 0; i < m.dim; ++i)
      EXPECT_NEAR(y.row(t)[i], sum.data[i], 1e-13) << t;
  }
}

TEST(RoutedExperts, TokenOrderChangesNoBit) {
  RandomMoe m;
  auto y = ok(routedExperts(m.x, m.logits, m.bias, m.gateUp, m.down, m.plus, m.params));
  Ids order({m.tokens}, {4, 0, 8, 2, 6, 1, 7, 3, 5});
  auto pick = [&](const Array<double> &a) { return ok(selectRows(a, order)); };
  auto z = ok(routedExperts(pick(m.x), pick(m.logits), m.bias, m.gateUp, m.down, pick(m.plus),
                            m.params));
  EXPECT_EQ(z.data, pick(y).data);
}

TEST(RoutedExperts, ViaRoundsEachIntermediate) {
  RandomMoe m;
  auto with = [&](RoutedVia via) {
    return ok(routedExperts(m.x, m.logits, m.bias, m.gateUp, m.down, m.plus, m.params, via)).data;
  };
  auto exact = with({});
  EXPECT_NE(with({Rounding::BF16, Rounding::Exact, Rounding::Exact, {}}), exact);
  EXPECT_NE(with({Rounding::Exact, Rounding::BF16, Rounding::Exact, {}}), exact);
  EXPECT_NE(with({Rounding::Exact, Rounding::Exact, Rounding::BF16, {}}), exact);
  RoutedVia encoded{Rounding::Exact, Rounding::BF16, Rounding::Exact, QuantScheme{QuantStorage::I8, 1, 0}};
  EXPECT_NE(with(encoded), with({Rounding::Exact, Rounding::BF16, Rounding::Exact, {}}));
}
