// Static shapes, phases, and equal programs in all buckets of a phase.
#include "passes/Ledger.h"
#include "passes/Verifiers.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include <map>

using namespace mlir;

namespace dsv3 {

static LogicalResult verifyStatic(ir::ProgramOp program) {
  auto isDynamic = [](Type t) {
    auto tensor = dyn_cast<RankedTensorType>(t);
    return tensor && !tensor.hasStaticShape();
  };
  for (Type type : program.getArgumentTypes())
    if (isDynamic(type))
      return program.emitOpError() << "expected static shapes after specialize, got argument " << type;
  for (Operation &op : program.getBody().front())
    for (Type type : op.getResultTypes())
      if (isDynamic(type))
        return op.emitOpError() << "expected static shapes after specialize, got " << type;
  return success();
}

/// The type with its number of rows left out; weights have none.
static Type withoutRows(Operation &op, Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() == 0 || isa<ir::UseOp>(op))
    return type;
  SmallVector<int64_t> shape(tensor.getShape());
  shape[0] = ShapedType::kDynamic;
  return RankedTensorType::get(shape, tensor.getElementType(), tensor.getEncoding());
}

static bool sameButRows(Operation &a, Operation &b) {
  return a.getName() == b.getName() && a.getAttrDictionary() == b.getAttrDictionary() &&
         a.getPropertiesAsAttribute() == b.getPropertiesAsAttribute() && a.getNumResults() == b.getNumResults() &&
         llvm::all_of(llvm::zip(a.getResultTypes(), b.getResultTypes()), [&](auto pair) {
           return withoutRows(a, std::get<0>(pair)) == withoutRows(b, std::get<1>(pair));
         });
}

static std::string describe(Operation &op) {
  auto site = op.getAttrOfType<StringAttr>("site");
  return op.getName().getStringRef().str() + (site ? " \"" + site.str() + "\"" : "");
}

/// Buckets must compute alike, else a sequence would change its bits with the number of its neighbours.
static LogicalResult verifySamePhase(ir::ProgramOp first, ir::ProgramOp second) {
  Block &a = first.getBody().front(), &b = second.getBody().front();
  for (auto [x, y] : llvm::zip(a, b))
    if (!sameButRows(x, y))
      return y.emitOpError() << "expected @" << second.getSymName() << " to differ from @" << first.getSymName()
                             << " of the same phase in rows only, got " << describe(y) << " where that has " << describe(x);
  if (std::distance(a.begin(), a.end()) != std::distance(b.begin(), b.end()))
    return second.emitOpError() << "expected as many ops as @" << first.getSymName() << " of the same phase";
  return success();
}

LogicalResult verifySpecialize(ModuleOp module, const CompileOptions &) {
  std::map<std::string, ir::ProgramOp> firstOfPhase;
  for (auto program : module.getOps<ir::ProgramOp>()) {
    if (!program.getPhase())
      return program.emitOpError() << "expected a phase after specialize, got none";
    if (failed(verifyStatic(program)) || failed(verifyKvThreading(program)))
      return failure();
    auto [entry, isNew] = firstOfPhase.try_emplace(program.getPhase()->str(), program);
    if (!isNew && failed(verifySamePhase(entry->second, program)))
      return failure();
  }
  return verifyLedger(module);
}

} // namespace dsv3
