// --dsv3-fuse-quantize
#include "codegen/targets/Targets.h"
#include "passes/Passes.h"
#include "passes/bind/Lowering.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_FUSEQUANTIZEPASS
#include "passes/Passes.h.inc"

namespace {
struct FuseQuantizePass : impl::FuseQuantizePassBase<FuseQuantizePass> {
  using FuseQuantizePassBase::FuseQuantizePassBase;

  void runOnOperation() override {
    FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(getOperation(), target);
    if (failed(choice))
      return signalPassFailure();
    SmallVector<kernel::QuantizeOp> all;
    getOperation().walk([&](kernel::QuantizeOp op) { all.push_back(op); });
    for (kernel::QuantizeOp op : all)
      fuse(op, *choice->registry);
  }

private:
  /// The producer with quantised rows among its destinations, in front of it; null if it cannot have them. `plain`: somebody reads
  /// its result as well.
  static Operation *withCodes(Operation *producer, Value codes, bool plain, OpBuilder &b, Location loc) {
    Type type = codes.getType();
    if (auto norm = dyn_cast<kernel::NormOp>(producer); norm && !plain)
      return kernel::NormOp::create(b, loc, type, norm.getX(), norm.getGamma(), codes, norm.getEpsAttr(), bind::unbound, bind::unscheduled,
                                    norm.getSiteAttr());
    if (auto act = dyn_cast<kernel::SwigluOp>(producer); act && !plain)
      return kernel::SwigluOp::create(b, loc, type, act.getGate(), act.getUp(), codes, bind::unbound, bind::unscheduled, act.getSiteAttr());
    // Gate and up in one product, their activation in its epilogue: codes of groups that one tile sees whole.
    if (auto gated = dyn_cast<kernel::GatedGemmOp>(producer); gated && !plain)
      return kernel::GatedGemmOp::create(b, loc, type, gated.getX(), gated.getWGate(), gated.getWUp(), codes, gated.getViaAttr(), bind::unbound,
                                         bind::unscheduled, gated.getSiteAttr());
    if (auto gated = dyn_cast<kernel::GroupedGatedGemmOp>(producer); gated && !plain)
      return kernel::GroupedGatedGemmOp::create(b, loc, type, gated.getX(), gated.getWGate(), gated.getWUp(), gated.getOffsets(), gated.getTokenOf(),
                                                codes, gated.getViaAttr(), bind::unbound, bind::unscheduled, gated.getSiteAttr());
    auto add = dyn_cast<kernel::AddNormOp>(producer);
    if (!add)
      return nullptr;
    if (plain)
      return kernel::AddNormQuantizeOp::create(b, loc, add.getSum().getType(), add.getResult().getType(), type, add.getX(), add.getResidual(),
                                               add.getGamma(), add.getSumOut(), add.getOut(), codes, add.getEpsAttr(), bind::unbound,
                                               bind::unscheduled, add.getSiteAttr());
    return kernel::AddNormOp::create(b, loc, add.getSum().getType(), type, add.getX(), add.getResidual(), add.getGamma(), add.getSumOut(), codes,
                                     add.getEpsAttr(), bind::unbound, bind::unscheduled, add.getSiteAttr());
  }

  static bool hasKernel(Operation *op, const codegen::KernelRegistry &registry) {
    const codegen::KernelEmitter *emitter = registry.lookup(op);
    return emitter && emitter->whyIllegal(op).empty();
  }

  static void fuse(kernel::QuantizeOp quantize, const codegen::KernelRegistry &registry) {
    Operation *producer = quantize.getX().getDefiningOp();
    if (!producer)
      return;
    OpBuilder b(producer);
    Location loc = b.getFusedLoc({producer->getLoc(), quantize.getLoc()});
    auto codes = kernel::EmptyOp::create(b, loc, quantize.getType());
    Operation *fused = withCodes(producer, codes, !quantize.getX().hasOneUse(), b, loc);
    if (!fused || !hasKernel(fused, registry)) {
      if (fused)
        fused->erase();
      codes.erase();
      return;
    }
    quantize.getResult().replaceAllUsesWith(fused->getResults().back());
    auto unused = quantize.getOut().getDefiningOp<kernel::EmptyOp>();
    quantize.erase();
    if (unused && unused.use_empty())
      unused.erase();
    // Results in front of the codes are those of the producer; one that only the quantisation read has no reader any more.
    for (auto [before, after] : llvm::zip(producer->getResults(), fused->getResults()))
      if (before.getType() == after.getType())
        before.replaceAllUsesWith(after);
    auto plain = cast<kernel::KernelOp>(producer).getOuts().back().getDefiningOp<kernel::EmptyOp>();
    producer->erase();
    if (plain && plain.use_empty())
      plain.erase();
  }
};
} // namespace
} // namespace dsv3
