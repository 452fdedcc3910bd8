#include "Values.h"

namespace dsv3::interpret {

static std::string textOf(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

Result<Rounding> roundingOf(mlir::Type elem) {
  if (elem.isF64())
    return Rounding::Exact;
  if (elem.isF32())
    return Rounding::F32;
  if (elem.isBF16())
    return Rounding::BF16;
  if (elem.isF16())
    return Rounding::F16;
  if (llvm::isa<mlir::Float8E4M3FNType>(elem))
    return Rounding::F8E4M3;
  if (llvm::isa<mlir::Float8E5M2Type>(elem))
    return Rounding::F8E5M2;
  return unsupportedError("expected numbers of type f64, f32, bf16, f16, f8E4M3FN or f8E5M2, got " + textOf(elem));
}

static std::optional<reference::QuantStorage> storageOf(mlir::Type type) {
  if (llvm::isa<mlir::Float8E4M3FNType>(type))
    return reference::QuantStorage::F8E4M3;
  if (llvm::isa<mlir::Float8E5M2Type>(type))
    return reference::QuantStorage::F8E5M2;
  if (type.isInteger(8))
    return reference::QuantStorage::I8;
  return type.isInteger(4) ? std::optional(reference::QuantStorage::I4) : std::nullopt;
}

Result<reference::QuantScheme> schemeOf(ir::BlockedAttr attr) {
  llvm::ArrayRef<int64_t> block = attr.getBlock();
  auto size = [](int64_t b) { return mlir::ShapedType::isDynamic(b) ? 0 : b; };
  std::optional<reference::QuantStorage> storage = storageOf(attr.getStorage());
  Result<Rounding> scale = roundingOf(attr.getScale());
  if (!scale)
    return scale.error();
  if (block.empty() || block.size() > 2 || !storage)
    return unsupportedError("expected f8E4M3FN, f8E5M2, i8 or i4 numbers in blocks of two dims, got a scheme of storage " + textOf(attr.getStorage()));
  return reference::QuantScheme{*storage, block.size() == 2 ? size(block[0]) : 1, size(block.back()), attr.getPow2Scale(), *scale,
                                bool(attr.getZero())};
}

Result<Shape> shapeUnder(mlir::RankedTensorType type, const Shape &shape) {
  int64_t inner = 1, size = reference::numElements(shape);
  for (int64_t dim : type.getShape().drop_front(type.getRank() ? 1 : 0))
    inner *= dim;
  if (type.getRank() == 0 || inner <= 0 || size % inner)
    return internalError("expected a value of type " + textOf(type) + ", got shape " + reference::toString(shape));
  Shape out(type.getShape());
  int64_t rows = size / inner;
  if (!type.isDynamicDim(0) && rows > type.getDimSize(0))
    return internalError("expected at most " + std::to_string(type.getDimSize(0)) + " rows of type " + textOf(type) +
                         ", got shape " + reference::toString(shape));
  out[0] = rows;
  return out;
}

template <typename T> Array<T> Frame<T>::rows(mlir::Value value) const {
  Array<T> x = numbers(value);
  if (x.rank() > 2)
    x.shape = {x.dim(0), x.dim(0) ? x.size() / x.dim(0) : 0};
  return x;
}

template <typename T> void Frame<T>::fail(Error error) {
  if (!firstError)
    return;
  if (current)
    if (auto site = current->getAttrOfType<mlir::StringAttr>("site"))
      error.message = site.str() + ": " + error.message;
  firstError = error;
}

template <typename T> Array<T> Frame<T>::rounded(mlir::Type elem, Array<T> numbers, mlir::Attribute scheme) {
  Array<T> plain = reference::roundTo(take(roundingOf(elem)), std::move(numbers));
  if (!scheme || !firstError)
    return plain;
  auto blocked = llvm::dyn_cast<ir::BlockedAttr>(scheme);
  if (!blocked) {
    fail(unsupportedError("expected a plain value or one with a block scheme"));
    return plain;
  }
  return take(dequantize(take(quantize(plain, take(schemeOf(blocked))))));
}

template <typename T> void Frame<T>::set(mlir::Value result, Result<Array<T>> numbers) {
  auto type = llvm::cast<mlir::RankedTensorType>(result.getType());
  Array<T> value = take(std::move(numbers));
  if (firstError) // before rounding: heads that are joined share a token's scale
    value.shape = take(shapeUnder(type, value.shape));
  value = rounded(type.getElementType(), std::move(value), type.getEncoding());
  values[result] = hold<T>(std::move(value));
}

template <typename T> void Frame<T>::set(mlir::Value result, Result<Ids> ids) {
  Ids value = take(std::move(ids));
  if (firstError)
    value.shape = take(shapeUnder(llvm::cast<mlir::RankedTensorType>(result.getType()), value.shape));
  values[result] = hold<T>(std::move(value));
}

template class Frame<float>;
template class Frame<double>;

} // namespace dsv3::interpret
