// The target "test": emitters whose choices are made for tests and do not change with a real target.
#pragma once

#include "codegen/targets/Targets.h"

namespace dsv3::codegen {

/// One emitter per kernel op but for `kernel.swiglu`, named "test.OP"; it cannot emit code.
///
/// Refused: products whose K is not a multiple of 8. Numerics: lanes16 for norms, keyBlock 64 for attention. Weight
/// encodings: panels of 16 rows for products, rows as they are for all others.
const KernelRegistry &testRegistry();

} // namespace dsv3::codegen
