// The ledger as a query: which checkpoint tensors the module's weights read, and which it ignores.
//
// Nothing is remembered by passes: the rows are the leaves of all recipes plus the `dsv3.ignored` ops, so they
// can be asked for after any stage.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

#include <map>
#include <string>

namespace dsv3 {

struct LedgerRow {
  llvm::SmallVector<std::string, 1> weights; ///< symbols whose recipe reads the tensor directly
  std::string ignored;                       ///< the reason, when it is ignored
};

/// By tensor name, scales included.
using Ledger = std::map<std::string, LedgerRow>;

Ledger collectLedger(mlir::ModuleOp module);

/// Fails with a diagnostic when a tensor is both read and ignored, or when the rows are not exactly `tensors`, the
/// names in the checkpoint.
mlir::LogicalResult verifyLedger(mlir::ModuleOp module, llvm::ArrayRef<std::string> tensors);

/// The part of it that needs no checkpoint.
mlir::LogicalResult verifyLedger(mlir::ModuleOp module);

} // namespace dsv3
