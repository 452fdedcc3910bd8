// Numerics, layouts and the sizes of packed weights.
#include "dialects/kernel/KernelDialect.h"
#include "dialects/kernel/Layout.h"

#include "mlir/IR/DialectImplementation.h"

#define GET_ATTRDEF_CLASSES
#include "dialects/kernel/KernelAttrs.cpp.inc"

using namespace mlir;

namespace dsv3::kernel {

void KernelDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/kernel/KernelAttrs.cpp.inc"
      >();
}

/// "k_ascending", or one of "lanes", "k_split", "k_blocks", "k_blocks128_split" with a number above 1.
static bool isChain(StringRef chain) {
  if (chain == "k_ascending")
    return true;
  int64_t count = 0;
  return (chain.consume_front("lanes") || chain.consume_front("k_split") || chain.consume_front("k_blocks128_split") ||
          chain.consume_front("k_blocks")) &&
         !chain.getAsInteger(10, count) && count > 1;
}

LogicalResult NumericsAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Type acc, Type mul, StringRef chain,
                                   int64_t keyBlock) {
  if (!isa<FloatType>(acc) && !acc.isInteger(32))
    return emitError() << "expected acc of float or i32, got " << acc;
  if (!isChain(chain))
    return emitError() << "expected chain k_ascending, k_blocksN, k_splitN, k_blocks128_splitN or lanesN with N above 1, got '" << chain << "'";
  if (keyBlock < 0)
    return emitError() << "expected keyBlock of 0 or more, got " << keyBlock;
  return success();
}

LogicalResult SplitAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t max, int64_t pages) {
  if (max < 0 || max == 1 || pages < 1)
    return emitError() << "expected max of 0 or of 2 or more and pages of 1 or more, got " << max << " and " << pages;
  if (max == 0 && pages > 14)
    return emitError() << "expected an even split with pages of at most 14, got " << pages;
  return success();
}

LogicalResult LayoutAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, StringRef map) {
  if (auto layout = Layout::parse(std::string_view(map.data(), map.size())); !layout)
    return emitError() << layout.error().message;
  return success();
}

LogicalResult PackedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elem,
                                         llvm::function_ref<InFlightDiagnostic()> emitError) const {
  auto rank = [](LayoutAttr a) { return (*Layout::parse(std::string_view(a.getMap().data(), a.getMap().size()))).rank(); };
  if (rank(getLayout()) > shape.size())
    return emitError() << "expected a tensor of rank " << rank(getLayout()) << " or more for layout '" << getLayout().getMap()
                       << "', got rank " << shape.size();
  if (getScheme() && !isa<ir::QuantScheme>(getScheme()))
    return emitError() << "expected a quantisation scheme, got " << getScheme();
  if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(getScheme()); blocked && blocked.getIndexed())
    return emitError() << "expected groups of neighbouring columns, which is what kernels read, got " << blocked;
  if (bool(getScheme()) != bool(getScale()))
    return emitError() << "expected a scale layout exactly when there is a scheme";
  return success();
}

static int64_t elemBytes(Type t) { return llvm::divideCeil(t.getIntOrFloatBitWidth(), 8); }

static int64_t packedBytes(int64_t elements, Type elem) { return llvm::divideCeil(elements * elem.getIntOrFloatBitWidth(), 8); }

SmallVector<PackedPart> getPackedParts(RankedTensorType type) {
  auto packed = cast<PackedAttr>(type.getEncoding());
  SmallVector<PackedPart> parts;
  int64_t at = 0;
  // The scale's layout is written in terms of the data's indices, so both see the data's shape.
  auto add = [&](StringRef name, Type elem, LayoutAttr attr) {
    Layout layout = *Layout::parse(std::string_view(attr.getMap().data(), attr.getMap().size()));
    ArrayRef<int64_t> shape = type.getShape();
    std::vector<int64_t> inner(shape.end() - layout.rank(), shape.end());
    int64_t one = packedBytes(layout.elements(inner), elem), outer = 1;
    for (int64_t d : shape.drop_back(layout.rank()))
      outer *= d;
    bool stacked = shape.size() > layout.rank();
    parts.push_back({name, elem, at, one * outer, stacked ? one : 0});
    at = llvm::alignTo(at + one * outer, 256);
  };
  auto scheme = dyn_cast_or_null<ir::QuantScheme>(packed.getScheme());
  add("data", scheme ? scheme.getStorageType() : type.getElementType(), packed.getLayout());
  if (scheme)
    add("scale", Float32Type::get(type.getContext()), packed.getScale());
  if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(packed.getScheme()); blocked && blocked.getZero())
    add("zero", blocked.getZero(), packed.getScale());
  return parts;
}

SmallVector<PackedPart> getValueParts(RankedTensorType type) {
  SmallVector<ir::Part> stored{{"data", type.getElementType(), SmallVector<int64_t>(type.getShape())}};
  if (ir::QuantScheme scheme = ir::getScheme(type))
    stored = scheme.getParts(type.getShape());
  SmallVector<PackedPart> parts;
  int64_t at = 0;
  for (const ir::Part &part : stored) {
    int64_t bytes = elemBytes(part.elem);
    for (int64_t d : part.shape)
      bytes *= d;
    parts.push_back({part.name, part.elem, at, bytes, 0});
    at = llvm::alignTo(at + bytes, 256);
  }
  return parts;
}

int64_t getValueBytes(RankedTensorType type) {
  PackedPart last = getValueParts(type).back();
  return last.offset + last.bytes;
}

int64_t getPackedBytes(RankedTensorType type) {
  PackedPart last = getPackedParts(type).back();
  return last.offset + last.bytes;
}

} // namespace dsv3::kernel
