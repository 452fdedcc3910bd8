#include "test/passes/tile/SimulatorFixture.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"

namespace dsv3::tile {

TileModule::TileModule(const std::string &path) : context(mlir::MLIRContext::Threading::DISABLED) {
  context.loadDialect<TileDialect, mlir::arith::ArithDialect, mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::func::FuncDialect,
                      mlir::LLVM::LLVMDialect>();
  parsed = mlir::parseSourceFile<mlir::ModuleOp>(DSV3_SOURCE_DIR "/" + path, &context);
}

KernelOp TileModule::kernel() {
  if (!parsed)
    return nullptr;
  auto kernels = parsed->getOps<KernelOp>();
  return kernels.empty() ? KernelOp() : *kernels.begin();
}

std::string describe(const SimReport &report) {
  std::string text;
  for (const sim::Finding &f : report.findings) {
    text += (text.empty() ? "C" : "; C") + std::to_string(int(f.check)) + " " + f.message;
    if (auto loc = mlir::dyn_cast<mlir::FileLineColLoc>(f.where))
      text += " (line " + std::to_string(loc.getLine()) + ")";
  }
  return text;
}

} // namespace dsv3::tile
