// What calibration watches: the rows that linears multiply their weights with.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/SmallVector.h"

#include <string>

namespace dsv3 {

/// A weight, and where the rows that it meets come from. Names of rows are those of taps: the site of the op that computes
/// them, `X.ids` of a route.
struct ObservedLinear {
  std::string weight;  ///< its symbol, "l3.q_a"
  std::string input;   ///< the rows; of experts, those of all tokens. Empty inside a routed layer: rows of a down projection
  std::string routing; ///< of experts: the tap with the chosen experts of each token
  std::string gamma;   ///< the weight of the norm that made the rows, if one did
  std::string gate, up; ///< the weights whose SwiGLU made the rows, if one did
};

/// Every linear, grouped linear and attention (whose `kv_b` meets the appended latents) of the module's programs as imported,
/// heads apart: rows that enter a program have no name.
llvm::SmallVector<ObservedLinear> observedLinears(mlir::ModuleOp module);

} // namespace dsv3
