#include "runtime/core/TokenChoice.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstring>

// Every operation below rounds by itself: where a product and a sum are one operation, fmaf says so.
#pragma STDC FP_CONTRACT OFF

namespace dsv3 {

namespace {

/// Loops over a vocabulary: with FMA instructions where the processor has them, else by the C library, to the same bits.
#if defined(__x86_64__)
#define DSV3_WIDE __attribute__((target_clones("arch=x86-64-v3", "default")))
#else
#define DSV3_WIDE
#endif

/// The host's side of SampleEmitter's `weight`: the same operations in the same order.
__attribute__((always_inline)) inline uint64_t weightOf(float below, float scale) {
  constexpr float magic = 12582912.0f; // 1.5 * 2^23: adding it rounds to the nearest integer and leaves that in the low bits
  float t = below * scale;
  t = t < 63.0f ? t : 63.0f;
  float shifted = t + magic;
  uint32_t bits;
  std::memcpy(&bits, &shifted, 4);
  float rounded = shifted - magic, f = t - rounded;
  // 2^-f for |f| <= 1/2, exactly 1 at 0: minimax, error 1.1e-7 with these coefficients.
  float p = -0x1.5bba0ep-10f;
  for (float c : {0x1.3cea88p-7f, -0x1.c6b752p-5f, 0x1.ebf9bcp-3f, -0x1.62e42ap-1f, 1.0f})
    p = __builtin_fmaf(p, f, c);
  auto q = uint64_t(int32_t(p * 0x1p30f)); // exact: p is less than 2 and has 24 bits
  return (q << (kWeightBits - 30)) >> (bits - 0x4b400000u);
}

DSV3_WIDE uint64_t sumWeights(const float *logits, int64_t count, float top, float scale) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += weightOf(top - logits[i], scale);
  return sum;
}

DSV3_WIDE void weigh(const float *logits, int64_t count, float top, float scale, uint64_t *weights) {
  for (int64_t i = 0; i < count; ++i)
    weights[i] = weightOf(top - logits[i], scale);
}

uint32_t bitsOf(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, 4);
  return bits;
}

/// Without a way out of the loop, so that it is done in vectors.
DSV3_WIDE bool allFinite(const float *logits, int64_t count) {
  uint32_t bad = 0;
  for (int64_t i = 0; i < count; ++i)
    bad |= uint32_t((bitsOf(logits[i]) & 0x7f800000) == 0x7f800000);
  return !bad;
}

/// Integers in the order of floats, -0 as 0.
inline int32_t orderOf(float x) {
  const auto bits = int32_t(bitsOf(x + 0.0f));
  return bits ^ int32_t(uint32_t(bits >> 31) >> 1);
}

DSV3_WIDE int32_t greatestOrder(const float *logits, int64_t count) {
  int32_t most = INT32_MIN;
  for (int64_t i = 0; i < count; ++i)
    most = std::max(most, orderOf(logits[i]));
  return most;
}

/// a * b / 2^64, rounded down or up.
uint64_t scaleDown(uint64_t a, uint64_t b) { return uint64_t((unsigned __int128)a * b >> 64); }
uint64_t scaleUp(uint64_t a, uint64_t b) { return scaleDown(a, b) + (a * b != 0); }

} // namespace

int32_t firstNotFinite(const float *logits, int64_t count) {
  if (allFinite(logits, count))
    return 0;
  return int32_t(std::find_if(logits, logits + count, [](float x) { return !std::isfinite(x); }) - logits) + 1;
}

int64_t firstGreatest(const float *logits, int64_t count) {
  constexpr int64_t kBlock = 1024;
  int64_t at = 0;
  int32_t most = INT32_MIN;
  for (int64_t i = 0; i < count; i += kBlock)
    if (int32_t here = greatestOrder(logits + i, std::min(kBlock, count - i)); here > most)
      most = here, at = i;
  while (orderOf(logits[at]) != most)
    ++at;
  return at;
}

uint64_t tokenWeight(float below, float scale) { return weightOf(below, scale); }

dsv3_sampling samplingOf(double temperature, int64_t topK, double topP, double minP, uint64_t random) {
  dsv3_sampling s{};
  if (!(temperature > 0))
    return s;
  s.flags = DSV3_SAMPLE_DRAW;
  s.top_k = uint32_t(std::clamp<int64_t>(topK, 0, INT32_MAX));
  s.scale = float(std::min(1.44269504088896340736 / temperature, double(FLT_MAX)));
  // Tiny p still keeps one token, which 1 says as well as 0 would not.
  s.top_p = topP < 1 ? std::max<uint64_t>(1, uint64_t(std::ldexp(topP, 64))) : 0;
  s.min_weight = uint64_t(std::ceil(std::ldexp(minP, kWeightBits)));
  s.random = random << 11;
  return s;
}

