// Weight recipes and ignored tensors of an imported module.
#pragma once

#include "frontends/huggingface/Model.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace dsv3 {

/// The `dsv3.weight` ops of a module by symbol.
using WeightTable = llvm::StringMap<ir::WeightOp>;

/// Declares every weight of the main model and the first MTP module at the builder's insertion point, in release
/// order. `compute` is the type that dequantised weights are rounded to.
WeightTable declareWeights(mlir::OpBuilder &builder, const hf::Model &model, mlir::FloatType compute);

/// A `dsv3.ignored` for every tensor that no weight of declareWeights() reads, sorted by name.
void declareIgnored(mlir::OpBuilder &builder, const hf::Model &model);

} // namespace dsv3
