#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/dsv3/Dsv3Dialect.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/dsv3/Dsv3Types.cpp.inc"

using namespace mlir;

namespace dsv3::ir {

namespace {
/// Short aliases, so that printed IR stays readable.
struct AliasInterface : OpAsmDialectInterface {
  using OpAsmDialectInterface::OpAsmDialectInterface;

  AliasResult getAlias(Attribute attr, raw_ostream &os) const override {
    if (auto blocked = dyn_cast<BlockedAttr>(attr)) {
      os << blocked.getStorage() << "b";
      return AliasResult::OverridableAlias;
    }
    if (isa<RopeAttr>(attr)) {
      os << "rope";
      return AliasResult::OverridableAlias;
    }
    return AliasResult::NoAlias;
  }
  AliasResult getAlias(Type type, raw_ostream &os) const override {
    if (isa<KvType>(type)) {
      os << "kv";
      return AliasResult::OverridableAlias;
    }
    return AliasResult::NoAlias;
  }
};
} // namespace

void Dsv3Dialect::initialize() {
  registerAttributes();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/dsv3/Dsv3Types.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/dsv3/Dsv3Ops.cpp.inc"
      >();
  addInterfaces<AliasInterface>();
}

LogicalResult KvType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t layers, int64_t page,
                             int64_t latent, int64_t rope, Type elem) {
  for (auto [name, value] : {std::pair<StringRef, int64_t>{"layers", layers}, {"page", page}, {"latent", latent}, {"rope", rope}})
    if (value <= 0)
      return emitError() << "expected a positive " << name << ", got " << value;
  if (!isa<FloatType>(elem))
    return emitError() << "expected a float element type, got " << elem;
  return success();
}

} // namespace dsv3::ir
