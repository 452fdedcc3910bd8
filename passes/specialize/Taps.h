// Names of states that a user may keep.
#pragma once

#include "runtime/core/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace dsv3 {

/// A state of an imported module: a result of `op`, or the expanded keys and values of an attention `op`.
struct TapPoint {
  enum class Kind { Result, ExpandedKv };

  std::string name;
  mlir::Operation *op;
  Kind kind = Kind::Result;
  unsigned result = 0;
};

/// Every state with a name, in program order: `SITE` for ops with one tensor result, `SITE.ids` and
/// `SITE.weights` for a route, and for an attention with site `X.attn` also `X.kv_b`.
llvm::SmallVector<TapPoint> tapPoints(mlir::ModuleOp module);

/// The points whose name fully matches the extended regular expression (with `\d` and `\w`) `regex`. Usage error: an ill-formed
/// expression, or one that matches nothing. An empty expression matches nothing and is no error.
Result<llvm::SmallVector<TapPoint>> matchTaps(mlir::ModuleOp module, llvm::StringRef regex);

Status checkTaps(mlir::ModuleOp module, llvm::StringRef regex);

/// "l3.attn", "kv_b" -> "l3.kv_b": a sibling of a site.
std::string siblingSite(llvm::StringRef site, llvm::StringRef name);

} // namespace dsv3
