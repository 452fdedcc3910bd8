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

/// Why a cache cannot store its latent under this attribute; empty when it can.
static StringRef whyNotRowScheme(Attribute attr) {
  auto blocked = dyn_cast<BlockedAttr>(attr);
  if (!blocked || !isa<Float8E4M3FNType, Float8E5M2Type>(blocked.getStorage()))
    return "codes in f8E4M3FN or f8E5M2";
  ArrayRef<int64_t> block = blocked.getBlock();
  bool perRow = block.size() == 2 && block[0] == 1 && ShapedType::isDynamic(block[1]);
  return perRow && blocked.getScale().isF32() && !blocked.getPow2Scale() && !blocked.getZero() && !blocked.getIndexed()
             ? ""
             : "one f32 scale per row (1x?)";
}

LogicalResult KvType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t layers, int64_t page,
                             int64_t latent, int64_t rope, Type elem, Attribute scheme) {
  for (auto [name, value] : {std::pair<StringRef, int64_t>{"layers", layers}, {"page", page}, {"latent", latent}, {"rope", rope}})
    if (value <= 0)
      return emitError() << "expected a positive " << name << ", got " << value;
  if (!isa<FloatType>(elem))
    return emitError() << "expected a float element type, got " << elem;
  if (scheme)
    if (StringRef why = whyNotRowScheme(scheme); !why.empty())
      return emitError() << "expected " << why << " for the latent, got " << scheme;
  return success();
}

static int64_t bytesOf(Type elem, int64_t n) { return n * elem.getIntOrFloatBitWidth() / 8; }

Type KvType::getCodes() const { return getScheme() ? cast<BlockedAttr>(getScheme()).getStorage() : Type(); }
int64_t KvType::getLatentPitch() const { return getScheme() ? getLatent() : bytesOf(getElem(), getLatent() + getRope()); }
int64_t KvType::getRopePitch() const { return bytesOf(getElem(), getScheme() ? getRope() : getLatent() + getRope()); }
int64_t KvType::getRopeAt() const { return getScheme() ? getPage() * getLatent() : bytesOf(getElem(), getLatent()); }
int64_t KvType::getScaleAt() const { return getRopeAt() + getPage() * getRopePitch(); }
int64_t KvType::getPageBytes() const {
  return getScheme() ? getScaleAt() + getPage() * int64_t(sizeof(float)) : getPage() * getLatentPitch();
}

} // namespace dsv3::ir
