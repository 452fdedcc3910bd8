// Embedding, matrix products, and the ops that only move or add rows.
//
// Weights are stored [out, in] as in the checkpoint: y = x w^T. Sums run over
// ascending k in T, one accumulator. Encoded operands come dequantised.
#pragma once

#include "runtime/reference/Array.h"

namespace dsv3::reference {

/// y[t] = table[ids[t] - from]: ids [T], table [V, D] -> [T, D]. With a
/// vocabulary shard (`from` > 0 or V < `vocab`) rows outside the shard are zero;
/// `vocab` 0 means V. Error: an id outside [0, vocab).
template <typename T>
Result<Array<T>> embed(const Ids &ids, const Array<T> &table, int64_t from = 0, int64_t vocab = 0);

/// y[..., n] = sum_k x[..., k] w[n, k] (+ bias[n]): x [..., K], w [N, K],
/// bias [N] or absent -> [..., N].
template <typename T>
Result<Array<T>> linear(const Array<T> &x, const Array<T> &w, const Array<T> &bias = {});

/// One matrix per head: x [T, H, K], w [H, N, K] -> [T, H, N].
template <typename T> Result<Array<T>> batchedLinear(const Array<T> &x, const Array<T> &w);

/// One matrix per group of rows: rows offsets[e] .. offsets[e+1]-1 of x [R, K]
/// meet w[e] of w [E, N, K] -> [R, N]; offsets [E+1] ascend from 0. Rows from
/// offsets[E] on belong to nobody (padding) and come out zero.
template <typename T>
Result<Array<T>> groupedLinear(const Array<T> &x, const Array<T> &w, const Ids &offsets);

/// Elementwise a + b, shapes equal.
template <typename T> Result<Array<T>> add(const Array<T> &a, const Array<T> &b);

/// Cuts the last dimension into pieces of `sizes`, which must add up to it.
template <typename T>
Result<std::vector<Array<T>>> split(const Array<T> &x, const std::vector<int64_t> &sizes);

/// Joins along the last dimension; leading dimensions must be equal.
template <typename T> Result<Array<T>> concat(const std::vector<Array<T>> &parts);

/// y[s] = x[rows[s]] over the first dimension: x [T, ...], rows [S] -> [S, ...].
/// A row of -1 is padding and comes out zero. Error: a row outside [-1, T).
template <typename T> Result<Array<T>> selectRows(const Array<T> &x, const Ids &rows);

} // namespace dsv3::reference
