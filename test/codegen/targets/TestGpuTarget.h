// The target "test-gpu": a device whose kernels do nothing, for tests of what surrounds kernels.
#pragma once

#include "codegen/targets/Targets.h"

namespace dsv3::codegen {

extern const GpuTarget kTestGpu;

/// One emitter per kernel op of a device, named "testgpu.OP". Every reference is a pointer parameter, but for two that are
/// tensor maps: the rows of a gemm (bf16, not a view) and the cache of attn_split, whose outermost dim is open. A kernel
/// is an `llvm.func` that returns at once.
const KernelRegistry &testGpuRegistry();
void testGpuDialects(mlir::DialectRegistry &dialects);

} // namespace dsv3::codegen
