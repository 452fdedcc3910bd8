// Rows of results as int8 or E4M3 with a scale per 128 columns, for every kernel that quantises what it has just multiplied.
//
// As kernel.quantize makes them of the rounded result (runtime/reference/Quantize.h), so that a bucket whose kernel does it and one
// that leaves it to a launch of its own give the same bits: a scale is the greatest magnitude over 127 or 448, a code the quotient, to
// nearest even. Groups below 2^-100 alone differ, which are zeros here, and the sign of an E4M3 zero.
#pragma once

#include "codegen/sm90/TileBuilder.h"

namespace dsv3::codegen {

constexpr int64_t kCodeGroup = 128; ///< columns that share a scale

/// A vector of greatest magnitudes as scales: 1 for nothing but zeros, and for what is so small that 1 / scale is no number.
inline mlir::Value codeScale(TileBuilder &k, mlir::Type codes, mlir::Value most) {
  mlir::Type type = most.getType();
  const double largest = codes == k.f8 ? 448 : 127;
  return k.select(k.lt(k.constant(type, 0x1p-100), most), k.divide(most, k.constant(type, largest)), k.constant(type, 1));
}

/// `value` / `scale` as `codes`; `scale` is a vector along its rows or columns. The remainder corrects a quotient by multiplication.
inline mlir::Value codesOf(TileBuilder &k, mlir::Type codes, mlir::Value value, mlir::Value scale) {
  mlir::Type type = value.getType();
  mlir::Value inverse = k.bcast(k.divide(k.constant(scale.getType(), 1), scale), type);
  mlir::Value quotient = k.mul(value, inverse);
  quotient = k.fma(k.fma(k.neg(quotient), k.bcast(scale, type), value), inverse, quotient);
  return codes == k.f8 ? k.cast(quotient, codes) : k.toCodes(quotient);
}

} // namespace dsv3::codegen
