// What the bench must know of a compiled program: its buffers and launches.
#pragma once

#include "codegen/targets/DeviceEmitter.h"
#include "passes/schedule/StepLayout.h"
#include "tools/dsv3-bench/Pack.h"

#include "mlir/IR/BuiltinOps.h"

namespace dsv3 {

/// Reads program `symbol` of a module after stage tile. Internal error: an operand without a place, a type without a name in
/// the pack, a launch without a kernel.
Result<bench::Case> packCase(ir::ProgramOp program, const codegen::KernelRegistry &registry, const std::vector<StepField> &fields);

/// The pack's name of an element type.
Result<DType> packType(mlir::Type type);

} // namespace dsv3
