// Verifiers of memory: views, copies, loads, stores, global memory.
#include "dialects/tile/TileVerify.h"

using namespace mlir;

namespace dsv3::tile {

//===-- view --------------------------------------------------------------===//

/// Bytes between neighbours in each dim, as if no bits were exchanged; a sw* buffer's last two dims are its atoms' and
/// are looked at apart.
static SmallVector<int64_t> strides(BufType type) {
  SmemLayout smem = type.getSmem();
  SmallVector<int64_t> result(type.getRank(), 0);
  result.back() = type.getElementBits(); // bits, as elements may be nibbles
  int64_t at = smem.pitch() * 8;
  if (smem.atomBytes())
    at = type.getShape().back() * type.getElementBits();
  for (int64_t d = type.getRank() - 2; d >= 0; --d) {
    result[d] = at;
    at *= type.getShape()[d];
  }
  return result;
}

static LogicalResult verifyAtoms(ViewOp op, BufType source, BufType result, ArrayRef<int64_t> offset) {
  int64_t rows = source.getRank() - 2, width = source.getSmem().atomBytes() * 8 / source.getElementBits();
  ArrayRef<int64_t> s = source.getShape(), r = result.getShape();
  if (result.getRank() < 2)
    return op.emitOpError() << "T10: expected a result of rank 2 or more for " << source;
  int64_t row = offset[rows], col = offset[rows + 1];
  if ((row >= 0 && row % 8) || (col >= 0 && col % width))
    return op.emitOpError() << "T9: expected a part that starts at a multiple of 8 rows and " << width << " columns";
  int64_t height = r[r.size() - 2];
  bool single = r.back() == width;
  bool flat = llvm::all_of(r.drop_back(2), [](int64_t d) { return d == 1; });
  if (!single && height != s[rows])
    return op.emitOpError() << "T10: expected all " << s[rows] << " rows of the source in a part of several atoms, got " << height;
  if (!flat && (height != s[rows] || r.back() != s.back()))
    return op.emitOpError() << "T10: expected whole rows and columns of the source in a part of rank " << r.size();
  return success();
}

static LogicalResult verifyPart(ViewOp op, BufType source, BufType result, ArrayRef<int64_t> offset) {
  SmemKind kind = source.getLayout().getKind(), to = result.getLayout().getKind();
  bool rowMajor = kind == SmemKind::Linear || kind == SmemKind::Pad;
  if (source.getElement() != result.getElement() || (source.getLayout() != result.getLayout() && !(rowMajor && (to == SmemKind::Linear || to == SmemKind::Pad))))
    return op.emitOpError() << "T10: expected the source's element and layout (" << source << "), got " << result;
  if (kind == SmemKind::Auto)
    return success();
  if (source.getSmem().atomBytes())
    return verifyAtoms(op, source, result, offset);
  int64_t drop = source.getRank() - result.getRank();
  if (kind == SmemKind::Frag) {
    int64_t inner = FragKind(source.getLayout().getA()) == FragKind::Row || FragKind(source.getLayout().getA()) == FragKind::Col ? 1 : 2;
    if (result.getRank() < inner || source.getShape().take_back(inner) != result.getShape().take_back(inner) ||
        !llvm::all_of(offset.take_back(inner), [](int64_t c) { return c == 0; }))
      return op.emitOpError() << "T10: expected a whole fragment of " << source << ", got " << result;
  }
  SmallVector<int64_t> from = strides(source), have = strides(result);
  for (int64_t d = 0; d < result.getRank(); ++d)
    if (result.getShape()[d] > 1 && from[d + drop] != have[d])
      return op.emitOpError() << "T10: expected " << from[d + drop] / 8 << " bytes between neighbours in dim " << d << " of the result, as in the source, got " << have[d] / 8;
  SmemLayout::Xor x = source.getSmem().exchange();
  int64_t pattern = x.b ? int64_t(8) << (x.b + x.m + x.s) : 1;
  for (int64_t d = 0; d < source.getRank(); ++d)
    if (offset[d] >= 0 && offset[d] * from[d] % pattern)
      return op.emitOpError() << "T9: expected a part that starts at a multiple of " << pattern / 8 << " bytes, got " << offset[d] * from[d] / 8;
  return success();
}

LogicalResult ViewOp::verify() {
  BufType source = getSource().getType(), result = getResult().getType();
  if (failed(verifyCoords(*this, getCoords(), getPlace(), source.getRank())))
    return failure();
  if (result.getRank() > source.getRank())
    return emitOpError() << "T10: expected a result of rank " << source.getRank() << " or less, got " << result.getRank();
  SmallVector<int64_t> offset;
  for (OpFoldResult c : getMixedCoords())
    offset.push_back(constantOf(c).value_or(-1));
  offset.resize(source.getRank(), 0);
  int64_t drop = source.getRank() - result.getRank();
  for (int64_t d = 0; d < source.getRank(); ++d) {
    int64_t size = d < drop ? 1 : result.getShape()[d - drop];
    if (std::max<int64_t>(offset[d], 0) + size > source.getShape()[d])
      return emitOpError() << "T9: expected a part inside " << source.getShape()[d] << " in dim " << d << ", got [" << std::max<int64_t>(offset[d], 0)
                           << ", " << std::max<int64_t>(offset[d], 0) + size << ")";
  }
  return verifyPart(*this, source, result, offset);
}

//===-- copy, put ---------------------------------------------------------===//

/// T17: a buffer consists of whole boxes, and TMA writes (reads) them where the layout says.
static LogicalResult verifyBoxes(Operation *op, TmaType tma, BufType buf) {
  if (tma.getElement() != buf.getElement())
    return op->emitOpError() << "T17: expected a tensor map of the buffer's element " << buf.getElement() << ", got " << tma.getElement();
  if (buf.getLayout().getKind() == SmemKind::Auto)
    return success();
  if (tma.getLayout() != buf.getLayout())
    return op->emitOpError() << "T17: expected the layout of the tensor map " << tma << ", got " << buf;
  ArrayRef<int64_t> box = tma.getBox(), shape = buf.getShape();
  while (box.size() > shape.size() && box.front() == 1)
    box = box.drop_front();
  while (shape.size() > box.size() && shape.front() == 1)
    shape = shape.drop_front();
  auto refuse = [&] { return op->emitOpError() << "T17: expected a buffer made of boxes of " << tma << ", got " << buf; };
  if (box.size() != shape.size())
    return refuse();
  if (!buf.getSmem().atomBytes()) // rows of several boxes would not be contiguous
    return box == shape ? success() : refuse();
  int64_t width = buf.getSmem().atomBytes() * 8 / buf.getElementBits();
  bool oneAtom = shape.back() == width;
  if (box.size() < 2 || box.back() != width)
    return refuse();
  size_t rows = box.size() - 2;
  bool wholeRows = box[rows] == shape[rows];
  if (shape[rows] % box[rows] || (!wholeRows && box[rows] % 8))
    return refuse();
  for (size_t d = 0; d < rows; ++d)
    if (shape[d] % box[d] || (box[d] != 1 && !(oneAtom && wholeRows)) || (box[d] != 1 && box[d] != shape[d] && d > 0))
      return refuse();
  return success();
}

/// T18, T19: one bulk copy of contiguous bytes.
static LogicalResult verifyBulk(CopyOp op, GmemType source, BufType dest) {
  SmemKind kind = dest.getLayout().getKind();
  if (kind != SmemKind::Linear && kind != SmemKind::Frag)
    return op.emitOpError() << "T18: expected a destination of layout linear or frag for contiguous bytes, got " << dest;
  if (dest.getBytes() % 16)
    return op.emitOpError() << "T18: expected a multiple of 16 bytes, got " << dest.getBytes();
  int64_t bits = source.getElement().getIntOrFloatBitWidth();
  // A number can be seen; a value promises, and so does a pitch that is not in the type.
  int64_t stride = bits;
  ArrayRef<int64_t> place = op.getPlace();
  if (int64_t(place.size()) != source.getRank())
    return op.emitOpError() << "expected " << source.getRank() << " coordinates, got " << place.size();
  for (int64_t d = source.getRank() - 1; d >= 0; --d) {
    bool value = place[d] == ShapedType::kDynamic;
    if ((!value && place[d] * stride % 128) || (value && d + 1 < source.getRank() && stride % 128))
      return op.emitOpError() << "T19: expected a source at a multiple of 16 bytes, got a step of " << stride / 8 << " bytes in dim " << d;
    if (ShapedType::isDynamic(source.getShape()[d]))
      break;
    stride *= source.getShape()[d];
  }
  return success();
}

LogicalResult CopyOp::verify() {
  if (!(*this)->getParentOfType<FillOp>())
    return emitOpError() << "T15: expected to be inside a `fill`, which announces its bytes";
  if (auto gmem = dyn_cast<GmemType>(getSource().getType()))
    return failed(verifyCoords(*this, getCoords(), getPlace(), gmem.getRank())) ? failure() : verifyBulk(*this, gmem, getDest().getType());
  auto tma = cast<TmaType>(getSource().getType());
  if (failed(verifyCoords(*this, getCoords(), getPlace(), tma.getRank(), /*star=*/true)))
    return failure();
  if (int64_t(getPlace().size()) != tma.getRank())
    return emitOpError() << "expected " << tma.getRank() << " coordinates, got " << getPlace().size();
  return verifyBoxes(*this, tma, getDest().getType());
}

/// T38: words of 16 bytes, of the matrix and of a buffer that wgmma reads.
LogicalResult GatherOp::verify() {
  auto fill = (*this)->getParentOfType<FillOp>();
  if (!fill)
    return emitOpError() << "T38: expected to be inside a `fill`, whose barrier it completes on";
  if (ringOf(fill.getSlot().getType()).getLanded() != Landed::All || fill.getGroup())
    return emitOpError() << "T38: expected a fill of whole stages";
  auto source = cast<GmemType>(getSource().getType());
  auto ids = cast<RankedTensorType>(getIds().getType());
  BufType dest = getDest().getType();
  if (dest.getRank() != 2 || dest.getLayout().getKind() != SmemKind::Sw128 || dest.getElement() != source.getElement())
    return emitOpError() << "T38: expected a buffer in sw128 of rank 2 and of the matrix's element " << source.getElement() << ", got " << dest;
  if (getFrag(ids).getKind() != FragKind::Line || !ids.getElementType().isInteger(32) || ids.getDimSize(0) != dest.getShape()[0])
    return emitOpError() << "T38: expected " << dest.getShape()[0] << " ids of i32 as `line`, got " << ids;
  if (source.getRank() != 2 || ShapedType::isDynamic(source.getShape()[1]) || source.getShape()[1] * dest.getElementBits() % 128)
    return emitOpError() << "T38: expected a matrix with rows of a multiple of 16 bytes, got " << source;
  return success();
}

LogicalResult LookupOp::verify() {
  auto source = cast<GmemType>(getSource().getType());
  auto ids = cast<RankedTensorType>(getIds().getType()), result = cast<RankedTensorType>(getResult().getType());
  if (source.getRank() != 2 || source.getElement() != result.getElementType() || result.getElementTypeBitWidth() != 32)
    return emitOpError() << "T39: expected a matrix of the result's element, of 32 bits, got " << source << " for " << result;
  if (!ids.getElementType().isInteger(32) || ids.getShape() != result.getShape() || ids.getEncoding() != result.getEncoding())
    return emitOpError() << "T39: expected ids of i32 in the places of " << result << ", got " << ids;
  return success();
}

LogicalResult PutOp::verify() {
  TmaType tma = getDest().getType();
  if (failed(verifyCoords(*this, getCoords(), getPlace(), tma.getRank())))
    return failure();
  if (int64_t(getPlace().size()) != tma.getRank())
    return emitOpError() << "expected " << tma.getRank() << " coordinates, got " << getPlace().size();
  return verifyBoxes(*this, tma, getSource().getType());
}

//===-- load, store, zero -------------------------------------------------===//

LogicalResult verifyAccess(Operation *op, BufType buf, Type value, bool trans) {
  auto tensor = dyn_cast<RankedTensorType>(value);
  if (!tensor) {
    if (buf.getElement() != value || llvm::any_of(buf.getShape(), [](int64_t d) { return d != 1; }))
      return op->emitOpError() << "T30: expected a buffer of one " << value << ", got " << buf;
    return success();
  }
  SmallVector<int64_t> shape(tensor.getShape());
  if (trans && shape.size() == 1)
    shape.push_back(1);
  else if (trans)
    std::reverse(shape.begin(), shape.end());
  ArrayRef<int64_t> have = buf.getShape();
  while (have.size() > shape.size() && have.front() == 1)
    have = have.drop_front();
  if (tensor.getElementType() != buf.getElement() || ArrayRef<int64_t>(shape) != have)
    return op->emitOpError() << "T30: expected a buffer of " << tensor << (trans ? " transposed" : "") << ", got " << buf;
  FragKind kind = getFrag(value).getKind();
  if (kind == FragKind::Line)
    return op->emitOpError() << "T30: expected a fragment of values, got " << tensor << ", which only `read` and `gather` know";
  bool order = buf.getLayout().getKind() == SmemKind::Frag;
  if ((order && (trans || FragKind(buf.getLayout().getA()) != kind)) || (isPacked4(kind) && !order))
    return op->emitOpError() << "T30: expected a buffer of layout frag<" << fragName(kind) << ">, got " << buf;
  return success();
}

/// Columns of 8-bit elements whose rows are 16-byte words wherever 16 columns begin.
static LogicalResult verifyPaired(LoadOp op, int64_t from) {
  BufType buf = op.getSource().getType();
  auto tensor = dyn_cast<RankedTensorType>(op.getResult().getType());
  bool legal = tensor && getFrag(tensor).getKind() == FragKind::Acc && tensor.getElementType() == buf.getElement() && buf.getElementBits() == 8 &&
               !op.getTrans() && buf.getRank() == 2 && tensor.getDimSize(1) == buf.getShape()[0] && buf.getShape()[0] % 32 == 0 &&
               buf.getLayout().getKind() == SmemKind::Sw128;
  if (!legal || from < 0 || from % 16 || from + 64 > buf.getShape()[1])
    return op.emitOpError() << "T30: expected `paired` columns from a multiple of 16 inside a buffer in sw128 of 32, 64, ... rows of 8 bits, as acc, got "
                            << from << " of " << buf << " to " << op.getResult().getType();
  return success();
}

LogicalResult LoadOp::verify() {
  if (getPaired())
    return verifyPaired(*this, *getPaired());
  return verifyAccess(*this, getSource().getType(), getResult().getType(), getTrans());
}
LogicalResult StoreOp::verify() { return verifyAccess(*this, getDest().getType(), getValue().getType(), getTrans()); }

LogicalResult ZeroOp::verify() {
  BufType buf = getDest().getType();
  if (getPlace().size() != 2 || failed(verifyCoords(*this, getCoords(), getPlace(), 2)))
    return getPlace().size() == 2 ? failure() : emitOpError() << "expected rows [from, to), got " << getPlace().size() << " numbers";
  if (buf.getRank() != 2 || buf.getShape()[1] * buf.getElementBits() % 128)
    return emitOpError() << "expected a buffer of rank 2 with rows of a multiple of 16 bytes, got " << buf;
  std::optional<int64_t> to = constantOf(getMixedRows()[1]);
  if (to && *to > buf.getShape()[0])
    return emitOpError() << "expected rows inside " << buf.getShape()[0] << ", got " << *to;
  return success();
}

//===-- read, write, count ------------------------------------------------===//

/// Fragment dims are the last ones of the tensor; a scalar has none.
static LogicalResult verifyGlobal(Operation *op, GmemType gmem, Type value, ValueRange coords, ArrayRef<int64_t> place, bool masks, bool rowMask, bool trans) {
  if (failed(verifyCoords(op, coords, place, gmem.getRank())))
    return failure();
  auto tensor = dyn_cast<RankedTensorType>(value);
  Type element = tensor ? tensor.getElementType() : value;
  if (element != gmem.getElement())
    return op->emitOpError() << "expected element " << gmem.getElement() << " of the tensor, got " << element;
  if (!tensor) {
    if (int64_t(place.size()) != gmem.getRank() || masks || trans)
      return op->emitOpError() << "expected " << gmem.getRank() << " coordinates and neither masks nor `trans` for a scalar, got " << place.size();
    return success();
  }
  if (tensor.getRank() > gmem.getRank() || (rowMask && gmem.getRank() < 2) || (trans && (tensor.getRank() > 2 || gmem.getRank() < 2)))
    return op->emitOpError() << "expected a fragment whose dims are the last ones of " << gmem << ", got " << tensor;
  return success();
}

LogicalResult ReadOp::verify() {
  return verifyGlobal(*this, getSource().getType(), getResult().getType(), getCoords(), getPlace(), getRows() || getCols(), bool(getRows()), getTrans());
}

LogicalResult WriteOp::verify() {
  if (failed(verifyGlobal(*this, getDest().getType(), getValue().getType(), getCoords(), getPlace(), getRows() || getCols(), bool(getRows()), getTrans())))
    return failure();
  if (isFragment(getValue().getType()) && getFrag(getValue().getType()).getKind() == FragKind::Line)
    return emitOpError() << "expected a fragment of values, got " << getValue().getType() << ", which only `read` and `gather` know";
  if (getPaired()) {
    auto tensor = dyn_cast<RankedTensorType>(getValue().getType());
    if (!tensor || tensor.getRank() != 2 || getFrag(tensor).getKind() != FragKind::Acc || tensor.getElementTypeBitWidth() < 16 || !getTrans() || getVia() || getCols())
      return emitOpError() << "expected `paired` with `trans` alone, of an acc fragment of 16 or 32 bits, got " << getValue().getType();
  }
  if (!getVia())
    return success();
  BufType via = getVia().getType();
  auto tensor = dyn_cast<RankedTensorType>(getValue().getType());
  if (!tensor || tensor.getRank() != 2 || getFrag(tensor).getKind() != FragKind::Acc || via.getElement() != tensor.getElementType())
    return emitOpError() << "T32: expected an acc fragment of the buffer's element to go via " << via << ", got " << getValue().getType();
  int64_t cols = tensor.getDimSize(1);
  SmallVector<int64_t, 2> piece = getTrans() ? SmallVector<int64_t, 2>{cols, 16} : SmallVector<int64_t, 2>{16, cols};
  if (via.getRank() != 3 || via.getShape().take_back(2) != ArrayRef<int64_t>(piece))
    return emitOpError() << "T32: expected a buffer of a " << piece[0] << "x" << piece[1] << " piece per warp, got " << via;
  if (auto role = (*this)->getParentOfType<RoleOp>(); role && via.getShape()[0] != 4 * int64_t(role.getWarpgroups()))
    return emitOpError() << "T32: expected " << 4 * role.getWarpgroups() << " pieces, one per warp of the role, got " << via.getShape()[0];
  return success();
}

LogicalResult CountOp::verify() {
  if (getIndex() > 7)
    return emitOpError() << "expected an index below 8, got " << int64_t(getIndex());
  return success();
}

} // namespace dsv3::tile
