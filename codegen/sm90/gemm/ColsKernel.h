// A GEMM whose weight rows are wgmma's M (64 a warpgroup) and whose tokens are its N (8 to 256), for few tokens, for
// experts' groups of rows, and for weights that are expanded in registers.
//
// What an item is (a tile of a dense or a batched product, of a group of rows) is apart from how it is multiplied and
// stored: `ColsSource` makes the work and says where an item lies.
#pragma once

#include "codegen/sm90/TileBuilder.h"
#include "codegen/sm90/gemm/GemmSchedule.h"

#include <functional>

namespace dsv3::codegen {

struct ColsSpec {
  ColsSchedule schedule;
  int64_t n = 0, k = 0;
  int64_t weights = 1;      ///< 2: y = silu(x w0^T) * (x w1^T)
  bool blockScaled = false; ///< weights are FP8 in fragment order with f32 scales per 64 rows and 128 k
  bool stacked = false;     ///< w has a leading dim (heads, experts)
  bool xHeads = false;      ///< x has a leading dim of heads
  mlir::Type outElem;
  mlir::Type via;           ///< gated: what both products are rounded to first
  int64_t outPitch = 0;     ///< elements

  int64_t kBlocks() const { return (k + 127) / 128; } ///< FP8: blocks of a row, padded
  int64_t nBlocks() const { return (n + 63) / 64; }
};

/// An item: 64 * warpgroups weight rows times `tokens` rows of x.
struct ColsItem {
  mlir::Value stack; ///< entry of stacked weights (and of x with heads); null when there is one
  mlir::Value n;     ///< first weight row
  mlir::Value row;   ///< first row of x and y
  mlir::Value rows;  ///< rows from `row` that exist
  mlir::Value column; ///< of y, for weight row 0: null for 0
  mlir::Value part;  ///< of the cluster's split; null when there is one
};

/// Where items come from.
struct ColsSource {
  llvm::SmallVector<mlir::Type> params; ///< appended to the kernel's
  std::function<mlir::Value(TileBuilder &, mlir::Value scalars, mlir::ValueRange params)> work;
  std::function<ColsItem(TileBuilder &, mlir::ValueRange fields)> item;
};

/// Dense and batched products: rows are counted by `rowFactor` times a scalar of the step.
ColsSource denseColsSource(TileBuilder &k, const ColsSpec &spec, int64_t batch, int64_t rowScalar, int64_t rowFactor);

/// Parameters: the step's scalars; tensor map of x ([heads,] rows, K; box tokens x 64); per weight a tensor map ([stack,] N, K;
/// box bm x 64), or for FP8 the addresses of data and scales; address of y; the source's own.
void buildColsKernel(TileBuilder &k, llvm::StringRef symbol, const ColsSpec &spec, const ColsSource &source);

} // namespace dsv3::codegen
