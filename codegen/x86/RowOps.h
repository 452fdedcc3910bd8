// Loops over the lanes of a row, shared by the emitters that walk over rows.
#pragma once

#include "codegen/x86/EmitterBase.h"

namespace dsv3::codegen {

/// Calls `body(lane, count)` for each 16 lanes of a row of `n` values: whole vectors in a loop, then a partial one.
inline void forLanes(KernelBuilder &k, int64_t n, llvm::function_ref<void(Value lane, int64_t count)> body) {
  k.loop(0, n / kLanes * kLanes, kLanes, [&](Value lane) { body(lane, kLanes); });
  if (n % kLanes)
    body(k.idx(n / kLanes * kLanes), n % kLanes);
}

inline Value lanesAt(KernelBuilder &k, Value row, Type elem, Value lane) { return k.at(row, k.mul(lane, elemBytes(elem))); }

/// Sum over `n` lanes of what `value(lane, count)` returns (zero beyond `count`): 16 chains, then a fixed tree.
inline Value sumLanes(KernelBuilder &k, int64_t n, llvm::function_ref<Value(Value lane, int64_t count, Value acc)> step) {
  int64_t whole = n / kLanes * kLanes;
  Value acc = k.cf(k.vf32, 0);
  if (whole)
    acc = k.loop(k.idx(0), k.idx(whole), kLanes, acc, [&](Value lane, ValueRange in) {
      return SmallVector<Value>{step(lane, kLanes, in[0])};
    })[0];
  if (n % kLanes)
    acc = step(k.idx(whole), n % kLanes, acc);
  return k.reduceAdd(acc);
}

/// 1 / sqrt(sum / n + eps) in every lane.
inline Value rmsScale(KernelBuilder &k, Value sumOfSquares, int64_t n, double eps) {
  Value mean = k.fdiv(sumOfSquares, k.cf(k.f32, double(n)));
  return k.splat(k.fdiv(k.cf(k.f32, 1.0), k.fsqrt(k.fadd(mean, k.cf(k.f32, eps)))));
}

/// Rotates `dims` lanes of a row from lane `at` by the table row of `position` (cosines, then sines).
/// Source and destination may be the same row.
void rotateLanes(KernelBuilder &k, mlir::Attribute rope, Value tableRow, Value src, Type from, int64_t srcLane, Value dst, Type to,
                 int64_t dstLane);

} // namespace dsv3::codegen
