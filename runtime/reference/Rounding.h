// Rounding to a storage type, apart from arithmetic.
//
// A rounding is a type: a value is rounded to its result type where it is
// defined and nowhere else. The functions of the reference therefore never
// round (except where they say so); the interpreter rounds each result.
#pragma once

#include "runtime/reference/Array.h"

namespace dsv3::reference {

/// Storage types of numbers. `Exact` keeps the arithmetic type's value.
enum class Rounding { Exact, F32, BF16, F16, F8E4M3, F8E5M2 };

/// Rounds to nearest, ties to even, straight from T (a double goes to bf16 in
/// one rounding). Overflow: F32, BF16 and F16 become infinite as in IEEE 754;
/// F8E4M3 (1-4-3, bias 7, no infinities, OCP "FN") saturates at 448 and F8E5M2
/// (1-5-2, bias 15) at 57344, as the hardware's satfinite conversions do. NaN stays NaN, the sign of 0 stays. For
/// T = float the results are those of runtime/core/DType.h (a test holds it),
/// whose E5M2 overflows to infinity; that one has no double.
template <typename T> T roundTo(Rounding kind, T value);

/// Rounds every element in place; returns its argument for chaining.
template <typename T> Array<T> &roundTo(Rounding kind, Array<T> &values);
template <typename T> Array<T> roundTo(Rounding kind, Array<T> &&values) {
  return std::move(roundTo(kind, values));
}

/// "f32", "bf16", "f16", "f8E4M3FN", "f8E5M2"; "exact" for none.
const char *toString(Rounding kind);

} // namespace dsv3::reference
