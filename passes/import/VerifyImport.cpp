// What the front end must deliver.
#include "passes/Ledger.h"
#include "passes/Verifiers.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dsv3 {

LogicalResult verifyImport(ModuleOp module, const CompileOptions &) {
  SymbolTable symbols(module);
  for (StringRef name : {"trunk", "head"})
    if (!symbols.lookup<ir::ProgramOp>(name))
      return module.emitError() << "expected a program @" << name << " after import, got none";
  llvm::StringMap<Operation *> sites;
  for (auto program : module.getOps<ir::ProgramOp>()) {
    if (program.getPhase())
      return program.emitOpError() << "expected no phase before specialize, got '" << *program.getPhase() << "'";
    if (failed(verifyKvThreading(program)))
      return failure();
    for (Operation &op : program.getBody().front())
      if (auto site = op.getAttrOfType<StringAttr>("site"))
        if (!sites.try_emplace(site.getValue(), &op).second)
          return op.emitOpError() << "expected a site of its own, got '" << site.getValue() << "' a second time";
  }
  return verifyLedger(module);
}

} // namespace dsv3
