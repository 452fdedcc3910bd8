// How int4 weights are stored for wgmma, which of them are, and which products read them.
#pragma once

#include "codegen/sm90/gemm/GemmProblem.h"
#include "codegen/sm90/gemm/Int4Schedule.h"

namespace dsv3::codegen {

/// What a product of int4 weights asks for beside its GemmProblem.
struct Int4Problem : GemmProblem {
  explicit Int4Problem(mlir::Operation *op);

  bool wide = false;     ///< x is bf16, not codes
  bool e4m3 = false;     ///< x is E4M3, not int8
  bool wGrouped = false; ///< weights have a scale per row and group of K, else per row
  bool xGrouped = false; ///< x has a scale per row and 128 k, else per row (codes)
  bool zeros = false;    ///< weights have zero points
  bool codesOut = false; ///< y is stored as codes with a scale per row and 128 columns
  bool e4m3Out = false;  ///< as E4M3, not int8

  /// Sums of 128 k are scaled and added one after the other; else one sum over K is.
  bool promoted() const { return e4m3 || wGrouped || xGrouped; }
  /// Empty, or what the hardware or the kernel cannot do.
  std::string whyIllegal() const;
  /// What a schedule is chosen by. Parts of K change the bits of float sums, not those of integers, so they are fixed for a weight in
  /// decode; experts and prompts have one.
  Int4Shape scheduleShape() const;
  std::string chain() const;
};

bool isInt4(mlir::RankedTensorType weight);
/// Why no kernel reads an int4 weight as it is stored, empty if one does: a scale per row, or per row and multiple of 128 k.
std::string whyNotInt4(mlir::RankedTensorType weight);

/// The same of a weight in any scheme: what dequantises weights asks.
std::string whyNotStored90(mlir::RankedTensorType weight);

/// Blocks of 64 rows and 128 k, 4096 bytes, a row of blocks after the other. In a block 16 bytes a thread hold 64 k in the order of
/// `frag<opA4>`, of `frag<opA4t>` for x of E4M3, or of `frag<acc4>` for x of bf16. Scales: f32 by row, or [N / 64, K / 128, 64].
kernel::PackedAttr int4Encoding(mlir::RankedTensorType weight, const Int4Problem &problem);

} // namespace dsv3::codegen
