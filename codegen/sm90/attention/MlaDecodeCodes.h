// Attention of decode rows over a cache whose latent is stored as 8-bit codes, one scale per token: kernel.attn_split with a
// quantised query.
//
// One block of threads takes 64 heads of one item: a thread that copies pages of 64 tokens, a warpgroup that turns them into
// weights, and two that multiply these with V, each for its half of O's 256 latent lanes. A stage of weights lies between them,
// so that the tensor cores have both kinds of products at any time: the softmax of a page runs under the values of the one before.
//
//   scores: S  = (Q K^T) sq sk + Q_r K_r^T   codes times codes, then the query's and the token's scale; rotated lanes in bf16
//           W  = 2^(S c + log2 sk - m)       in f16; m, a row's reference, follows the exponents of W
//           l += W / sk                      in f32, before W is rounded
//   values: O^T += V^T W^T                   V^T in registers: codes become f16 there, exactly
//
// Tensor cores cut sums of FP8 products 13 bits below their largest addend (DeepSeek-V3, arXiv 2412.19437, section 3.3.2): over all 512
// lanes that would move a row of O by up to 9e-3. So Q K^T is two products of 256 lanes, which are added in float32: up to 2e-3.
// The first of the next page's flies under the softmax, its Q_r K_r^T begins when the registers of S are free again, then the second.
//
// FP8 products need both operands K-major, but V lies along tokens. So O is computed transposed: V^T is the operand in
// registers, read by transposing loads (pairs of lanes come along and split into rows r and r + 8 of a tile), W lies in shared
// memory as it is, heads by tokens. Then a row of O is a latent lane, heads are columns, and 16 heads cost 16 columns, not 64.
//
// W is in f16: E4M3 and E5M2 are subsets of f16, and two codes become two numbers by one instruction, where bf16 takes seven. As
// FP8, W would lose 3% of each weight, and its product would have to be promoted every page. The token's scale is part of the
// exponent, so that W is near 1 for whatever contributes most, however large or small scales are: 2^-24 to 2^8 is what f16 needs.
//
// Bits: pages are taken in order, references are a row's own, and O has one chain of additions.
#pragma once

#include "codegen/sm90/attention/OnlineSoftmax.h"

namespace dsv3::codegen {

/// What a body is made for.
struct MlaDecodeCodesShape {
  int64_t heads = 0;
  int64_t pages = 0; ///< row length of the block table
  double scale = 0;
  mlir::Type codes; ///< of the cache: f8E4M3FN or f8E5M2; the query is f8E4M3FN

  static constexpr int64_t kHeads = 64, kPage = 64, kLatent = 512, kRope = 64, kStages = 4, kWeights = 2, kThreads = 512;
  // A page in one layer (ir::KvType): codes, rotated keys, scales.
  static constexpr int64_t kRopeAt = kPage * kLatent, kScaleAt = kRopeAt + kPage * kRope * 2, kPageBytes = kScaleAt + kPage * 4;
  static constexpr int64_t kItemFields = 5; ///< {sequence, first page, end page, slot, context}

  int64_t headTiles() const { return (heads + kHeads - 1) / kHeads; }
  /// Heads that a tile computes O for.
  int64_t columns() const { return heads < kHeads ? (heads + 7) / 8 * 8 : kHeads; }
  /// Q, pages, W with factors, sums and their logarithms, logarithms and inverses of scales; a full and a free barrier of every stage.
  int64_t smemBytes() const {
    return kHeads * (kLatent + 2 * kRope) + kStages * kPageBytes + kWeights * (kHeads * kPage * 2 + kHeads * 4) + 2 * kHeads * 4 + 4 * kPage * 4 +
           16 * (1 + kStages + kWeights + 1);
  }
};

/// Writes the kernel. Its arguments, in order: the step's scalars; tensor maps of the query's codes [T, H, 512] and of q_rope
/// [T, H, 64]; the query's scales [T, H]; tensor maps of the cache's codes [page, 64, 512] and rotated keys [page, 64, 64]; the
/// cache as pages of f32; block table, items, parts; out, partial, lse; the layer (i64).
tile::KernelOp buildMlaDecodeCodes(TileBuilder &t, llvm::StringRef symbol, const MlaDecodeCodesShape &shape);

} // namespace dsv3::codegen
