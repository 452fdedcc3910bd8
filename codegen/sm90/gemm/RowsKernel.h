// A GEMM whose tokens are wgmma's M: bf16 x bf16, or FP8 x FP8 with block scales, from shared memory; persistent, for many
// tokens.
#pragma once

#include "codegen/sm90/TileBuilder.h"
#include "codegen/sm90/gemm/GemmSchedule.h"

namespace dsv3::codegen {

struct RowsSpec {
  RowsSchedule schedule;
  int64_t n = 0, k = 0;
  bool scaled = false;    ///< FP8: x with a scale per row and 128 k, w with one per 64 rows and 128 k
  mlir::Type outElem;
  int64_t outPitch = 0;   ///< elements
  int64_t rowScalar = 0;  ///< DSV3_SCALAR_* that counts rows
  int64_t rowFactor = 1;  ///< rows per unit of it
};

/// Parameters: the step's scalars; tensor map of x [rows, K] (box bm x bk), where scaled the address of its scales
/// [rows, K / 128]; the same of w [N, K] (box bn x bk), scales [N / 64, K / 128]; address of y.
void buildRowsKernel(TileBuilder &k, llvm::StringRef symbol, const RowsSpec &spec);

} // namespace dsv3::codegen
