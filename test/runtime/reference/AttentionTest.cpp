#include "runtime/reference/Attention.h"
#include "Util.h"
#include "runtime/reference/Linear.h"

#include <cmath>

using namespace dsv3;
using namespace dsv3::reference;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// One sequence of `tokens` noisy tokens over odd head sizes.
struct Problem {
  MlaShape shape{3, 5, 4, 6, 7};
  int64_t tokens;
  double scale = 0.7;
  Array<double> latent, ropeKey, q, wKvB;

  explicit Problem(int64_t t, uint32_t seed = 1)
      : tokens(t), latent(noise<double>({t, 7}, seed)), ropeKey(noise<double>({t, 4}, seed + 1)),
        q(noise<double>({t, 3, 9}, seed + 2)), wKvB(noise<double>({33, 7}, 99)) {}

  Array<double> rows(const Array<double> &x, int64_t from, int64_t to) const {
    Ids ids({to - from});
    std::iota(ids.data.begin(), ids.data.end(), int32_t(from));
    return ok(selectRows(x, ids));
  }
};

SeqMeta oneSequence(int64_t past, int64_t count, std::vector<int32_t> pages) {
  SeqMeta seq;
  seq.addSequence(past, count, std::move(pages));
  return seq;
}

/// Tokens from..to-1 as one step in MHA form.
Array<double> step(const Problem &p, Cache<double> &cache, int64_t from, int64_t to,
                   const std::vector<int32_t> &pages) {
  SeqMeta seq = oneSequence(from, to - from, pages);
  ok(kvAppend(cache, 0, {p.rows(p.latent, from, to), p.rows(p.ropeKey, from, to)}, seq));
  return ok(mlaAttention(p.rows(p.q, from, to), cache, 0, p.wKvB, seq, p.scale, p.shape));
}

Array<double> whole(const Problem &p, std::vector<int32_t> pages = {0, 1, 2}) {
  Cache<double> cache(1, 4, {7, 4});
  return step(p, cache, 0, p.tokens, pages);
}

} // namespace

TEST(Attention, ByHand) {
  // One head of nope 1, rope 2, v 1; k = latent, v = 10 latent.
  MlaShape m{1, 1, 2, 1, 1};
  Cache<double> cache(2, 1, {1, 2});
  SeqMeta seq = oneSequence(0, 2, {0});
  ok(kvAppend(cache, 1, {Array<double>({2, 1}, {1, 2}), Array<double>({2, 2}, {0, 4, 1, 0})}, seq));
  Array<double> q({2, 1, 3}, {1, 0, 0, 1, 3, 0.5}), w({2, 1}, {1, 10});
  auto o = ok(mlaAttention(q, cache, 1, w, seq, 0.5, m));
  EXPECT_DOUBLE_EQ(o.data[0], 10) << "the first token sees itself only";
  double s0 = 0.5 * (1 * 1 + 0.5 * 4), s1 = 0.5 * (1 * 2 + 3 * 1); // 1.5 and 2.5
  double p1 = std::exp(s1) / (std::exp(s0) + std::exp(s1));
  EXPECT_NEAR(o.data[1], 10 * (1 - p1) + 20 * p1, 1e-12);
}

TEST(Attention, AbsorbedFormEqualsMhaForm) {
  Problem p(150);
  Cache<double> cache(1, 3, {7, 4});
  std::vector<int32_t> pages = {0, 1, 2};
  Array<double> mha = step(p, cache, 0, p.tokens, pages);
  AbsorbedWeights<double> w = ok(absorb(p.wKvB, p.shape));
  auto parts = ok(split(p.q, {5, 4}));
  auto lat = ok(latentAttention(ok(batchedLinear(parts[0], w.k)), parts[1], cache, 0,
                                oneSequence(0, p.tokens, pages), p.scale));
  EXPECT_LT(maxDifference(ok(batchedLinear(lat, w.v)), mha), 1e-12);
}

TEST(Attention, ChunksChangeNoBit) {
  Problem p(150);
  Array<double> all = whole(p);
  Cache<double> cache(1, 3, {7, 4});
  int64_t cuts[] = {0, 1, 63, 64, 130, 150};
  for (int i = 0; i + 1 < 6; ++i)
    EXPECT_EQ(step(p, cache, cuts[i], cuts[i + 1], {0, 1, 2}).data, p.rows(all, cuts[i], cuts[i + 1]).data)
        << "chunk from " << cuts[i];
}

