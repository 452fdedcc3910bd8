// Verifiers of the stages import to fuse: one function per row of the stage table, and what they share.
#pragma once

#include "passes/Options.h"

#include "mlir/IR/BuiltinOps.h"

namespace dsv3 {

/// After import: `@trunk` and `@head` are there, sites are unique in a program, the KV handle is threaded, no
/// checkpoint tensor is both read and ignored.
mlir::LogicalResult verifyImport(mlir::ModuleOp module, const CompileOptions &options);

/// After specialize: every program has a phase and static shapes, and programs of one phase are the same ops
/// on the same values except for the number of rows.
mlir::LogicalResult verifySpecialize(mlir::ModuleOp module, const CompileOptions &options);

/// After fuse: besides, no add that only a norm reads, and no layer left unfused unless a tap is the reason.
mlir::LogicalResult verifyFuse(mlir::ModuleOp module, const CompileOptions &options);

/// The cache handle of a program is one chain: each append takes the newest handle, each layer is appended to
/// once and read only after that, and the program returns the newest handle.
mlir::LogicalResult verifyKvThreading(mlir::Operation *program);

} // namespace dsv3
