// --dsv3-fuse-gated
#include "passes/Passes.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_FUSEGATEDPASS
#include "passes/Passes.h.inc"

namespace {
struct FuseGatedPass : impl::FuseGatedPassBase<FuseGatedPass> {
  void runOnOperation() override {
    SmallVector<ir::SwigluOp> activations;
    getOperation().walk([&](ir::SwigluOp op) { activations.push_back(op); });
    for (ir::SwigluOp op : activations)
      fuse(op);
  }

private:
  void fuse(ir::SwigluOp op) {
    auto gate = op.getGate().getDefiningOp<ir::LinearOp>(), up = op.getUp().getDefiningOp<ir::LinearOp>();
    if (!gate || !up || !gate->hasOneUse() || !up->hasOneUse() || gate.getX() != up.getX())
      return;
    if (gate.getW().getType() != up.getW().getType() || gate.getY().getType() != up.getY().getType())
      return;
    OpBuilder b(op);
    Type via = cast<RankedTensorType>(gate.getY().getType()).getElementType();
    auto fused = ir::GatedLinearOp::create(b, b.getFusedLoc({gate.getLoc(), up.getLoc(), op.getLoc()}), op.getY().getType(),
                                           gate.getX(), gate.getW(), up.getW(), TypeAttr::get(via), op.getSiteAttr());
    op.replaceAllUsesWith(fused.getY());
    op.erase();
    gate.erase();
    up.erase();
  }
};
} // namespace
} // namespace dsv3
