// Passes over the dsv3 and kernel dialects. Their contracts are in Passes.td.
#pragma once

#include "dialects/dsv3/Dsv3Dialect.h"
#include "dialects/kernel/KernelDialect.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace dsv3 {

#define GEN_PASS_DECL
#include "passes/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/Passes.h.inc"

} // namespace dsv3
