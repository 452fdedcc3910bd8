// --dsv3-erase-unused-weights
#include "passes/Ledger.h"
#include "passes/Passes.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_ERASEUNUSEDWEIGHTSPASS
#include "passes/Passes.h.inc"

namespace {
/// Names of weights that a program reads, directly, packed or through recipes.
llvm::StringSet<> readWeights(ModuleOp module) {
  SymbolTable symbols(module);
  llvm::StringSet<> live;
  SmallVector<StringRef> work;
  auto mark = [&](StringRef name) {
    if (live.insert(name).second)
      work.push_back(live.find(name)->getKey());
  };
  module.walk([&](ir::UseOp use) { mark(use.getWeight()); });
  for (auto packed : module.getOps<kernel::WeightOp>())
    mark(packed.getSource());
  while (!work.empty())
    if (auto weight = symbols.lookup<ir::WeightOp>(work.pop_back_val()))
      cast<ir::WeightSource>(weight.getSource()).forEachSymbol(mark);
  return live;
}

struct EraseUnusedWeightsPass : impl::EraseUnusedWeightsPassBase<EraseUnusedWeightsPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    module.walk([](ir::UseOp use) {
      if (use->use_empty())
        use->erase();
    });
    llvm::StringSet<> live = readWeights(module);
    Ledger before = collectLedger(module);
    Operation *last = nullptr; // ignored ops take the place of the weights they stand for
    for (auto weight : llvm::make_early_inc_range(module.getOps<ir::WeightOp>())) {
      if (live.contains(weight.getSymName()))
        last = weight;
      else
        weight->erase();
    }
    Ledger after = collectLedger(module);
    OpBuilder builder(module.getContext());
    last ? builder.setInsertionPointAfter(last) : builder.setInsertionPointToStart(module.getBody());
    for (const auto &[tensor, row] : before)
      if (!after.count(tensor))
        ir::IgnoredOp::create(builder, module.getLoc(), tensor, "no_reader");
  }
};
} // namespace
} // namespace dsv3
