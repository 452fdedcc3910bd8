// What a dimension of a launch's operand counts.
#pragma once

#include "codegen/targets/KernelEmitter.h"

namespace dsv3::codegen {

/// Whether an operand is a weight: its dims are sizes of the model, never capacities.
bool isWeight(mlir::Value value);

/// Whether dim 0 of an operand is a capacity (tokens, sequences, routed rows, key blocks): not of weights, nor of
/// the experts' offsets.
bool hasCapacityRows(mlir::OpOperand &operand);

/// Rows of a value per unit of its `rowScalar`: the experts per token for routed rows, else 1. `value` is inside a program.
int64_t rowFactor(mlir::Value value);

} // namespace dsv3::codegen
