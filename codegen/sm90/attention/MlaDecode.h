// Attention of decode rows over the paged latent cache: the kernel behind kernel.attn_split.
//
// One block of threads takes 64 heads of one item (pages of 64 cached tokens of one sequence): two consumer warpgroups
// and one thread that copies. Pages go in pairs, the even one in one buffer, the odd one in another. V is the first 512
// lanes of a cached row, so that the page in shared memory is operand B twice, as K (K-major) and as V (MN-major).
//
//   wg0: S0 = Q K0^T, P0;  O[:,   0:256] += P0 V0 (A in registers), then += P1 V1 (A in shared memory)
//   wg1: S1 = Q K1^T, P1;  O[:, 256:512] += P0 V0 (A in shared memory) under its own softmax, then += P1 V1 (registers)
//
// Hand-over A (wg0 -> wg1) is P0 and its row maxima, B (wg1 -> wg0) P1 and its own, by one gate each; so both
// have one running maximum per row: m, then after the even page, then after the odd one. P is parked in the 64 lanes of
// rope of its own page, which nobody reads once S is known.
//
// Barriers per buffer: one "landed" per 64 columns, since S begins with the first; one "free" per group of columns that
// one warpgroup reads as V, in the order of its products, so that the next page refills what is done. wg0 issues the
// first products of the next S before its last product of this pair has drained.
//
// Shared memory: Q 73728 + two pages 147456 + maxima and sums 1024 + barriers. Registers: O is 128 of the 232 of a
// consumer, S 32, P 16; the copying thread has 40.
//
// The last pair is a copy of the loop's body of its own: only there are keys masked and rows of V beyond the context
// cleared (a page may hold NaN there, and 0 * NaN is NaN). An odd number of pages reads the last page twice, all masked.
#pragma once

#include "codegen/sm90/attention/OnlineSoftmax.h"

#include <array>

namespace dsv3::codegen {

/// What a body is made for.
struct MlaDecodeShape {
  int64_t heads = 0;
  int64_t pages = 0;  ///< row length of the block table
  int64_t chunks = 1; ///< products with V are cut in this many along columns: a finer grain of release (1 or 2)
  double scale = 0;

  static constexpr int64_t kHeads = 64; ///< of a block: rows of an mma
  static constexpr int64_t kPage = 64, kLatent = 512, kRope = 64, kRow = kLatent + kRope;
  static constexpr int64_t kItemFields = 5; ///< {sequence, first page, end page, slot, context}
  /// Q, two pages, maxima and sums; barriers of Q, of 64 columns of each page and of its groups, three gates.
  int64_t smemBytes() const { return 3 * kHeads * kRow * 2 + 4 * kHeads * 4 + 8 * (2 + 2 * (kRow / 64 + 2 * chunks) + 3); }
  int64_t headTiles() const { return (heads + kHeads - 1) / kHeads; }
};

/// Writes the kernel. Its arguments, in order: the step's scalars; tensor maps of q_latent [T, H, 512], of q_rope
/// [T, H, 64] and of the cache as rows of 576; block table, items, parts; out, partial, lse; the layer (i64).
tile::KernelOp buildMlaDecode(TileBuilder &t, llvm::StringRef symbol, const MlaDecodeShape &shape);

} // namespace dsv3::codegen
