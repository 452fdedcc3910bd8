// Passes of the stages tile and schedule. Their contracts are in SchedulePasses.td.
#pragma once

#include "dialects/rt/RtDialect.h"
#include "passes/Options.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>

namespace dsv3 {

#define GEN_PASS_DECL
#include "passes/schedule/SchedulePasses.h.inc"

#define GEN_PASS_REGISTRATION
#include "passes/schedule/SchedulePasses.h.inc"

/// On each launch after `tile`: the function that runs it, in every variant's module or in the gpu.module.
inline constexpr llvm::StringLiteral kKernelSymbolAttr = "kernel.symbol";

/// A target's name as a symbol: "x86_64".
std::string symbolOf(llvm::StringRef target);

/// Whether `module` has a kernel with a body under this name: a tile.kernel, or an llvm.func with `nvvm.kernel`.
bool hasDeviceKernel(mlir::gpu::GPUModuleOp module, mlir::StringAttr symbol);

/// What VerifyRtPass checks, for one module.
mlir::LogicalResult verifyRt(rt::ModuleOp module);

/// Verifiers of the stage table.
mlir::LogicalResult verifyTile(mlir::ModuleOp module, const CompileOptions &options);
mlir::LogicalResult verifySchedule(mlir::ModuleOp module, const CompileOptions &options);

} // namespace dsv3
