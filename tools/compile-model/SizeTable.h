// What weights take, component by component: `compile-model --dry-run`.
#pragma once

#include "passes/quantize/Decisions.h"

#include <string>

namespace dsv3 {

/// A line per component and scheme: number of weights, of numbers, bytes in bf16, as the checkpoint stores them and as `decisions` want
/// them; below, the totals and their share of bf16. `policy` heads the last column.
std::string sizeTable(mlir::ModuleOp imported, const std::vector<WeightDecision> &decisions, const std::string &policy);

} // namespace dsv3
