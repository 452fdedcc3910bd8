// What fusion must have caught.
#include "passes/Verifiers.h"

#include "dialects/dsv3/Dsv3Dialect.h"

using namespace mlir;

namespace dsv3 {

/// Whether a tap reads an inner value of the layer that this dispatch opens: then it rightly stays in pieces.
static bool isInnerTapped(ir::DispatchOp dispatch) {
  SmallVector<Operation *> work{dispatch};
  while (!work.empty())
    for (Operation *user : work.pop_back_val()->getUsers()) {
      if (isa<ir::TapOp>(user))
        return true;
      if (isa<ir::GroupedLinearOp, ir::SwigluOp, ir::QuantizeOp>(user))
        work.push_back(user);
    }
  return false;
}

LogicalResult verifyFuse(ModuleOp module, const CompileOptions &options) {
  if (failed(verifySpecialize(module, options)))
    return failure();
  auto skipped = [&](StringRef pass) { return llvm::is_contained(options.skipPasses, pass); };
  WalkResult walked = module.walk([&](Operation *op) -> WalkResult {
    if (auto add = dyn_cast<ir::AddOp>(op)) {
      if (add->hasOneUse() && !skipped("fuse-norm"))
        if (auto norm = dyn_cast<ir::RmsNormOp>(*add->user_begin()); norm && !norm.getResidual())
          return add.emitOpError() << "expected the add before norm \"" << norm.getSite() << "\" to be fused";
    } else if (auto dispatch = dyn_cast<ir::DispatchOp>(op)) {
      if (!isInnerTapped(dispatch) && !skipped("fuse-moe"))
        return dispatch.emitOpError() << "expected the routed layer at \"" << dispatch.getSite() << "\" to be fused";
    }
    return WalkResult::advance();
  });
  return failure(walked.wasInterrupted());
}

} // namespace dsv3
