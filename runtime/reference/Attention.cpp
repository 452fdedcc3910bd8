#include "runtime/reference/Attention.h"
#include "runtime/reference/Linear.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dsv3::reference {

namespace {

template <typename T> T dot(const T *a, const T *b, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

template <typename T> void softmaxInPlace(std::vector<T> &x) {
  T peak = *std::max_element(x.begin(), x.end());
  T sum = 0;
  for (T &v : x)
    sum += v = std::exp(v - peak);
  for (T &v : x)
    v /= sum;
}

/// One query row against keys 0 .. position: `score(j)` and `value(j)` give the
/// scaled score and the value row (n wide) of key j.
template <typename T, typename Score, typename Value>
void attend(int64_t position, T *out, int64_t n, Score score, Value value) {
  std::vector<T> p(position + 1);
  for (int64_t j = 0; j <= position; ++j)
    p[j] = score(j);
  softmaxInPlace(p);
  for (int64_t j = 0; j <= position; ++j)
    for (int64_t i = 0; i < n; ++i)
      out[i] += p[j] * value(j)[i];
}

} // namespace

template <typename T>
Result<Array<T>> mlaAttention(const Array<T> &q, const Cache<T> &cache, int64_t layer,
                              const Array<T> &wKvB, const SeqMeta &seq, double scale,
                              const MlaShape &m, Rounding expanded) {
  if (Status s = expectShape("mla_attention", "q", {seq.tokens(), m.heads, m.nope + m.rope},
                             q.shape);
      !s)
    return s.error();
  if (Status s = expectShape("mla_attention", "w_kvb", {m.heads * (m.nope + m.v), m.kvRank},
                             wKvB.shape);
      !s)
    return s.error();
  if (Status s = expectShape("mla_attention", "fields of the cache", {m.kvRank, m.rope},
                             cache.fields());
      !s)
    return s.error();
  if (Status s = seq.verify(cache.pages()); !s)
    return s.error();

  Array<T> out({seq.tokens(), m.heads, m.v});
  for (int64_t s = 0; s < seq.seqs(); ++s) {
    Chain chain;
    Array<T> rows = chain(gatherRows(cache, layer, seq, s));
    std::vector<Array<T>> fields = chain(split(rows, {m.kvRank, m.rope}));
    if (chain.failed())
      return chain.error();
    const Array<T> &ropeKeys = fields[1];
    Array<T> kv = roundTo(expanded, chain(linear(fields[0], wKvB))); // [ctx, H * (nope + v)]
    for (int64_t t = seq.qStart[s]; t < seq.qStart[s + 1]; ++t)
      for (int64_t h = 0; h < m.heads; ++h) {
        const T *query = q.row(t * m.heads + h);
        int64_t keyAt = h * (m.nope + m.v);
        attend(
            seq.tokenPos[t], out.row(t * m.heads + h), m.v,
            [&](int64_t j) {
              return (dot(query, kv.row(j) + keyAt, m.nope) +
                      dot(query + m.nope, ropeKeys.row(j), m.rope)) *
                     T(scale);
            },
            [&](int64_t j) { return kv.row(j) + keyAt + m.nope; });
      }
  }
  return out;
}

template <typename T>
Result<Array<T>> latentAttention(const Array<T> &qLat, const Array<T> &qRope, const Cache<T> &cache,
                                 int64_t layer, const SeqMeta &seq, double scale,
                                 CacheReader reader) {
  if (Status s = expectShape("latent_attention", "q_lat", {seq.tokens(), -1, -1}, qLat.shape); !s)
    return s.error();
  int64_t heads = qLat.dim(1), rank = qLat.dim(2);
  if (Status s = expectShape("latent_attention", "q_rope", {seq.tokens(), heads, -1}, qRope.shape);
      !s)
    return s.error();
  int64_t ropeDims = qRope.dim(2);
  if (Status s = expectShape("latent_attention", "fields of the cache", {rank, ropeDims},
                             cache.fields());
      !s)
    return s.error();
  if (Status s = seq.verify(cache.pages()); !s)
    return s.error();

  Array<T> out({seq.tokens(), heads, rank});
  for (int64_t s = 0; s < seq.seqs(); ++s) {
    Result<Array<T>> rows = gatherRows(cache, layer, seq, s, reader);
    if (!rows)
      return rows.error();
    for (int64_t r = seq.qStart[s] * heads; r < seq.qStart[s + 1] * heads; ++r)
      attend(
          seq.tokenPos[r / heads], out.row(r), rank,
          [&](int64_t j) {
            return (dot(qLat.row(r), rows->row(j), rank) +
                    dot(qRope.row(r), rows->row(j) + rank, ropeDims)) *
                   T(scale);
          },
          [&](int64_t j) { return rows->row(j); });
  }
  return out;
}

template <typename T>
Result<AbsorbedWeights<T>> absorb(const Array<T> &wKvB, const MlaShape &m) {
  if (Status s = expectShape("absorb", "w_kvb", {m.heads * (m.nope + m.v), m.kvRank}, wKvB.shape);
      !s)
    return s.error();
  AbsorbedWeights<T> w{Array<T>({m.heads, m.kvRank, m.nope}), Array<T>({m.heads, m.v, m.kvRank})};
  for (int64_t h = 0; h < m.heads; ++h) {
    int64_t first = h * (m.nope + m.v);
    for (int64_t i = 0; i < m.nope; ++i)
      for (int64_t c = 0; c < m.kvRank; ++c)
        w.k.row(h * m.kvRank + c)[i] = wKvB.row(first + i)[c];
    for (int64_t i = 0; i < m.v; ++i)
      std::copy_n(wKvB.row(first + m.nope + i), m.kvRank, w.v.row(h * m.v + i));
  }
  return w;
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template Result<Array<T>> mlaAttention(const Array<T> &, const Cache<T> &, int64_t,              \
                                         const Array<T> &, const SeqMeta &, double,                \
                                         const MlaShape &, Rounding);                              \
  template Result<Array<T>> latentAttention(const Array<T> &, const Array<T> &, const Cache<T> &,  \
                                            int64_t, const SeqMeta &, double, CacheReader);        \
  template Result<AbsorbedWeights<T>> absorb(const Array<T> &, const MlaShape &);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
