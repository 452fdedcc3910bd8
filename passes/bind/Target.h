// The emitters that passes of stages bind and pack ask.
#pragma once

#include "codegen/targets/Targets.h"

#include "mlir/IR/BuiltinOps.h"

namespace dsv3 {

/// The registry of a target, or a diagnostic on the module that lists the targets there are.
mlir::FailureOr<const codegen::KernelRegistry *> lookUpTarget(mlir::ModuleOp module, llvm::StringRef name);

} // namespace dsv3
