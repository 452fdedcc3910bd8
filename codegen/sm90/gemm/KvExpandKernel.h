// Keys and values of every head from cached rows: a product of w_k[h] and w_v[h] with pages of the cache.
//
// Weight rows are wgmma's M, pages (64 cached rows) side by side its N, so that FP8 weights work too. An item is a tile of
// one head's rows of w_k or of w_v and one, two or four key blocks of the step's list; its pages may lie anywhere. The
// rotary lanes of a key are the cache's, copied by the first tile of a head.
#pragma once

#include "codegen/sm90/gemm/ColsKernel.h"

namespace dsv3::codegen {

struct KvExpandSpec {
  ColsSchedule schedule;      ///< `tokens`: 64 times the key blocks of an item
  int64_t heads = 0;
  int64_t nope = 0, values = 0, latent = 0, rope = 0;
  int64_t pages = 0;          ///< of a row of the block table
  bool blockScaled = false;
  bool gathered = false;      ///< the cached rows are those of kv_rows, key block by key block
  mlir::Type outElem;         ///< bf16

  static constexpr int64_t kPage = 64;
};

/// As for products: one weight whose rows are those of w_k and w_v, K the latent.
GemmShape kvExpandShape(const KvExpandSpec &spec, int64_t keyBlocks);
int64_t sharedBytes(const KvExpandSpec &spec);

/// Parameters: the step's scalars; tensor map of the cache or of the gathered rows (latent + rope, box 64 x 64) and its address; of w_k, then
/// of w_v, a tensor map ([heads, N, latent], box bm x 64) or the addresses of data and scales; key blocks, block table and
/// context lengths of the step; addresses of keys [KB, H, 64, nope + rope] and values [KB, H, 64, v]; the layer, i64.
void buildKvExpandKernel(TileBuilder &k, llvm::StringRef symbol, const KvExpandSpec &spec);

} // namespace dsv3::codegen
