// dsv3-opt: mlir-opt with the project's dialects and passes.
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

#include "codegen/targets/Targets.h"
#include "dialects/dsv3/Dsv3Dialect.h"
#include "dialects/kernel/KernelDialect.h"
#include "dialects/rt/RtDialect.h"
#include "passes/Pipeline.h"
#include "test/codegen/targets/TestTarget.h"

int main(int argc, char **argv) {
  mlir::registerTransformsPasses();
  dsv3::registerAllPasses();
  dsv3::codegen::registerTarget(dsv3::codegen::kDefaultTarget, dsv3::codegen::x86Registry);
  dsv3::codegen::registerTarget("test", dsv3::codegen::testRegistry);
  mlir::DialectRegistry registry;
  registry.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect, mlir::LLVM::LLVMDialect, mlir::math::MathDialect,
                  mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
  registry.insert<dsv3::ir::Dsv3Dialect, dsv3::kernel::KernelDialect, dsv3::rt::RtDialect, dsv3::target::TargetDialect>();
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, "DeepSeek-V3 optimizer driver\n", registry));
}
