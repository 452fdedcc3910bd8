// Types: text and checks.
#include "dialects/tile/TileDialect.h"

#include "mlir/IR/DialectImplementation.h"

#define GET_TYPEDEF_CLASSES
#include "dialects/tile/TileTypes.cpp.inc"

using namespace mlir;

namespace dsv3::tile {

LayoutAttr parseBareLayout(AsmParser &parser);
void printBareLayout(AsmPrinter &p, LayoutAttr layout);

void TileDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/tile/TileTypes.cpp.inc"
      >();
}

static void printShape(AsmPrinter &p, ArrayRef<int64_t> shape, Type element) {
  p.printDimensionList(shape);
  p << (shape.empty() ? "" : "x") << element;
}

//===-- buf ---------------------------------------------------------------===//

Type BufType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> shape;
  Type element;
  LayoutAttr layout = LayoutAttr::get(parser.getContext(), SmemKind::Linear);
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(element))
    return {};
  if (succeeded(parser.parseOptionalComma()) && !(layout = parseBareLayout(parser)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<BufType>(loc, parser.getContext(), shape, element, layout);
}

void BufType::print(AsmPrinter &p) const {
  p << "<";
  printShape(p, getShape(), getElement());
  if (getLayout().getKind() != SmemKind::Linear) {
    p << ", ";
    printBareLayout(p, getLayout());
  }
  p << ">";
}

LogicalResult BufType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape, Type element, LayoutAttr layout) {
  if (!element.isIntOrFloat() || element.getIntOrFloatBitWidth() < 4 || element.getIntOrFloatBitWidth() > 32)
    return emitError() << "expected elements of 4 to 32 bits, got " << element;
  std::vector<int64_t> dims(shape.begin(), shape.end());
  std::string why = SmemLayout::whyIllegal(layout.getKind(), dims, element.getIntOrFloatBitWidth(), layout.getA(), layout.getB(), layout.getC());
  if (!why.empty())
    return emitError() << why;
  return success();
}

//===-- acc ---------------------------------------------------------------===//

Type AccType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLess() || parser.parseDimensionList(shape, /*allowDynamic=*/false) || parser.parseType(element) || parser.parseGreater())
    return {};
  if (shape.size() != 2) {
    parser.emitError(loc) << "expected an accumulator of 2 dims, got " << shape.size();
    return {};
  }
  return parser.getChecked<AccType>(loc, parser.getContext(), shape[0], shape[1], element);
}

void AccType::print(AsmPrinter &p) const { p << "<" << getRows() << "x" << getCols() << "x" << getElement() << ">"; }

LogicalResult AccType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, int64_t rows, int64_t cols, Type element) {
  if (rows != 64 || cols < 8 || cols > 256 || cols % 8)
    return emitError() << "T24: expected an accumulator of 64 rows and a multiple of 8 columns up to 256, got " << rows << "x" << cols;
  if (!element.isF32() && !element.isInteger(32))
    return emitError() << "T24: expected an accumulator of f32 or i32, got " << element;
  return success();
}

RankedTensorType AccType::getTensor() const { return fragType({getRows(), getCols()}, getElement(), FragKind::Acc); }

Type accOf(Type type) {
  if (isa<AccType>(type))
    return type;
  FragAttr frag = getFrag(type);
  if (!frag || frag.getKind() != FragKind::Acc)
    return {};
  auto tensor = cast<RankedTensorType>(type);
  Type element = tensor.getElementType();
  if (tensor.getDimSize(1) > 256 || (!element.isF32() && !element.isInteger(32)))
    return {};
  return AccType::get(tensor.getDimSize(0), tensor.getDimSize(1), element);
}

//===-- tma, gmem ---------------------------------------------------------===//

Type TmaType::parse(AsmParser &parser) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<int64_t> shape, box;
  Type element;
  LayoutAttr layout = LayoutAttr::get(parser.getContext(), SmemKind::Linear);
  if (parser.parseLess() || parser.parseDimensionList(shape) || parser.parseType(element) || parser.parseComma() || parser.parseKeyword("box") ||
      parser.parseDimensionList(box, /*allowDynamic=*/false, /*withTrailingX=*/false))
    return {};
  if (succeeded(parser.parseOptionalComma()) && !(layout = parseBareLayout(parser)))
    return {};
  if (parser.parseGreater())
    return {};
  return parser.getChecked<TmaType>(loc, parser.getContext(), shape, element, box, layout);
}

void TmaType::print(AsmPrinter &p) const {
  p << "<";
  printShape(p, getShape(), getElement());
  p << ", box ";
  p.printDimensionList(getBox());
  if (getLayout().getKind() != SmemKind::Linear) {
    p << ", ";
    printBareLayout(p, getLayout());
  }
  p << ">";
}

LogicalResult TmaType::verify(llvm::function_ref<InFlightDiagnostic()> emitError, ArrayRef<int64_t> shape, Type element, ArrayRef<int64_t> box, LayoutAttr layout) {
  if (shape.empty() || shape.size() > 5 || shape.size() != box.size())
    return emitError() << "T17: expected a tensor of 1 to 5 dims and a box of as many, got " << shape.size() << " and " << box.size();
  if (llvm::any_of(box, [](int64_t d) { return d < 1 || d > 256; }))
    return emitError() << "T17: expected box dims of 1 to 256";
  int64_t inner = box.back() * element.getIntOrFloatBitWidth() / 8;
  if (inner % 16)
    return emitError() << "T17: expected a box whose inner dim is a multiple of 16 bytes, got " << inner;
  SmemKind kind = layout.getKind();
  int64_t width = SmemLayout::atomBytes(kind);
  if (!width && kind != SmemKind::Linear)
    return emitError() << "T17: expected linear, sw32, sw64 or sw128";
  if (width && inner > width)
    return emitError() << "T17: expected a box whose inner dim is at most the swizzle's " << width << " bytes, got " << inner;
  return success();
}

Type GmemType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLess() || parser.parseDimensionList(shape) || parser.parseType(element) || parser.parseGreater())
    return {};
  return get(parser.getContext(), shape, element);
}

void GmemType::print(AsmPrinter &p) const {
  p << "<";
  printShape(p, getShape(), getElement());
  p << ">";
}

//===-- ring, slot --------------------------------------------------------===//

RingAttr ringOf(Type type) {
  if (auto ring = dyn_cast<RingType>(type))
    return ring.getRing();
  auto slot = dyn_cast<SlotType>(type);
  return slot ? slot.getRing() : RingAttr();
}

Type slotOf(Type type) {
  RingAttr ring = ringOf(type);
  return ring ? SlotType::get(type.getContext(), ring) : Type();
}

} // namespace dsv3::tile
