// A GEMM whose tokens are wgmma's M: bf16 x bf16 from shared memory, persistent, for many tokens.
#pragma once

#include "codegen/sm90/TileBuilder.h"
#include "codegen/sm90/gemm/GemmSchedule.h"

namespace dsv3::codegen {

struct RowsSpec {
  RowsSchedule schedule;
  int64_t n = 0, k = 0;
  mlir::Type outElem;
  int64_t outPitch = 0;   ///< elements
  int64_t rowScalar = 0;  ///< DSV3_SCALAR_* that counts rows
  int64_t rowFactor = 1;  ///< rows per unit of it
};

/// Parameters: the step's scalars, tensor maps of x [rows, K] (box bm x 64) and w [N, K] (box bn x 64), address of y.
void buildRowsKernel(TileBuilder &k, llvm::StringRef symbol, const RowsSpec &spec);

} // namespace dsv3::codegen
