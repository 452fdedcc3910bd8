// Elements of memory as numbers and back. Inside the simulator every number is a double: exact for all element types
// and for 32-bit integers; results are rounded where their type says so.
#pragma once

#include "mlir/IR/Types.h"

#include <cstdint>

namespace dsv3::tile::sim {

/// Element at bit `bit` of `base`; i4 is signed, i1 is 0 or 1.
double decode(mlir::Type type, const uint8_t *base, int64_t bit);
/// Stores a number that `type` holds exactly (see `rounded`).
void encode(mlir::Type type, double value, uint8_t *base, int64_t bit);
/// The number of `type` nearest to `value`, ties to even; integers wrap and come out signed.
double rounded(mlir::Type type, double value);
/// `value` of an integer type as unsigned: what divui, shrui, ult ... see.
uint64_t asUnsigned(mlir::Type type, double value);

} // namespace dsv3::tile::sim
