// What bind promises.
#include "passes/bind/VerifyBind.h"

#include "passes/Ledger.h"

#include "dialects/kernel/KernelDialect.h"

using namespace mlir;

namespace dsv3 {

static LogicalResult verifyOp(Operation &op) {
  if (auto launch = dyn_cast<kernel::KernelOp>(op)) {
    if (!launch.getKernelNumerics() || !launch.getKernelSchedule())
      return op.emitOpError() << "expected numerics and a schedule after bind at \"" << launch.getSiteName() << "\"";
    return success();
  }
  if (isa<ir::Dsv3Dialect>(op.getDialect()) && !isa<ir::UseOp, ir::ReturnOp>(op))
    return op.emitOpError() << "expected kernel ops only after bind";
  return success();
}

LogicalResult verifyBind(ModuleOp module, const CompileOptions &) {
  for (auto program : module.getOps<ir::ProgramOp>())
    for (Operation &op : program.getBody().front())
      if (failed(verifyOp(op)))
        return failure();
  return success(succeeded(verifyNumerics(module)) && succeeded(verifyLedger(module)));
}

} // namespace dsv3
