// Quantisation schemes and rotary parameters.
#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/dsv3/Dsv3Interfaces.cpp.inc"
#include "dialects/dsv3/Dsv3Enums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/dsv3/Dsv3Attrs.cpp.inc"

using namespace mlir;

namespace dsv3::ir {

void Dsv3Dialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dsv3/Dsv3Attrs.cpp.inc"
      >();
}

//===-- BlockedAttr -------------------------------------------------------===//

/// `, zero type`, `, pow2_scale` and `, indexed`, each at most once and in this order.
static ParseResult parseProperties(AsmParser &p, Type &zero, bool &pow2, bool &indexed) {
  while (succeeded(p.parseOptionalComma())) {
    if (!zero && !pow2 && !indexed && succeeded(p.parseOptionalKeyword("zero"))) {
      if (p.parseType(zero))
        return failure();
    } else if (!pow2 && !indexed && succeeded(p.parseOptionalKeyword("pow2_scale"))) {
      pow2 = true;
    } else if (!indexed && succeeded(p.parseOptionalKeyword("indexed"))) {
      indexed = true;
    } else {
      return p.emitError(p.getCurrentLocation(), "expected 'zero', 'pow2_scale' or 'indexed', in this order");
    }
  }
  return success();
}

Attribute BlockedAttr::parse(AsmParser &p, Type) {
  Type storage, scale, zero;
  SmallVector<int64_t> block;
  bool pow2 = false, indexed = false;
  if (p.parseLess() || p.parseType(storage) || p.parseComma() ||
      p.parseDimensionList(block, /*allowDynamic=*/true, /*withTrailingX=*/false) || p.parseComma() ||
      p.parseType(scale) || parseProperties(p, zero, pow2, indexed) || p.parseGreater())
    return {};
  return p.getChecked<BlockedAttr>(p.getContext(), storage, block, scale, pow2, zero, indexed);
}

void BlockedAttr::print(AsmPrinter &p) const {
  p << "<" << getStorage() << ", ";
  p.printDimensionList(getBlock());
  p << ", " << getScale();
  if (getZero())
    p << ", zero " << getZero();
  p << (getPow2Scale() ? ", pow2_scale" : "") << (getIndexed() ? ", indexed" : "") << ">";
}

LogicalResult BlockedAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Type storage,
                                  ArrayRef<int64_t> block, Type scale, bool, Type zero, bool indexed) {
  if (!isa<Float8E4M3FNType, Float8E5M2Type>(storage) && !storage.isInteger(8) && !storage.isInteger(4))
    return emitError() << "expected storage f8E4M3FN, f8E5M2, i8 or i4, got " << storage;
  if (!isa<Float32Type, BFloat16Type, Float16Type>(scale))
    return emitError() << "expected scale type f32, bf16 or f16, got " << scale;
  if (zero && !zero.isInteger(8))
    return emitError() << "expected zero points of type i8, got " << zero;
  if (zero && !isa<IntegerType>(storage))
    return emitError() << "expected zero points with integer storage only, got " << storage;
  if (block.empty())
    return emitError() << "expected at least one block dimension";
  for (auto [i, b] : llvm::enumerate(block))
    if (!ShapedType::isDynamic(b) && b <= 0)
      return emitError() << "expected block dimension " << i << " to be positive or '?', got " << b;
  if (indexed && (block.size() != 2 || block[0] != 1 || ShapedType::isDynamic(block[1])))
    return emitError() << "expected blocks of 1 row and some columns with an index of columns";
  return success();
}

LogicalResult BlockedAttr::verifyEncoding(ArrayRef<int64_t> shape, Type elem,
                                          llvm::function_ref<InFlightDiagnostic()> emitError) const {
  if (getBlock().size() > shape.size())
    return emitError() << "expected a tensor of rank " << getBlock().size() << " or more for block of rank "
                       << getBlock().size() << ", got rank " << shape.size();
  if (!isa<FloatType>(elem))
    return emitError() << "expected a float element type for an encoded tensor, got " << elem;
  return success();
}

Type BlockedAttr::getStorageType() const { return getStorage(); }

/// Block size of tensor dimension `dim`: 1 for leading dims, the whole dim for `?`.
static int64_t blockOf(BlockedAttr a, ArrayRef<int64_t> shape, int64_t dim) {
  int64_t lead = int64_t(shape.size()) - int64_t(a.getBlock().size());
  if (dim < lead)
    return 1;
  int64_t b = a.getBlock()[dim - lead];
  return ShapedType::isDynamic(b) ? shape[dim] : b;
}

SmallVector<Part> BlockedAttr::getParts(ArrayRef<int64_t> shape) const {
  Part data{"data", getStorage(), SmallVector<int64_t>(shape)}, scale{"scale", getScale(), {}};
  for (int64_t d = 0, e = shape.size(); d < e; ++d) {
    int64_t b = blockOf(*this, shape, d);
    scale.shape.push_back(ShapedType::isDynamic(shape[d]) ? shape[d] : llvm::divideCeil(shape[d], b));
  }
  SmallVector<Part> parts{data, scale};
  if (getZero())
    parts.push_back({"zero", getZero(), scale.shape});
  if (getIndexed()) { // one index per matrix, of its columns
    SmallVector<int64_t> columns(shape);
    columns.erase(columns.end() - 2);
    parts.push_back({"index", IntegerType::get(getContext(), 32), columns});
  }
  return parts;
}

