// --dsv3-dequantize-activations
#include "passes/Passes.h"
#include "passes/bind/Lowering.h"
#include "passes/bind/Products.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_DEQUANTIZEACTIVATIONSPASS
#include "passes/Passes.h.inc"

namespace {
/// Products whose rows stay plain for one reason.
struct Tally {
  Attribute scheme;
  std::string why;
  SmallVector<StringRef> sites;
};

struct DequantizeActivationsPass : impl::DequantizeActivationsPassBase<DequantizeActivationsPass> {
  using DequantizeActivationsPassBase::DequantizeActivationsPassBase;

  void runOnOperation() override {
    FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(getOperation(), target);
    if (failed(choice))
      return signalPassFailure();
    SmallVector<bind::Product> products;
    getOperation().walk([&](kernel::KernelOp op) {
      if (std::optional<bind::Product> product = bind::Product::of(op); product && product->rowsAreQuantised())
        products.push_back(*product);
    });
    gathered.clear();
    SmallVector<Tally> tallies;
    for (bind::Product &product : products) {
      std::string why = bind::whyNoKernel(product.op, *choice->registry);
      RankedTensorType type = bind::plainType(product.rows().getType());
      if (why.empty() || !bind::whyNoKernel(product, type, /*plainWeights=*/false, *choice->registry).empty())
        continue; // nothing to do, or nothing that helps: bind says what is missing
      Attribute scheme = cast<RankedTensorType>(product.rows().getType()).getEncoding();
      Value plain = plainRows(product.rows());
      if (!plain)
        continue;
      product.op->setOperand(0, plain);
      Tally *known = llvm::find_if(tallies, [&](const Tally &t) { return t.scheme == scheme && t.why == why; });
      if (known == tallies.end())
        known = &tallies.emplace_back(Tally{scheme, why, {}});
      StringRef site = cast<kernel::KernelOp>(product.op).getSiteName();
      if (!llvm::is_contained(known->sites, site)) // one per program otherwise
        known->sites.push_back(site);
    }
    eraseUnread();
    for (const Tally &tally : tallies)
      emitWarning(getOperation().getLoc()) << "activations of " << tally.sites.size() << (tally.sites.size() == 1 ? " product" : " products") << " ("
                                           << tally.sites.front() << (tally.sites.size() == 1 ? "" : ", ...") << ") stay plain instead of "
                                           << tally.scheme << " for " << choice->name << ": " << tally.why;
  }

private:
  /// The rows before they were quantised; rows that were gathered since are gathered plain. Null if another launch made the codes.
  Value plainRows(Value rows) {
    if (auto quantize = rows.getDefiningOp<kernel::QuantizeOp>())
      return quantize.getX();
    auto gather = rows.getDefiningOp<kernel::GatherOp>();
    Value x = gather ? plainRows(gather.getX()) : Value();
    if (!x)
      return {};
    Value &plain = gathered[gather];
    if (plain)
      return plain;
    OpBuilder b(gather);
    RankedTensorType type = bind::plainType(gather.getType());
    Value out = kernel::EmptyOp::create(b, gather.getLoc(), type);
    return plain = kernel::GatherOp::create(b, gather.getLoc(), type, x, gather.getTokenOf(), out, bind::unbound, bind::unscheduled, gather.getSiteAttr());
  }

  void eraseUnread() {
    SmallVector<Operation *> order;
    getOperation().walk([&](Operation *op) {
      if (isa<kernel::QuantizeOp, kernel::GatherOp, kernel::EmptyOp, kernel::ViewOp>(op))
        order.push_back(op);
    });
    for (Operation *op : llvm::reverse(order)) // readers before what they read
      if (op->use_empty())
        op->erase();
  }

  llvm::DenseMap<Operation *, Value> gathered;
};
} // namespace
} // namespace dsv3
