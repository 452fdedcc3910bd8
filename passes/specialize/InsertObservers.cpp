// --dsv3-insert-observers
#include "passes/Passes.h"
#include "passes/specialize/Observers.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_INSERTOBSERVERSPASS
#include "passes/Passes.h.inc"

namespace {
struct InsertObserversPass : impl::InsertObserversPassBase<InsertObserversPass> {
  using InsertObserversPassBase::InsertObserversPassBase;

  void runOnOperation() override {
    llvm::StringSet<> wanted;
    for (const ObservedLinear &linear : observedLinears(getOperation())) {
      wanted.insert(linear.input);
      wanted.insert(linear.routing);
    }
    wanted.erase("");
    OpBuilder builder(&getContext());
    for (auto program : getOperation().getOps<ir::ProgramOp>()) {
      SmallVector<std::pair<std::string, Value>> points;
      for (Operation &op : program.getBody().front())
        collect(op, wanted, points);
      for (auto &[name, value] : points) {
        builder.setInsertionPointAfterValue(value);
        ir::TapOp::create(builder, value.getLoc(), name, value);
      }
    }
  }

  static void collect(Operation &op, const llvm::StringSet<> &wanted, SmallVector<std::pair<std::string, Value>> &points) {
    auto site = op.getAttrOfType<StringAttr>("site");
    if (!site)
      return;
    if (auto route = dyn_cast<ir::RouteOp>(op)) {
      if (std::string name = site.str() + ".ids"; wanted.contains(name))
        points.emplace_back(name, route.getIds());
      return;
    }
    bool residual = isa<ir::AddOp>(op) && readByLastNorm(op.getResult(0));
    if (residual || (wanted.contains(site.getValue()) && op.getNumResults() > 0))
      points.emplace_back(site.str(), op.getResults().back()); // of a norm that also adds, the norm
  }

  /// What leaves the last decoder layer, and would enter the next.
  static bool readByLastNorm(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      auto norm = dyn_cast<ir::RmsNormOp>(user);
      return norm && llvm::any_of(norm.getY().getUsers(), llvm::IsaPred<ir::ReturnOp>);
    });
  }
};
} // namespace
} // namespace dsv3
