// Capacities of the step buffer.
#include "codegen/targets/KernelEmitter.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace dsv3::codegen {

// Query tiles: rows of one sequence are consecutive, so each sequence adds at most one partial tile to the
// ceil(tokens / kQueryTile) full ones.
//
// Key blocks: two bounds must hold. One sequence alone, at any position, must make progress, so all pages of
// the longest sequence fit. And a step full of new prompts must not be cut short, so all `tokens` keys fit. In
// both, each sequence adds at most one partial block. The scheduler counts against this number, so a mixture
// of several long sequences is spread over steps, never refused.
Capacities Capacities::derive(int64_t tokens, int64_t seqs, int64_t maxModelLen) {
  Capacities c;
  c.tokens = tokens;
  c.seqs = seqs;
  c.maxModelLen = maxModelLen;
  c.pages = llvm::divideCeil(maxModelLen, kKeyBlock);
  c.qblocks = llvm::divideCeil(tokens, kQueryTile) + seqs;
  c.kblocks = std::max<int64_t>(c.pages, llvm::divideCeil(tokens, kKeyBlock)) + seqs;
  return c;
}

/// Name and place of every number: the one list that writing and reading share.
static constexpr std::pair<llvm::StringLiteral, int64_t Capacities::*> fields[] = {
    {"tokens", &Capacities::tokens},   {"seqs", &Capacities::seqs},       {"pages", &Capacities::pages},
    {"qblocks", &Capacities::qblocks}, {"kblocks", &Capacities::kblocks}, {"max_model_len", &Capacities::maxModelLen}};

DictionaryAttr Capacities::toAttr(MLIRContext *context) const {
  Builder b(context);
  SmallVector<NamedAttribute> entries;
  for (auto [name, field] : fields)
    entries.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(this->*field)));
  return b.getDictionaryAttr(entries);
}

FailureOr<Capacities> Capacities::fromModule(Operation *inModule) {
  auto module = dyn_cast<ModuleOp>(inModule);
  if (!module)
    module = inModule->getParentOfType<ModuleOp>();
  auto dict = module ? module->getAttrOfType<DictionaryAttr>(kCapacitiesAttr) : DictionaryAttr();
  if (!dict)
    return inModule->emitError() << "expected a module with attribute " << kCapacitiesAttr << ", got none";
  Capacities c;
  for (auto [name, field] : fields) {
    auto value = dict.getAs<IntegerAttr>(name);
    if (!value || value.getInt() <= 0)
      return module.emitError() << "expected a positive '" << name << "' in " << kCapacitiesAttr << ", got "
                                << (value ? Attribute(value) : Attribute(dict));
    c.*field = value.getInt();
  }
  return c;
}

} // namespace dsv3::codegen
