// --dsv3-tile-analyze-conflicts.
#include "passes/tile/OpAccess.h"
#include "passes/tile/TileAnalysis.h"

#include "mlir/IR/Builders.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_TILEANALYZECONFLICTSPASS
#include "passes/tile/TileAnalysis.h.inc"

namespace {

/// Operands that hardware engines read or write.
bool isEngine(Operation *op) { return isa<tile::MmaOp, tile::CopyOp, tile::GatherOp, tile::PutOp>(op); }

class AnalyzeConflicts : public impl::TileAnalyzeConflictsPassBase<AnalyzeConflicts> {
  void runOnOperation() override {
    proven.clear();
    bool bad = false;
    getOperation()->walk([&](Operation *op) { bad |= failed(analyze(op)); });
    if (bad)
      return signalPassFailure();
    getOperation()->walk([](tile::KernelOp kernel) { summarise(kernel); });
  }

  /// For the report: equal accesses are counted together. Helper functions are seen where they are inlined.
  static void summarise(tile::KernelOp kernel) {
    Builder b(kernel.getContext());
    llvm::MapVector<std::tuple<StringRef, StringRef, unsigned, uint64_t>, int64_t> counts;
    for (const tile::AccessEntry &a : tile::accessesOf(kernel))
      ++counts[{a.op->getName().stripDialect(), a.instruction, a.degree, a.excess}];
    SmallVector<Attribute> list;
    for (auto &[key, count] : counts) {
      auto [op, instruction, degree, excess] = key;
      list.push_back(b.getDictionaryAttr({b.getNamedAttr("count", b.getI64IntegerAttr(count)), b.getNamedAttr("degree", b.getI64IntegerAttr(degree)),
                                          b.getNamedAttr("instruction", b.getStringAttr(instruction)), b.getNamedAttr("lost", b.getI64IntegerAttr(int64_t(excess))),
                                          b.getNamedAttr("op", b.getStringAttr(op))}));
    }
    kernel->setAttr("tile.accesses", b.getArrayAttr(list));
  }

  LogicalResult checkOperands(Operation *op) {
    for (OpOperand &use : op->getOpOperands()) {
      auto buf = dyn_cast<tile::BufType>(use.get().getType());
      if (!buf)
        continue;
      if (buf.getLayout().getKind() == tile::SmemKind::Auto)
        return op->emitOpError("expected a layout, got auto: run --dsv3-tile-choose-layouts before");
      // A buffer of a group of columns that are not in one piece has no layout of its own.
      if (isa<tile::CopyOp>(op) && isa<BlockArgument>(use.get()) && cast<tile::FillOp>(use.get().getParentBlock()->getParentOp()).getGroup())
        continue;
      // Element by element, so each kind of operand only once.
      auto mma = dyn_cast<tile::MmaOp>(op);
      const bool turned = mma && use.getOperandNumber() == 1 && mma.getForm() == tile::Form::Nn;
      if (mma && !proven.insert({buf, unsigned(turned)}).second)
        continue;
      if (std::string why = tile::whyIllegalBuffer(use, buf); !why.empty())
        return op->emitOpError(why);
    }
    return success();
  }

  LogicalResult analyze(Operation *op) {
    Value buffer = tile::accessedBuffer(op);
    if (!buffer && !isEngine(op))
      return success();
    if (failed(checkOperands(op)))
      return failure();
    Builder b(op->getContext());
    if (!buffer) {
      op->setAttr("tile.degree", b.getI32IntegerAttr(1));
      return success();
    }
    const tile::AccessCost cost = tile::accessCost(op, cast<tile::BufType>(buffer.getType()));
    const char *name = tile::accessName(op, cost.instruction);
    op->setAttr("tile.access", b.getStringAttr(name));
    op->setAttr("tile.degree", b.getI32IntegerAttr(int32_t(cost.degree)));
    if (cost.degree > 1)
      op->emitRemark() << cost.degree << "-way bank conflict of " << name << ", " << cost.excess << " cycles lost";
    return success();
  }

  llvm::DenseSet<std::pair<Type, unsigned>> proven; ///< buffers that an mma can read, as they are or turned
};

} // namespace
} // namespace dsv3
