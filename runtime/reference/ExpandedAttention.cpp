#include "runtime/reference/ExpandedAttention.h"

#include <algorithm>
#include <cmath>

namespace dsv3::reference {

namespace {

int64_t blocksOf(int64_t context) { return (context + kPageTokens - 1) / kPageTokens; }

/// First block of each sequence, and their number at the end.
std::vector<int64_t> blockStarts(const SeqMeta &seq) {
  std::vector<int64_t> start{0};
  for (int32_t context : seq.ctxLen)
    start.push_back(start.back() + blocksOf(context));
  return start;
}

template <typename T> T dot(const T *a, const T *b, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += a[i] * b[i];
  return sum;
}

/// Key `lanes` apart: lane i of key j of one head of one block is at keys[i * 64 + j].
template <typename T> T dotLanes(const T *q, const T *keys, int64_t n) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i)
    sum += q[i] * keys[i * kPageTokens];
  return sum;
}

} // namespace

template <typename T>
Result<ExpandedKeys<T>> expandKeys(const Cache<T> &cache, int64_t layer, const Array<T> &wK,
                                   const Array<T> &wV, const SeqMeta &seq) {
  if (Status s = expectShape("kv_expand", "w_k", {-1, -1, cache.fields()[0]}, wK.shape); !s)
    return s.error();
  int64_t heads = wK.dim(0), nope = wK.dim(1), latent = wK.dim(2), rope = cache.width() - latent;
  if (Status s = expectShape("kv_expand", "w_v", {heads, -1, latent}, wV.shape); !s)
    return s.error();
  int64_t v = wV.dim(1), lanes = nope + rope;
  std::vector<int64_t> start = blockStarts(seq);
  ExpandedKeys<T> out{Array<T>({start.back(), heads, lanes, kPageTokens}),
                      Array<T>({start.back(), heads, kPageTokens, v})};
  for (int64_t s = 0; s < seq.seqs(); ++s) {
    Result<Array<T>> rows = gatherRows(cache, layer, seq, s);
    if (!rows)
      return rows.error();
    for (int64_t j = 0; j < rows->dim(0); ++j)
      for (int64_t h = 0; h < heads; ++h) {
        int64_t block = (start[s] + j / kPageTokens) * heads + h, slot = j % kPageTokens;
        T *key = out.keys.data.data() + block * lanes * kPageTokens + slot;
        for (int64_t i = 0; i < nope; ++i)
          key[i * kPageTokens] = dot(rows->row(j), wK.row(h * nope + i), latent);
        for (int64_t i = 0; i < rope; ++i)
          key[(nope + i) * kPageTokens] = rows->row(j)[latent + i];
        T *value = out.values.data.data() + (block * kPageTokens + slot) * v;
        for (int64_t i = 0; i < v; ++i)
          value[i] = dot(rows->row(j), wV.row(h * v + i), latent);
      }
  }
  return out;
}

/// One row of q against keys 0 .. position, whose blocks of this head are `stride` values apart.
template <typename T>
static void attend(const T *q, const T *keys, int64_t keyStride, const T *values, int64_t valueStride,
                   int64_t position, T scale, int64_t nope, int64_t rope, T *out, int64_t v) {
  std::vector<T> p(position + 1);
  for (int64_t j = 0; j <= position; ++j) {
    const T *key = keys + j / kPageTokens * keyStride + j % kPageTokens;
    p[j] = (dotLanes(q, key, nope) + dotLanes(q + nope, key + nope * kPageTokens, rope)) * scale;
  }
  T peak = *std::max_element(p.begin(), p.end()), sum = 0;
  for (T &x : p)
    sum += x = std::exp(x - peak);
  for (int64_t j = 0; j <= position; ++j) {
    const T *value = values + j / kPageTokens * valueStride + j % kPageTokens * v;
    T weight = p[j] / sum;
    for (int64_t i = 0; i < v; ++i)
      out[i] += weight * value[i];
  }
}

template <typename T>
Result<Array<T>> expandedAttention(const Array<T> &q, const ExpandedKeys<T> &kv, const SeqMeta &seq,
                                   double scale, int64_t ropeLanes) {
  if (Status s = expectShape("attn_prefill", "q", {seq.tokens(), -1, -1}, q.shape); !s)
    return s.error();
  std::vector<int64_t> start = blockStarts(seq);
  int64_t heads = q.dim(1), lanes = q.dim(2);
  if (Status s = expectShape("attn_prefill", "keys", {start.back(), heads, lanes, kPageTokens},
                             kv.keys.shape);
      !s)
    return s.error();
  if (Status s = expectShape("attn_prefill", "values", {start.back(), heads, kPageTokens, -1},
                             kv.values.shape);
      !s)
    return s.error();
  if (ropeLanes < 0 || ropeLanes > lanes)
    return usageError("attn_prefill: expected at most " + std::to_string(lanes) +
                      " rotary lanes, got " + std::to_string(ropeLanes));
  int64_t v = kv.values.dim(3), keySize = lanes * kPageTokens, valueSize = kPageTokens * v;
  Array<T> out({seq.tokens(), heads, v});
  for (int64_t s = 0; s < seq.seqs(); ++s)
    for (int64_t t = seq.qStart[s]; t < seq.qStart[s + 1]; ++t)
      for (int64_t h = 0; h < heads; ++h) {
        int64_t first = start[s] * heads + h;
        attend(q.row(t * heads + h), kv.keys.data.data() + first * keySize, heads * keySize,
               kv.values.data.data() + first * valueSize, heads * valueSize, seq.tokenPos[t],
               T(scale), lanes - ropeLanes, ropeLanes, out.row(t * heads + h), v);
      }
  return out;
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template Result<ExpandedKeys<T>> expandKeys(const Cache<T> &, int64_t, const Array<T> &,         \
                                              const Array<T> &, const SeqMeta &);                  \
  template Result<Array<T>> expandedAttention(const Array<T> &, const ExpandedKeys<T> &,           \
                                              const SeqMeta &, double, int64_t);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
