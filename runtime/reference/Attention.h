// Multi-head latent attention (DeepSeek-V2, section 2.1) over the paged cache,
// in its two algebraically equal forms.
//
// Both are causal: the row at position p reads keys 0 .. p of its sequence. The
// softmax subtracts the row's maximum; nothing inside is rounded. Padded rows
// come out zero. Appends of this step must have been done.
#pragma once

#include "runtime/reference/Cache.h"

namespace dsv3::reference {

/// Widths of one head; kvRank is shared by all heads.
struct MlaShape {
  int64_t heads = 0, nope = 128, rope = 64, v = 128, kvRank = 512;
};

/// MHA form (prefill). q [T, H, nope + rope] with rotated rope lanes; wKvB
/// [H * (nope + v), kvRank], per head k_nope rows then v rows. k and v are
/// expanded from the cached latent rows, this step's own included, and rounded
/// to `expanded`: so how a prompt is cut into chunks changes no bit.
/// score = (q_nope . k_nope + q_rope . k_rope) * scale -> o [T, H, v].
template <typename T>
Result<Array<T>> mlaAttention(const Array<T> &q, const Cache<T> &cache, int64_t layer,
                              const Array<T> &wKvB, const SeqMeta &seq, double scale,
                              const MlaShape &shape, Rounding expanded = Rounding::Exact);

/// Absorbed form (decode). qLat [T, H, kvRank] = q_nope W_k, qRope [T, H, rope]:
/// score = (qLat . latent + qRope . k_rope) * scale; the value is the latent
/// row itself -> [T, H, kvRank]. A quantised qLat (its numbers are given) meets
/// the codes of a quantised cache.
template <typename T>
Result<Array<T>> latentAttention(const Array<T> &qLat, const Array<T> &qRope, const Cache<T> &cache,
                                 int64_t layer, const SeqMeta &seq, double scale,
                                 CacheReader reader = CacheReader::Numbers);

/// kv_b in the two orientations that absorption multiplies with:
/// k [H, kvRank, nope] (transposed) and v [H, v, kvRank], for `batchedLinear`.
template <typename T> struct AbsorbedWeights {
  Array<T> k, v;
};
template <typename T>
Result<AbsorbedWeights<T>> absorb(const Array<T> &wKvB, const MlaShape &shape);

} // namespace dsv3::reference
