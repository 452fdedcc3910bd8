// A GEMM whose tokens are wgmma's M: bf16 x bf16, FP8 x FP8 or int8 x int8 with scales, from shared memory; persistent, for many
// tokens. One weight or a pair of them (gate and up, side by side in a tile), of one matrix or of experts.
#pragma once

#include "codegen/sm90/TileBuilder.h"
#include "codegen/sm90/gemm/GemmSchedule.h"

namespace dsv3::codegen {

struct RowsSpec {
  RowsSchedule schedule;
  int64_t n = 0, k = 0;
  int64_t weights = 1;    ///< 2: y = silu(x w0^T) * (x w1^T); a tile holds bn / 2 rows of each
  Operands operands = Operands::Bf16; ///< not expanded
  int64_t experts = 0;    ///< of stacked weights; rows of x belong to experts. 0: plain rows
  bool gathers = false;   ///< of experts: rows of x are tokens', picked by row
  int64_t rowTiles = 0;   ///< experts: tiles of rows at most
  mlir::Type outElem;
  bool codes = false;     ///< y as i8 with a scale per row and 128 columns, which are a tile's
  mlir::Type via;         ///< of a pair: what both products are rounded to first
  int64_t outPitch = 0;   ///< elements
  int64_t rowScalar = 0;  ///< DSV3_SCALAR_* that counts rows
  int64_t rowFactor = 1;  ///< rows per unit of it

  int64_t columns() const { return schedule.bn / weights; } ///< of y that a tile makes
  /// Of a tensor map of weights.
  int64_t boxRows() const { return schedule.narrow ? columns() / 2 : columns(); }
  int64_t piece() const { return RowsSchedule::piece(columns()); }
  /// Results of bf16 that no edge of N cuts but in whole pieces.
  bool inPieces() const { return outElem.isBF16() && n % 64 == 0 && columns() % 32 == 0 && !codes; }
  bool staged() const { return schedule.staged && inPieces(); }
  bool later() const { return schedule.later && inPieces() && !promotes(operands); }
  /// Where no tile reads scales past the last of them.
  bool ahead() const { return schedule.ahead && operands == Operands::Int8 && (n % columns() == 0 || paddedScales() % columns() == 0); }
  int64_t parts() const { return weights == 1 && !promotes(operands) && schedule.bn % (64 * schedule.parts) == 0 ? schedule.parts : 1; }
  int64_t kBlocks() const { return (k + 127) / 128; }
  int64_t paddedScales() const { return (n + kScalePad - 1) / kScalePad * kScalePad; } ///< int8: of a matrix
};

/// Dynamic shared memory of such a kernel.
int64_t sharedBytes(const RowsSpec &spec);

/// Parameters: the step's scalars; tensor map of x [rows, K] (box bm x bk), where scaled the address of its scales
/// [rows, K / 128], or [rows] of int8 per token; per weight a tensor map of [experts,] N, K (box `boxRows` x bk), where
/// scaled its scales, FP8 [experts, N / 64, K / 128], int8 [experts, paddedScales]; address of y, of codes also of its
/// scales [rows, N / 128]; of experts the address of their offsets, i32 [experts + 1]. Which gather rows have the address of x and,
/// behind the offsets, that of the tokens of rows, i32 [rows].
void buildRowsKernel(TileBuilder &k, llvm::StringRef symbol, const RowsSpec &spec);

} // namespace dsv3::codegen
