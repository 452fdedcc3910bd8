// The kernel that draws weights on the device (`--load-format=dummy`): artifacts without weights hold it beside their own.
#pragma once

#include "mlir/IR/Operation.h"

namespace dsv3::codegen {

/// Entry `dummy_fill` (scalars, words, pool): threads of a block. A grid has DummyFill::rows() blocks, `words` are those
/// of DummyFill::words(), and pool[DummyFill::offset ...] gets the same bytes as from DummyFill::run.
inline constexpr const char *kDummyFill = "dummy_fill";
inline constexpr int64_t kDummyFillThreads = 256;

/// Appends the kernel to a gpu.module.
void addDummyFill(mlir::Operation *gpuModule);

} // namespace dsv3::codegen
