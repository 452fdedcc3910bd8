// --dsv3-bind-kernels
#include "passes/Passes.h"
#include "passes/bind/Target.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_BINDKERNELSPASS
#include "passes/Passes.h.inc"

FailureOr<const codegen::KernelRegistry *> lookUpTarget(ModuleOp module, StringRef name) {
  if (const codegen::KernelRegistry *registry = codegen::findTarget(name))
    return registry;
  return module.emitError() << "expected a target (" << codegen::targetNames() << "), got '" << name << "'";
}

namespace {
struct BindKernelsPass : impl::BindKernelsPassBase<BindKernelsPass> {
  using BindKernelsPassBase::BindKernelsPassBase;

  void runOnOperation() override {
    FailureOr<const codegen::KernelRegistry *> registry = lookUpTarget(getOperation(), target);
    if (failed(registry))
      return signalPassFailure();
    WalkResult walked = getOperation().walk([&](kernel::KernelOp op) { return WalkResult(bind(op, **registry)); });
    if (walked.wasInterrupted())
      signalPassFailure();
  }

private:
  LogicalResult bind(kernel::KernelOp op, const codegen::KernelRegistry &registry) {
    op->removeAttr("schedule"); // a choice made before does not restrict this one
    const codegen::KernelEmitter *emitter = registry.lookup(op);
    if (!emitter)
      return op->emitOpError() << "expected an emitter for " << op->getName() << " on " << target << " at \"" << op.getSiteName()
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
