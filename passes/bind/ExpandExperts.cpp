// --dsv3-expand-experts
#include "passes/Passes.h"
#include "passes/bind/GpuPass.h"
#include "passes/bind/Lowering.h"
#include "passes/specialize/Taps.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_EXPANDEXPERTSPASS
#include "passes/Passes.h.inc"

namespace {
struct ExpandExpertsPass : bind::GpuPass<impl::ExpandExpertsPassBase<ExpandExpertsPass>> {
  using GpuPass::GpuPass;

  LogicalResult rewrite(const codegen::TargetChoice &choice) override {
    SmallVector<kernel::GroupedGatedGemmOp> gathering;
    getOperation().walk([&](kernel::GroupedGatedGemmOp op) {
      const codegen::KernelEmitter *emitter = op.getTokenOf() ? choice.registry->lookup(op) : nullptr;
      if (op.getTokenOf() && !(emitter && emitter->whyIllegal(op).empty()))
        gathering.push_back(op);
    });
    for (kernel::GroupedGatedGemmOp op : gathering)
      gather(op);
    return success();
  }

private:
  /// Rows keep x's encoding: codes move with their scales.
  static void gather(kernel::GroupedGatedGemmOp op) {
    OpBuilder b(op);
    RankedTensorType x = bind::tensorType(op.getX()), tokenOf = bind::tensorType(op.getTokenOf());
    auto type = RankedTensorType::get({tokenOf.getDimSize(0), x.getDimSize(1)}, x.getElementType(), x.getEncoding());
    Value rows = kernel::EmptyOp::create(b, op.getLoc(), type);
    rows = kernel::GatherOp::create(b, op.getLoc(), type, op.getX(), op.getTokenOf(), rows, bind::unbound, bind::unscheduled,
                                    b.getStringAttr(siblingSite(op.getSite(), "gather")));
    op.getXMutable().assign(rows);
    op.getTokenOfMutable().clear();
  }
};
} // namespace
} // namespace dsv3