double logProbability(const dsv3_sampled &c) {
  return double(c.logit) - double(c.top) - std::log(std::ldexp(double(c.mass), -kWeightBits));
}

dsv3_sampled describeToken(const float *logits, int64_t count, int32_t id) {
  dsv3_sampled s{};
  s.id = id;
  s.top = logits[firstGreatest(logits, count)] + 0.0f; // never -0: below the greatest nothing is negative
  s.logit = logits[id];
  s.mass = sumWeights(logits, count, s.top, kScaleOfOne);
  return s;
}

dsv3_sampled TokenChooser::choose(const float *logits, int64_t count, const dsv3_sampling &how) {
  dsv3_sampled fault{};
  fault.fault = firstNotFinite(logits, count);
  if (fault.fault)
    return fault;
  return describeToken(logits, count, pick(logits, count, how));
}

int32_t TokenChooser::pick(const float *logits, int64_t count, const dsv3_sampling &how) {
  auto best = int32_t(firstGreatest(logits, count));
  return how.flags & DSV3_SAMPLE_DRAW ? draw(logits, count, logits[best] + 0.0f, how) : best;
}

int32_t TokenChooser::draw(const float *logits, int64_t count, float top, const dsv3_sampling &how) {
  weights.resize(size_t(count));
  weigh(logits, count, top, how.scale, weights.data());
  kept.clear();
  for (int64_t i = 0; i < count; ++i)
    // Forbidden tokens must not fill the places of top-k.
    if (weights[size_t(i)] >= how.min_weight && logits[i] != -HUGE_VALF)
      kept.push_back({top - logits[i], int32_t(i), weights[size_t(i)]});
  keepTopK(how.top_k);
  if (how.top_p)
    keepTopP(how.top_p, how.scale);
  uint64_t total = 0, sum = 0;
  for (const Token &t : kept)
    total += t.weight;
  uint64_t target = scaleDown(how.random, total);
  for (const Token &t : kept)
    if ((sum += t.weight) > target)
      return t.id;
  return kept.back().id; // not reached: target is less than total
}

void TokenChooser::keepTopK(int64_t k) {
  if (k <= 0 || k >= int64_t(kept.size()))
    return;
  std::vector<float> below;
  for (const Token &t : kept)
    below.push_back(t.below);
  std::nth_element(below.begin(), below.begin() + (k - 1), below.end());
  kept.erase(std::remove_if(kept.begin(), kept.end(), [&](const Token &t) { return t.below > below[size_t(k - 1)]; }), kept.end());
}

/// Tokens are counted in buckets of like weight, and only the bucket where the limit falls is sorted: a vocabulary of 129,280 takes tens
/// of milliseconds to sort, and everybody would wait. Tokens that weigh nothing cannot be drawn; whether they stay does not matter.
void TokenChooser::keepTopP(uint64_t p, float scale) {
  constexpr int kBuckets = 1024; // of a sixteenth of a power of two, up to the last weight that is not 0
  auto bucketOf = [scale](const Token &t) {
    float x = t.below * scale * 16;
    return x < float(kBuckets - 1) ? int(x) : kBuckets - 1;
  };
  auto first = [](const Token &a, const Token &b) { return a.below != b.below ? a.below < b.below : a.id < b.id; };
  uint64_t masses[kBuckets] = {}, total = 0, before = 0;
  for (const Token &t : kept) {
    masses[bucketOf(t)] += t.weight;
    total += t.weight;
  }
  const uint64_t limit = scaleUp(p, total);
  int cut = 0;
  while (before + masses[cut] < limit)
    before += masses[cut++];
  edge.clear();
  for (const Token &t : kept)
    if (t.weight && bucketOf(t) == cut)
      edge.push_back(t);
  std::sort(edge.begin(), edge.end(), first);
  size_t n = 0;
  while (before < limit)
    before += edge[n++].weight;
  const Token last = edge[n - 1]; // one at least: the limit is above what lies before this bucket
  auto goes = [&](const Token &t) { return bucketOf(t) != cut ? bucketOf(t) > cut : first(last, t); };
  kept.erase(std::remove_if(kept.begin(), kept.end(), goes), kept.end());
}

} // namespace dsv3
