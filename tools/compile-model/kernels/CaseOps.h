// One case of a shape list as a program of kernel ops.
#pragma once

#include "dialects/kernel/KernelDialect.h"
#include "tools/dsv3-bench/ShapeList.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace dsv3 {

/// Adds program `symbol` for the entry to the module: its inputs are the program's arguments, its outputs the results (named by
/// `dsv3.name`), its weights are `symbol.NAME`. Usage errors name the key that is missing or wrong, or the op.
Status addCase(mlir::ModuleOp module, const bench::ShapeEntry &entry, const std::string &symbol);

} // namespace dsv3
