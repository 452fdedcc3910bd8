// Device code as passes, for people and tests.
#pragma once

#include "mlir/Pass/Pass.h"

namespace dsv3::codegen {

#define GEN_PASS_DECL
#include "codegen/emit/DevicePasses.h.inc"
#define GEN_PASS_REGISTRATION
#include "codegen/emit/DevicePasses.h.inc"

} // namespace dsv3::codegen
