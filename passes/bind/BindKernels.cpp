// --dsv3-bind-kernels
#include "codegen/targets/Targets.h"
#include "passes/Passes.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_BINDKERNELSPASS
#include "passes/Passes.h.inc"

namespace {
struct BindKernelsPass : impl::BindKernelsPassBase<BindKernelsPass> {
  using BindKernelsPassBase::BindKernelsPassBase;

  void runOnOperation() override {
    FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(getOperation(), target);
    if (failed(choice))
      return signalPassFailure();
    WalkResult walked = getOperation().walk([&](kernel::KernelOp op) { return WalkResult(bind(op, *choice)); });
    if (walked.wasInterrupted())
      signalPassFailure();
  }

private:
  LogicalResult bind(kernel::KernelOp op, const codegen::TargetChoice &choice) {
    op->removeAttr("schedule"); // a choice made before does not restrict this one
    const codegen::KernelEmitter *emitter = choice.registry->lookup(op);
    if (!emitter)
      return op->emitOpError() << "expected an emitter for " << op->getName() << " on " << choice.name << " at \"" << op.getSiteName()
                               << "\", got none";
    if (std::string reason = emitter->whyIllegal(op); !reason.empty())
      return op->emitOpError() << "expected an op that " << emitter->name() << " accepts at \"" << op.getSiteName() << "\": " << reason;
    op->setAttr("numerics", emitter->numerics(op));
    op->setAttr("schedule", emitter->schedule(op));
    if (remarks)
      op->emitRemark() << op.getSiteName() << ": " << op.getKernelSchedule() << ", " << op.getKernelNumerics();
    return success();
  }
};
} // namespace
} // namespace dsv3
