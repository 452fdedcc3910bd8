// What gate and up become, for every kernel that multiplies a pair of weights.
#pragma once

#include "codegen/sm90/TileBuilder.h"

namespace dsv3::codegen {

/// silu(gate) * up, both rounded to `via` first; x / (1 + 2^(-x log2 e)) is exact at the ends, where the power is 0 or
/// infinite.
inline mlir::Value gatedProduct(TileBuilder &k, mlir::Value gate, mlir::Value up, mlir::Type via) {
  mlir::Type type = gate.getType();
  gate = k.cast(k.cast(gate, via), k.f32), up = k.cast(k.cast(up, via), k.f32);
  mlir::Value power = k.exp2(k.mul(gate, k.constant(type, -1.4426950408889634)));
  return k.mul(k.divide(gate, k.add(power, k.constant(type, 1))), up);
}

} // namespace dsv3::codegen
