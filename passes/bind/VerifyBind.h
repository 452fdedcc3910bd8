// What the stages bind and pack promise.
#pragma once

#include "passes/Options.h"

#include "mlir/IR/BuiltinOps.h"

namespace dsv3 {

/// Batch determinism as a property of the IR: launches of one site and op have equal numerics in all programs of a
/// family (prefill and score are one family: both write the cache), and programs of one phase hold the same list of
/// (site, op). The message names both programs. Holds after bind and after every later stage with kernel ops.
mlir::LogicalResult verifyNumerics(mlir::ModuleOp module);

/// After bind: programs hold kernel ops only (besides uses of weights and the return), each with numerics and a
/// schedule; verifyNumerics.
mlir::LogicalResult verifyBind(mlir::ModuleOp module, const CompileOptions &options);

/// After pack: besides, every weight operand is a packed one; places in the weights file are disjoint; every data
/// layout is a bijection and every scale layout leaves no hole; every packed weight has a reader and a source of its
/// shape.
mlir::LogicalResult verifyPack(mlir::ModuleOp module, const CompileOptions &options);

} // namespace dsv3