TEST(Attention, PagesAndNeighboursChangeNoBit) {
  Problem a(150), b(70, 50);
  EXPECT_EQ(whole(a, {3, 0, 2}).data, whole(a).data);
  // Both in one step, pages interleaved, two padded rows at the end.
  SeqMeta seq;
  seq.addSequence(0, 150, {4, 1, 0});
  seq.addSequence(0, 70, {3, 2});
  seq.tokenSeq.insert(seq.tokenSeq.end(), {-1, -1});
  seq.tokenPos.insert(seq.tokenPos.end(), {-1, -1});
  auto stack = [](const Array<double> &x, const Array<double> &y) {
    Array<double> both = x;
    both.data.insert(both.data.end(), y.data.begin(), y.data.end());
    both.shape[0] = x.dim(0) + y.dim(0) + 2;
    both.data.resize(numElements(both.shape), 1e3);
    return both;
  };
  Cache<double> cache(1, 5, {7, 4});
  ok(kvAppend(cache, 0, {stack(a.latent, b.latent), stack(a.ropeKey, b.ropeKey)}, seq));
  auto both = ok(mlaAttention(stack(a.q, b.q), cache, 0, a.wKvB, seq, a.scale, a.shape));
  EXPECT_EQ(a.rows(both, 0, 150).data, whole(a).data);
  EXPECT_EQ(a.rows(both, 150, 220).data, whole(b, {0, 1}).data);
  EXPECT_EQ(a.rows(both, 220, 222).data, std::vector<double>(2 * 18, 0.0)) << "padding is zero";
}

TEST(Attention, FutureTokensDoNotMatter) {
  Problem p(20), changed = p;
  for (int i = 0; i < 7; ++i)
    changed.latent.row(19)[i] += 5;
  EXPECT_EQ(p.rows(whole(changed), 0, 19).data, p.rows(whole(p), 0, 19).data);
  EXPECT_NE(whole(changed).data, whole(p).data);
}

TEST(Attention, ExpandedValuesAreRounded) {
  Problem p(10);
  SeqMeta seq = oneSequence(0, 10, {0});
  Cache<double> cache(1, 1, {7, 4});
  auto exact = step(p, cache, 0, 10, {0});
  auto rounded = ok(mlaAttention(p.q, cache, 0, p.wKvB, seq, p.scale, p.shape, Rounding::BF16));
  EXPECT_GT(maxDifference(exact, rounded), 1e-5);
  EXPECT_LT(maxDifference(exact, rounded), 5e-2);
}

TEST(Cache, StoresByLayerPageAndSlot) {
  Cache<float> cache(2, 2, {2, 1});
  SeqMeta seq = oneSequence(64, 1, {1, 0});
  ok(kvAppend(cache, 1, {Array<float>({1, 2}, {5, 6}), Array<float>({1, 1}, {7})}, seq));
  EXPECT_THAT(std::vector<float>(cache.row(1, 0, 0), cache.row(1, 0, 0) + 3), ElementsAre(5, 6, 7));
  EXPECT_EQ(cache.row(0, 0, 0)[0], 0);
  auto rows = ok(gatherRows(cache, 1, seq, 0));
  EXPECT_THAT(rows.shape, ElementsAre(65, 3));
  EXPECT_EQ(rows.row(64)[2], 7);
}

TEST(Cache, RoundsRowsAndQuantisesLatents) {
  Cache<float> bf16(1, 1, {1, 1}, {Rounding::BF16, {}});
  SeqMeta seq = oneSequence(0, 1, {0});
  std::vector<Array<float>> fields = {Array<float>({1, 1}, {448}), Array<float>({1, 1}, {17.03f})};
  ok(kvAppend(bf16, 0, fields, seq));
  EXPECT_EQ(bf16.row(0, 0, 0)[1], 17);
  Cache<float> fp8(1, 1, {1, 1}, {Rounding::BF16, QuantScheme{QuantStorage::F8E4M3, 1, 0}});
  ok(kvAppend(fp8, 0, fields, seq));
  EXPECT_EQ(fp8.row(0, 0, 0)[0], 448);
  EXPECT_EQ(fp8.row(0, 0, 0)[1], 17) << "what is behind the latent is rounded, not quantised";
}

TEST(SeqMeta, RefusesContradictions) {
  auto error = [](SeqMeta seq) { return seq.verify(4) ? "" : seq.verify(4).error().message; };
  SeqMeta seq;
  seq.addSequence(60, 10, {0, 1});
  EXPECT_EQ(error(seq), "");
  SeqMeta bad = seq;
  bad.blockTable[0] = {0};
  EXPECT_THAT(error(bad), HasSubstr("sequence 0 to hold 2 pages, got 1"));
  bad.blockTable[0] = {0, 4};
  EXPECT_THAT(error(bad), HasSubstr("below 4, got 4"));
  bad = seq;
  bad.tokenPos[3] = 64;
  EXPECT_THAT(error(bad), HasSubstr("at position 63, got sequence 0 position 64"));
  bad = seq;
  bad.addSequence(0, 1, {1});
  EXPECT_THAT(error(bad), HasSubstr("got page 1 of sequence 0"));
  bad = seq;
  bad.tokenPos.pop_back();
  EXPECT_THAT(error(bad), HasSubstr("token_pos[T]"));
}
