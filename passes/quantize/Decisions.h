// What a policy decides for the weights of an imported module.
#pragma once

#include "dialects/dsv3/Dsv3Dialect.h"
#include "frontends/quantize/Policy.h"

#include "mlir/IR/BuiltinOps.h"

#include <vector>

namespace dsv3 {

/// A scheme in the words of frontends/quantize; none for what the compiler cannot make itself: zero points, permuted groups, E5M2.
std::optional<quantize::Scheme> schemeOf(ir::BlockedAttr attr);

struct WeightDecision {
  ir::WeightOp weight;
  quantize::Component component;
  ir::BlockedAttr scheme;     ///< what the weight is to be stored in; null: plain
  ir::BlockedAttr activation; ///< of what meets it; null: plain
  bool changed = false;       ///< `scheme` is not what the checkpoint has
  std::string by;             ///< who decided: "w8a8", "FILE: config_groups.experts"
};

/// One per matrix of the model that a policy speaks of, in the order of the module. `config` names a file, or is empty. Usage errors: an
/// unknown policy, a file that is ill-formed or speaks of what is not there, gate and up of experts in two schemes (Unsupported where the
/// checkpoint has it so).
Result<std::vector<WeightDecision>> decideWeights(mlir::ModuleOp module, const std::string &policy, const std::string &config);

} // namespace dsv3