FailureOr<QuantScheme> BlockedAttr::slice(ArrayRef<int64_t> shape, int64_t dim, int64_t offset, int64_t size) const {
  int64_t b = blockOf(*this, shape, dim), lead = int64_t(shape.size()) - int64_t(getBlock().size());
  if (getIndexed() && dim + 1 == int64_t(shape.size())) // columns of a group lie anywhere
    return failure();
  if (dim >= lead && ShapedType::isDynamic(getBlock()[dim - lead])) // a scale of the whole dim serves any part of it
    return QuantScheme(*this);
  bool onGrid = offset % b == 0 && (size % b == 0 || offset + size == shape[dim]);
  bool insideOne = offset / b == (offset + size - 1) / b && offset % b == 0;
  if (!onGrid && !insideOne)
    return failure();
  return QuantScheme(*this);
}

FailureOr<QuantScheme> BlockedAttr::concat(ArrayRef<int64_t> shape, QuantScheme rhs, int64_t dim) const {
  if (rhs != QuantScheme(*this))
    return failure();
  if (getIndexed() && dim + 2 >= int64_t(shape.size())) // each matrix has an index of its own
    return failure();
  int64_t lead = int64_t(shape.size()) - int64_t(getBlock().size());
  if (dim >= lead && ShapedType::isDynamic(getBlock()[dim - lead]))
    return failure();
  if (shape[dim] % blockOf(*this, shape, dim))
    return failure();
  return QuantScheme(*this);
}

FailureOr<QuantScheme> BlockedAttr::transpose() const {
  SmallVector<int64_t> block(getBlock());
  if (block.size() < 2 || getIndexed())
    return failure();
  std::swap(block[block.size() - 1], block[block.size() - 2]);
  return QuantScheme(BlockedAttr::get(getContext(), getStorage(), block, getScale(), getPow2Scale(), getZero(), false));
}

int64_t BlockedAttr::getScaleExtentK() const {
  int64_t b = getBlock().back();
  return ShapedType::isDynamic(b) ? 0 : b;
}

//===-- RopeAttr ----------------------------------------------------------===//

LogicalResult RopeAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t dims, Real theta, bool,
                               Real factor, int64_t original, Real betaFast, Real betaSlow, Real scale) {
  if (dims <= 0 || dims % 2)
    return emitError() << "expected a positive even number of rotary dims, got " << dims;
  if (!(theta > 0))
    return emitError() << "expected a positive theta";
  if (factor < 0 || (factor > 0 && (original <= 0 || !(betaFast > 0) || !(betaSlow > 0))))
    return emitError() << "expected positive original, betaFast and betaSlow with a YaRN factor";
  return success();
}

//===-- Types under slicing, joining and transposing ----------------------===//

QuantScheme getScheme(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor ? dyn_cast_or_null<QuantScheme>(tensor.getEncoding()) : QuantScheme();
}

static RankedTensorType withScheme(ArrayRef<int64_t> shape, Type elem, FailureOr<QuantScheme> scheme) {
  return RankedTensorType::get(shape, elem, succeeded(scheme) ? Attribute(*scheme) : Attribute());
}

RankedTensorType sliceType(RankedTensorType type, int64_t dim, int64_t offset, int64_t size) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  QuantScheme scheme = getScheme(type);
  return withScheme(shape, type.getElementType(), scheme ? scheme.slice(type.getShape(), dim, offset, size) : FailureOr<QuantScheme>(failure()));
}

RankedTensorType transposeType(RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  std::swap(shape[shape.size() - 1], shape[shape.size() - 2]);
  QuantScheme scheme = getScheme(type);
  return withScheme(shape, type.getElementType(), scheme ? scheme.transpose() : FailureOr<QuantScheme>(failure()));
}

RankedTensorType reshapeType(RankedTensorType type, ArrayRef<int64_t> shape) {
  QuantScheme scheme = getScheme(type);
  FailureOr<QuantScheme> kept = failure();
  // Splitting rows into groups keeps the numbers' scales when every group starts on the grid.
  if (auto blocked = dyn_cast_or_null<BlockedAttr>(type.getEncoding()); blocked && !blocked.getIndexed() && type.getRank() >= 2 && shape.size() >= 2) {
    int64_t b = blockOf(blocked, type.getShape(), type.getRank() - 2);
    if (blocked.getBlock().size() == 2 && shape[shape.size() - 2] % b == 0 && type.getDimSize(type.getRank() - 2) % b == 0)
      kept = scheme;
  }
  return withScheme(shape, type.getElementType(), kept);
}

FailureOr<RankedTensorType> concatType(ArrayRef<RankedTensorType> types, int64_t dim) {
  SmallVector<int64_t> shape(types.front().getShape());
  QuantScheme scheme = getScheme(types.front());
  for (RankedTensorType t : types.drop_front()) {
    QuantScheme rhs = getScheme(t);
    if (t.getElementType() != types.front().getElementType() || bool(scheme) != bool(rhs))
      return failure();
    if (scheme && failed(scheme.concat(shape, rhs, dim)))
      return failure();
    shape[dim] += t.getDimSize(dim);
  }
  return RankedTensorType::get(shape, types.front().getElementType(), scheme);
}

} // namespace dsv3::ir
