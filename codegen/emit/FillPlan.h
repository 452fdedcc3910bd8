// Packed weights of a checkpoint that is drawn: instead of bytes, how to draw them (runtime/core/DummyFill.h).
#pragma once

#include "dialects/kernel/KernelDialect.h"
#include "frontends/huggingface/Checkpoint.h"
#include "runtime/core/DummyFill.h"

namespace dsv3 {

/// What draws the packed bytes of `weight`: the same ones that packWeight() would write from the same numbers (WeightData). Empty
/// for a weight that reads no checkpoint tensor (a rope table), or is quantised by the compiler. Internal error: a recipe or a layout that is
/// no sum over indices (a reshape of a transposed weight, an xor), a scale layout that joins different scales.
Result<std::vector<DummyFill>> planFills(mlir::ModuleOp module, kernel::WeightOp weight, const hf::Checkpoint &checkpoint);

} // namespace dsv3
