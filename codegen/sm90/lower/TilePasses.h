// Passes from tile to NVVM.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassManager.h"

namespace dsv3::codegen {

#define GEN_PASS_DECL
#include "codegen/sm90/lower/TilePasses.h.inc"
#define GEN_PASS_REGISTRATION
#include "codegen/sm90/lower/TilePasses.h.inc"

/// From kernels whose layouts are chosen to functions of one thread: inline, peel, allocate, lower. On a gpu.module.
void addTileLowering(mlir::OpPassManager &pm);

} // namespace dsv3::codegen
