// Attention of decode rows over a cache whose latent is stored as 8-bit codes, one scale per token: kernel.attn_split with a
// quantised query.
//
// One block of threads takes 64 heads of one item, two consumer warpgroups and one thread that copies, as in MlaDecode.h. Pages
// go in pairs: wg0 scores the even one, wg1 the odd one, and both add both to their half of O's 256 latent lanes.
//
//   S  = (Q K^T) sq sk     codes times codes, 16 k-steps; the product is scaled by the query's and the token's scale
//   S += Q_r K_r^T         the rotated lanes in bf16, on top of it
//   P  = 2^(S c - m c)     one reference m per pair, from the maxima of both pages
//   W  = P sk              in bf16: the token's scale moves from V to P, so that V's codes are operands as they are
//   O^T += V^T W^T         V^T in registers: codes become bf16 there, exactly
//
// FP8 products need both operands K-major, but V lies along tokens. So O is computed transposed: V^T is the operand in
// registers, read by transposing loads (pairs of lanes come along and split into rows r and r + 8 of a tile), W lies in shared
// memory as it is, heads by tokens. Then a row of O is a latent lane, heads are columns, and 16 heads cost 16 columns, not 64.
// W stays in bf16: as FP8 it would lose 3% of each weight, and its product would have to be promoted every page.
//
// Bits: a page is even or odd by its position, references are a row's own, and O has one chain of additions.
#pragma once

#include "codegen/sm90/attention/OnlineSoftmax.h"

#include <array>

namespace dsv3::codegen {

/// What a body is made for.
struct MlaDecodeCodesShape {
  int64_t heads = 0;
  int64_t pages = 0; ///< row length of the block table
  double scale = 0;
  mlir::Type codes; ///< of the cache: f8E4M3FN or f8E5M2; the query is f8E4M3FN

  static constexpr int64_t kHeads = 64, kPage = 64, kLatent = 512, kRope = 64, kStages = 2;
  // A page in one layer (ir::KvType): codes, rotated keys, scales.
  static constexpr int64_t kRopeAt = kPage * kLatent, kScaleAt = kRopeAt + kPage * kRope * 2, kPageBytes = kScaleAt + kPage * 4;
  static constexpr int64_t kItemFields = 5; ///< {sequence, first page, end page, slot, context}

  int64_t headTiles() const { return (heads + kHeads - 1) / kHeads; }
  /// Heads that a tile computes O for.
  int64_t columns() const { return heads < kHeads ? (heads + 7) / 8 * 8 : kHeads; }
  /// Q, pages, W, maxima, sums and factors; barriers of Q, of the stages of two rings, three gates.
  int64_t smemBytes() const {
    return kHeads * (kLatent + 2 * kRope) + 2 * kStages * kPageBytes + 2 * kHeads * kPage * 2 + 5 * kHeads * 4 + 8 * (2 + 4 * kStages + 3);
  }
};

/// Writes the kernel. Its arguments, in order: the step's scalars; tensor maps of the query's codes [T, H, 512] and of q_rope
/// [T, H, 64]; the query's scales [T, H]; tensor maps of the cache's codes [page, 64, 512] and rotated keys [page, 64, 64]; the
/// cache as pages of f32; block table, items, parts; out, partial, lse; the layer (i64).
tile::KernelOp buildMlaDecodeCodes(TileBuilder &t, llvm::StringRef symbol, const MlaDecodeCodesShape &shape);

} // namespace dsv3::codegen
