// Causal attention of prompt rows over expanded keys and values: the kernel behind kernel.attn_prefill.
//
// One block takes 128 query rows of one sequence and one head: two consumer warpgroups of 64 rows, one thread that copies.
// Keys and values come in pairs of blocks (128 keys) from position 0, through two rings of two stages each.
//
//   S_j = Q K_j^T            12 k-steps of m64n128k16, both operands in shared memory
//   O += P_{j-1} V_{j-1}      8 k-steps, P in registers; in flight under the softmax of S_j
//   P_j = 2^(S_j c - m c)     the reference m as OnlineSoftmax says
//
// Both products of a step are issued before the first is waited for, so the tensor cores have work while the exponentials
// run; the other warpgroup fills what remains. No hand-over orders the two: a head of 192 lanes is rich enough in products.
//
// Bits: a row sees the pairs 0, 1, ... up to its tile's last; pairs beyond its own position are masked, add zero and move
// nothing. So a row's result depends neither on where its chunk or tile begins nor on its neighbours. An odd number of
// blocks reads the last one twice: what is masked must be finite, and memory behind the last block may hold NaN.
//
// Work: (group of heads, tile, head). Heads of a group run side by side and share L2 with their keys and values; in a group
// the latest tiles come first, as they have the most keys. One item a block: the hardware deals out the next when one ends.
// A sequence's tiles are found by bisection: tile v of the step belongs to the last sequence s with q_start[s]/128 + s <= v,
// which leaves each sequence enough tiles, and at most one too many.
//
// Shared memory: Q 49152, keys 98304, values 65536, sums 2048, barriers. Registers: O 64, S 64, P 32 of the 232 of a consumer.
#pragma once

#include "codegen/sm90/attention/OnlineSoftmax.h"

namespace dsv3::codegen {

/// What a body is made for.
struct MlaPrefillShape {
  int64_t heads = 0;
  int64_t lanes = 192;  ///< of a query and a key: a multiple of 64
  int64_t values = 128; ///< lanes of a value: a multiple of 64
  int64_t seqs = 0;     ///< capacity of the step
  double scale = 0;

  static constexpr int64_t kBlock = 64;            ///< keys of a block of kv_expand
  static constexpr int64_t kKeys = 2 * kBlock;     ///< of a step of the online softmax
  static constexpr int64_t kRows = 128, kWarpgroups = 2, kStages = 2;
  static constexpr int64_t kMaxGroup = 16; ///< heads of a group
  /// Tiles that a step of `tokens` rows may need: one partial tile per sequence.
  static int64_t tiles(int64_t tokens, int64_t seqs) { return tokens / kRows + seqs; }
  /// Queries, keys and values, sums; two barriers per stage of a ring.
  int64_t smemBytes() const { return 2 * (kRows * lanes + kStages * kKeys * (lanes + values)) + kWarpgroups * 64 * 4 * 4 + 2 * 8 * (1 + 2 * kStages); }
};

/// Writes the kernel. Its arguments, in order: the step's scalars; tensor maps of q as [T, H lanes], of keys as rows
/// [KB H 64, lanes], of values as rows [KB H 64, values]; q_start, ctx_len, kblock_start; out as [T, H values].
tile::KernelOp buildMlaPrefill(TileBuilder &t, llvm::StringRef symbol, const MlaPrefillShape &shape);

} // namespace dsv3::codegen
