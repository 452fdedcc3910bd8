#include "test/passes/tile/SimulatorFixture.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

namespace dsv3::tile {

TileModule::TileModule(const std::string &path) : context(mlir::MLIRContext::Threading::DISABLED) {
  mlir::DialectRegistry registry;
  mlir::func::registerInlinerExtension(registry);
  context.appendDialectRegistry(registry);
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

bool TileModule::inlineCalls() {
  mlir::PassManager passes(&context);
  passes.addPass(mlir::createInlinerPass());
  return succeeded(passes.run(*parsed));
}

std::string describe(const SimReport &report) {
  std::string text;
  for (const sim::Finding &f : report.findings) {
    text += (text.empty() ? "C" : "; C") + std::to_string(int(f.check)) + " " + f.message;
    if (auto loc = f.where->findInstanceOf<mlir::FileLineColLoc>())
      text += " (line " + std::to_string(loc.getLine()) + ")";
  }
  return text;
}

} // namespace dsv3::tile
