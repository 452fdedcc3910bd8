#include "passes/Ledger.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dsv3 {

Ledger collectLedger(ModuleOp module) {
  Ledger rows;
  for (auto weight : module.getOps<ir::WeightOp>())
    cast<ir::WeightSource>(weight.getSource()).forEachTensor([&](llvm::StringRef tensor) {
      auto &readers = rows[tensor.str()].weights;
      if (readers.empty() || readers.back() != weight.getSymName()) // a recipe may read a tensor twice
        readers.push_back(weight.getSymName().str());
    });
  for (auto op : module.getOps<ir::IgnoredOp>())
    rows[op.getTensor().str()].ignored = op.getReason().str();
  return rows;
}

static LogicalResult verifyRows(ModuleOp module, const Ledger &rows) {
  for (const auto &[tensor, row] : rows)
    if (!row.weights.empty() && !row.ignored.empty())
      return module.emitError() << "expected tensor '" << tensor << "' to be read or ignored, got both: weight @"
                                << row.weights.front() << " reads it and it is ignored (" << row.ignored << ")";
  return success();
}

LogicalResult verifyLedger(ModuleOp module) { return verifyRows(module, collectLedger(module)); }

LogicalResult verifyLedger(ModuleOp module, llvm::ArrayRef<std::string> tensors) {
  Ledger rows = collectLedger(module);
  if (failed(verifyRows(module, rows)))
    return failure();
  llvm::StringSet<> known;
  for (const std::string &tensor : tensors) {
    known.insert(tensor);
    if (!rows.count(tensor))
      return module.emitError() << "expected checkpoint tensor '" << tensor << "' to be read or ignored, got neither";
  }
  for (const auto &[tensor, row] : rows)
    if (!known.contains(tensor))
      return module.emitError() << "expected tensor '" << tensor << "' in the checkpoint, got none of that name";
  return success();
}

} // namespace dsv3
