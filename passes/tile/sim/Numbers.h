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
/// `sum` plus the products of `count` pairs as Hopper's tensor cores add 8-bit floats: every addend, `sum` among them, is cut to 13
/// bits below the leading bit of the largest, and so is the result; nothing is rounded. DeepSeek-V3 (arXiv 2412.19437, section
/// 3.3.2) reports about 14 bits; with 13, results of an H200 over 512 lanes were met.
double addFp8Products(double sum, const float *a, const float *b, int64_t count);
/// `value` of an integer type as unsigned: what divui, shrui, ult ... see.
uint64_t asUnsigned(mlir::Type type, double value);

} // namespace dsv3::tile::sim
