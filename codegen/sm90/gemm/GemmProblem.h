// What a product op asks for, read off its types once: shapes, pitches, rounding, and what the hardware forbids.
#pragma once

#include "codegen/sm90/gemm/GemmSchedule.h"
#include "codegen/targets/KernelEmitter.h"

namespace dsv3::codegen {

/// How a value of token rows lies in memory, in elements. A dense product reads whole rows, whatever their shape; a
/// batched one has a row per token and head.
struct RowLayout {
  int64_t offset = 0;    ///< before lane 0 of row 0
  int64_t pitch = 0;     ///< between tokens
  int64_t headPitch = 0; ///< between heads of a token; 0 when dense
};

/// kernel.gemm, gated_gemm, batched_gemm, grouped_gemm or grouped_gated_gemm.
struct GemmProblem {
  explicit GemmProblem(mlir::Operation *op);

  mlir::Operation *op;
  GemmShape shape;
  llvm::SmallVector<unsigned, 2> weights; ///< operand numbers: one, or gate and up
  RowLayout x, y;
  mlir::Type xElem, weightElem, outElem;
  mlir::Type via;           ///< gated: what both products are rounded to first
  bool batched = false;
  bool grouped = false; ///< rows of experts, behind offsets that only the device knows
  bool decode = false;  ///< in a decode program: few rows, numerics of their own

  /// What `shape.operands` says of x and w, where `whyIllegal` is empty.
  bool weightsScaled() const { return shape.operands != Operands::Bf16; }
  bool rowsScaled() const { return scalesRows(shape.operands); }
  /// Bytes from the codes of x to its scales, and the same of y where it is quantised.
  int64_t scalesOfRows() const;
  int64_t scalesOfOut() const;

  unsigned outOperand() const { return op->getNumOperands() - 1; }
  unsigned offsetsOperand() const { return unsigned(1 + weights.size()); } ///< grouped
  /// Rows of x are picked by an operand behind the offsets, token_of: the kernel gathers them itself.
  bool gathers() const { return shape.gathers; }
  unsigned tokenOfOperand() const { return offsetsOperand() + 1; }
  /// Empty, or what the hardware or the kernels cannot do with these types and pitches.
  std::string whyIllegal() const;
  /// CTAs that share K; experts do not, nor do chunks of prompts (a router over 4096 rows: 34 us whole, 80 in parts) unless
  /// sums are exact.
  int64_t split() const;
  /// "k_ascending", "k_blocks128" (sums of 128 k, scaled, then ascending), each maybe in `split` parts: "k_split4". Sums of
  /// integers have no order, in parts or whole.
  std::string chain() const;
};

/// Whether a weight is stored as codes with scales.
bool isScaled(mlir::RankedTensorType weight);
/// int8 with a scale per row.
bool isInt8(mlir::RankedTensorType weight);
/// Why no kernel reads an encoded weight as it is stored, empty if one does: FP8 blocks have one scale for 64 rows and 128 k,
/// int8 rows one.
std::string whyNotStored(mlir::RankedTensorType weight);
/// Why the weights `operands` cannot be multiplied on tensor cores, or do not go together; empty if they do.
std::string whyNotWeights(mlir::Operation *op, llvm::ArrayRef<unsigned> operands);

/// FP8: rows of 64 in wgmma's fragment order, or row-major where x is FP8 too; scales per 64 rows and 128 k. int8: row-major, a
/// scale per row, padded to kScalePad of them. Null leaves bf16 row-major.
kernel::PackedAttr gemmWeightEncoding(mlir::RankedTensorType type, bool rowsScaled = false);

} // namespace dsv3::codegen
