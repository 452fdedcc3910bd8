// MLA's multi-head form in two steps, as kernels take it: keys and values of every head are expanded
// from the cache block by block, then attended to. Together equal bit for bit to `mlaAttention`.
#pragma once

#include "runtime/reference/Attention.h"

namespace dsv3::reference {

/// A block is kPageTokens keys of one sequence; blocks of a step: sequence by sequence, ascending.
template <typename T> struct ExpandedKeys {
  Array<T> keys;   ///< [KB, H, nope + rope, 64]: a row per lane
  Array<T> values; ///< [KB, H, 64, v]
};

/// wK [H, nope, latent], wV [H, v, latent]; keys at or past the sequence's context are zero.
template <typename T>
Result<ExpandedKeys<T>> expandKeys(const Cache<T> &cache, int64_t layer, const Array<T> &wK,
                                   const Array<T> &wV, const SeqMeta &seq);

/// q [T, H, nope + rope] -> [T, H, v], causal. The last `ropeLanes` lanes of a key are its rotary part:
/// the score adds the two dot products in that order, as `mlaAttention` does.
template <typename T>
Result<Array<T>> expandedAttention(const Array<T> &q, const ExpandedKeys<T> &kv, const SeqMeta &seq,
                                   double scale, int64_t ropeLanes);

} // namespace dsv3::reference
