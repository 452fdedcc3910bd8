// --dsv3-fuse-norm
#include "passes/Passes.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_FUSENORMPASS
#include "passes/Passes.h.inc"

namespace {
/// The first norm of the add's value that has no residual yet.
ir::RmsNormOp findNorm(ir::AddOp add) {
  ir::RmsNormOp first;
  for (Operation *user : add->getUsers()) {
    auto norm = dyn_cast<ir::RmsNormOp>(user);
    if (!norm || norm.getResidual() || norm.getX() != add.getResult() || norm->getBlock() != add->getBlock())
      continue;
    if (!first || norm->isBeforeInBlock(first))
      first = norm;
  }
  return first;
}

/// Makes gamma available at `at`: a weight can be read anywhere.
bool hoistGamma(ir::RmsNormOp norm, Operation *at) {
  Operation *gamma = norm.getGamma().getDefiningOp();
  if (!gamma || gamma->isBeforeInBlock(at))
    return true;
  if (!isa<ir::UseOp>(gamma))
    return false;
  gamma->moveBefore(at);
  return true;
}

struct FuseNormPass : impl::FuseNormPassBase<FuseNormPass> {
  void runOnOperation() override {
    SmallVector<ir::AddOp> adds;
    getOperation().walk([&](ir::AddOp add) { adds.push_back(add); });
    for (ir::AddOp add : adds)
      if (ir::RmsNormOp norm = findNorm(add))
        fuse(add, norm);
  }

private:
  /// The fused op takes the add's place, so that the sum is there for every user of the add.
  void fuse(ir::AddOp add, ir::RmsNormOp norm) {
    if (!hoistGamma(norm, add))
      return;
    OpBuilder b(add);
    auto fused = ir::RmsNormOp::create(b, b.getFusedLoc({add.getLoc(), norm.getLoc()}), add.getResult().getType(),
                                       norm.getY().getType(), add.getX(), norm.getGamma(), add.getY(), norm.getEpsAttr(),
                                       norm.getSiteAttr());
    add.getResult().replaceAllUsesWith(fused.getSum());
    norm.getY().replaceAllUsesWith(fused.getY());
    norm.erase();
    add.erase();
  }
};
} // namespace
} // namespace dsv3
