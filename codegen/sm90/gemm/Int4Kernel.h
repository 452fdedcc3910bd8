// Products with int4 weights, which consumers expand in registers to wgmma's A operand: to int8 for int8 rows (int32 sums, exact),
// to E4M3 for E4M3 rows, or to bf16 for plain rows. Weights as M, tokens as N; a ColsKernel in all else.
//
// int8 codes in the register are 16 times the weight: two masks and a shift make eight of them, and the 1/16 goes where sums are
// scaled. A unit of work is 64 weight rows times 128 k: four (eight) instructions. Its codes are loaded before the unit in front
// of it is multiplied, and it is multiplied while that one is waited for; no unit is in flight at the end of a stage.
#pragma once

#include "codegen/sm90/gemm/ColsKernel.h"

namespace dsv3::codegen {

/// `operands` of ColsSpec is not used. A schedule has weights `apart` only where they are `wGrouped`: then all their scales come with
/// the stages; `beside` each other only where rows are codes and y is not.
struct Int4Spec : ColsSpec {
  bool wide = false;     ///< x is bf16, not codes
  bool e4m3 = false;     ///< x is E4M3, not int8
  bool wGrouped = false; ///< a scale of w per row and 128 k, else per row
  bool xGrouped = false; ///< a scale of x per row and 128 k, else per row (codes)
  int64_t parts = 1;     ///< of K, whose sums are joined in the end: blocks of a cluster have one each, or one block all (promoted)
  bool zeros = false;    ///< weights have a zero point wherever they have a scale (bf16)

  /// Sums of 128 k are scaled and added one after the other; else one sum over K is scaled. Tensor cores keep 13 bits of a sum of
  /// E4M3 products, so those are added outside whatever their scales are.
  bool promoted() const { return e4m3 || wGrouped || xGrouped; }
  /// Scales of x per 128 k come with the stages, four of a row in a box: rows of them are whole 16-byte words, and a stage needs no more.
  bool scalesInStage() const { return xGrouped && kBlocks() % 4 == 0 && schedule.bk <= 512; }
  /// The sum over K is one of integers.
  bool exact() const { return !wide && !promoted(); }
};

/// Dynamic shared memory of such a kernel.
int64_t sharedBytes(const Int4Spec &spec);

/// Parameters: the step's scalars; tensor map of x (box tokens x 128 codes or 64 bf16), of codes also its scales [rows, K / 128
/// or 1], by a tensor map where they come with the stages (box tokens x 4), else their address; per weight the addresses of
/// codes, scales and maybe zero points (Int4Weights.h); address of y, where quantised also of its scales [rows, N / 128]; the
/// source's own. One that gathers has the address of x instead of a map and, as its last, that of the tokens of rows, i32 [rows].
void buildInt4Kernel(TileBuilder &k, llvm::StringRef symbol, const Int4Spec &spec, const ColsSource &source);

} // namespace dsv3::codegen
