// Codes of 8-bit floats and f32, in vectors of 16 lanes: E4M3 (no infinity, 0x7f is NaN) and E5M2.
#pragma once

#include "codegen/x86/KernelBuilder.h"

namespace dsv3::codegen {

/// Largest finite magnitude: 448 or 57344.
double largestOf(Type codes);

/// f32 to the nearest code, ties to even, as i8; what is beyond the largest finite value becomes it. NaN stays NaN.
Value toF8(KernelBuilder &k, Type codes, Value v);

/// i8 codes to f32, exactly.
Value fromF8(KernelBuilder &k, Type codes, Value bytes);

} // namespace dsv3::codegen
