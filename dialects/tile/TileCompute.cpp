// Verifiers of mma, and of what changes a fragment's layout.
#include "dialects/tile/TileVerify.h"

using namespace mlir;

namespace dsv3::tile {

static RankedTensorType tensor(Value v) { return dyn_cast<RankedTensorType>(v.getType()); }
static FragKind kindOf(Type type) { return getFrag(type).getKind(); }

//===-- mma ---------------------------------------------------------------===//

namespace {
/// An operand of mma, wherever it lies.
struct Operand {
  ArrayRef<int64_t> shape;
  Type element;
  BufType buf; ///< null for a fragment
};
} // namespace

static Operand operandOf(Type type) {
  if (auto slot = dyn_cast<SlotType>(type))
    type = slot.getRing().getBuf(0);
  if (auto buf = dyn_cast<BufType>(type))
    return {buf.getShape(), buf.getElement(), buf};
  auto frag = cast<RankedTensorType>(type);
  return {frag.getShape(), frag.getElementType(), {}};
}

/// T24: the triples that wgmma knows and this compiler uses.
static bool isTriple(Type a, Type b, Type acc) {
  auto f8 = [](Type t) { return isa<Float8E4M3FNType, Float8E5M2Type>(t); };
  if (a.isBF16() || a.isF16())
    return a == b && acc.isF32();
  if (f8(a))
    return f8(b) && acc.isF32();
  return a.isInteger(8) && b.isInteger(8) && acc.isInteger(32);
}

static LogicalResult verifyShapes(MmaOp op, const Operand &a, const Operand &b, AccType acc) {
  bool nt = op.getForm() == Form::Nt;
  if (a.shape.size() != 2 || b.shape.size() != 2)
    return op.emitOpError() << "T24: expected operands of rank 2, got " << a.shape.size() << " and " << b.shape.size();
  int64_t n = b.shape[nt ? 0 : 1], k = b.shape[nt ? 1 : 0];
  if (a.shape[0] != 64 || n != acc.getCols())
    return op.emitOpError() << "T24: expected 64 rows of a and " << acc.getCols() << " of b's n, got " << a.shape[0] << " and " << n;
  if (a.shape[1] != k)
    return op.emitOpError() << "T24: expected k of a (" << a.shape[1] << ") to equal k of b (" << k << ")";
  if (!isTriple(a.element, b.element, acc.getElement()))
    return op.emitOpError() << "T24: expected bf16, f16, f8 or i8 operands with an accumulator of f32 or i32, got " << a.element << ", " << b.element << " into " << acc.getElement();
  int64_t step = 256 / a.element.getIntOrFloatBitWidth();
  if (k % step)
    return op.emitOpError() << "T24: expected k of a multiple of " << step << ", got " << k;
  if (acc.getElement().isInteger(32) && n != 8 && n != 24 && n % 16)
    return op.emitOpError() << "T24: expected n of 8, 24 or a multiple of 16 for i8, got " << n;
  if (!nt && b.element.getIntOrFloatBitWidth() != 16)
    return op.emitOpError() << "T25: expected 16-bit elements for `nn`, got " << b.element;
  return success();
}

/// T26. The atoms of sw* are wgmma's by construction (DescriptorTest and the layout tests compare every element); rows
/// without an exchange would need atoms of 16 bytes, which no TMA box of ours writes.
static LogicalResult verifyLayout(MmaOp op, StringRef name, BufType buf) {
  if (buf && !SmemLayout::atomBytes(buf.getLayout().getKind()) && buf.getLayout().getKind() != SmemKind::Auto)
    return op.emitOpError() << "T26: expected " << name << " of layout sw32, sw64 or sw128, got " << buf;
  return success();
}

LogicalResult MmaOp::verify() {
  auto slot = dyn_cast<SlotType>(getB().getType());
  if (slot && slot.getRing().getBufs().size() != 1)
    return emitOpError() << "expected a ring of one buffer as a streamed operand, got " << slot.getRing().getBufs().size();
  if (getGroup() && !slot)
    return emitOpError() << "expected a slot as b with a group, got " << getB().getType();
  if (slot && failed(verifyGroup(*this, slot.getRing(), getGroup())))
    return failure();
  if (slot && getForm() == Form::Nn)
    return emitOpError() << "expected `nt` with a slot as b: its columns are k";
  Operand a = operandOf(getA().getType()), b = operandOf(getB().getType());
  if (failed(verifyShapes(*this, a, b, getResult().getType())) || failed(verifyLayout(*this, "a", a.buf)) || failed(verifyLayout(*this, "b", b.buf)))
    return failure();
  if (a.buf)
    return success();
  FragKind want = a.element.getIntOrFloatBitWidth() == 16 ? FragKind::Acc : FragKind::OpA;
  if (kindOf(getA().getType()) != want)
    return emitOpError() << "T27: expected a register operand of kind " << fragName(want) << ", got " << getA().getType();
  return success();
}

LogicalResult AwaitOp::verify() {
  if (getReads() && isa<AccType>(getSource().getType()))
    return emitOpError() << "expected a token with `reads`, got " << getSource().getType();
  return success();
}

//===-- reduce, bcast, iota, slice, expand --------------------------------===//

LogicalResult ReduceOp::verify() {
  RankedTensorType from = tensor(getSource()), to = tensor(getResult());
  FragKind a = kindOf(from), b = kindOf(to);
  bool legal = getDim() == 1 && ((a == FragKind::Acc && (b == FragKind::Quad || b == FragKind::Row)) || (a == FragKind::Quad && b == FragKind::Row));
  if (!legal || from.getElementType() != to.getElementType())
    return emitOpError() << "T33: expected acc to quad or row, or quad to row, along dim 1 and of one element, got " << from << " to " << to << " along dim " << int64_t(getDim());
  return success();
}

LogicalResult BcastOp::verify() {
  RankedTensorType from = tensor(getSource()), to = tensor(getResult());
  Type element = from ? from.getElementType() : getSource().getType();
  bool legal = true;
  if (from) {
    FragKind a = kindOf(from), b = kindOf(to);
    legal = (a == FragKind::Row && (b == FragKind::Acc || b == FragKind::Quad)) || (a == FragKind::Col && b == FragKind::Acc && from.getDimSize(0) == to.getDimSize(1));
  }
  if (!legal || element != to.getElementType())
    return emitOpError() << "T34: expected a scalar, row to acc or quad, or col to acc of the same columns, of one element, got " << getSource().getType() << " to " << to;
  return success();
}

LogicalResult IotaOp::verify() {
  RankedTensorType type = tensor(getResult());
  if (int64_t(getDim()) >= type.getRank() || !type.getElementType().isInteger(32))
    return emitOpError() << "T34: expected a dim below " << type.getRank() << " and element i32, got dim " << int64_t(getDim()) << " of " << type;
  return success();
}

LogicalResult SliceOp::verify() {
  RankedTensorType from = tensor(getSource()), to = tensor(getResult());
  if (getPlace().size() != 1 || failed(verifyCoords(*this, getCoords(), getPlace(), 1)))
    return failure();
  if (kindOf(from) != FragKind::Acc || kindOf(to) != FragKind::Acc || from.getElementType() != to.getElementType())
    return emitOpError() << "T34: expected acc fragments of one element, got " << from << " and " << to;
  int64_t col = constantOf(getCol()).value_or(0);
  if (col % 8 || col + to.getDimSize(1) > from.getDimSize(1))
    return emitOpError() << "T34: expected columns from a multiple of 8 inside " << from.getDimSize(1) << ", got [" << col << ", " << col + to.getDimSize(1) << ")";
  return success();
}

LogicalResult ExpandOp::verify() {
  RankedTensorType from = tensor(getSource()), to = tensor(getResult());
  Type a = from.getElementType(), b = to.getElementType();
  bool four = a.isInteger(4) && b.isInteger(8) && kindOf(from) == FragKind::OpA4 && kindOf(to) == FragKind::OpA;
  bool looked = a.isInteger(4) && isa<Float8E4M3FNType>(b) && kindOf(from) == FragKind::OpA4T && kindOf(to) == FragKind::OpA;
  bool pairs = a.isInteger(4) && b.isBF16() && kindOf(from) == FragKind::Acc4 && kindOf(to) == FragKind::Acc;
  bool eight = isa<Float8E4M3FNType, Float8E5M2Type>(a) && (b.isBF16() || b.isF16()) && kindOf(from) == FragKind::Acc && kindOf(to) == FragKind::Acc;
  if ((!four && !looked && !pairs && !eight) || from.getShape() != to.getShape())
    return emitOpError() << "T35: expected i4 opA4 to i8 opA, i4 opA4t to f8E4M3FN opA, i4 acc4 to bf16 acc, or f8E4M3FN or f8E5M2 acc to bf16 or f16 acc, of one shape, got " << from << " to " << to;
  RankedTensorType zero = getZero() ? tensor(getZero()) : RankedTensorType();
  if (zero && (!pairs || kindOf(zero) != FragKind::Row || !zero.getElementType().isF32()))
    return emitOpError() << "T35: expected f32 row to take from i4 acc4, got " << zero << " from " << from;
  return success();
}

LogicalResult ReduceRowsOp::verify() {
  RankedTensorType from = tensor(getSource()), to = tensor(getResult());
  BufType via = getVia().getType();
  if (kindOf(from) != FragKind::Acc || kindOf(to) != FragKind::Col || !from.getElementType().isF32() || !to.getElementType().isF32() ||
      from.getDimSize(1) != to.getDimSize(0))
    return emitOpError() << "T39: expected f32 acc to f32 col of the same columns, got " << from << " to " << to;
  auto role = (*this)->getParentOfType<RoleOp>();
  int64_t warpgroups = role ? int64_t(role.getWarpgroups()) : 0, over = int64_t(getOver());
  if (over < 1 || !warpgroups || warpgroups % over)
    return emitOpError() << "T39: expected a number that divides the role's " << warpgroups << " warpgroups, got " << over;
  if (via.getShape() != ArrayRef<int64_t>{4 * warpgroups, from.getDimSize(1)} || !via.getElement().isF32() || via.getLayout().getKind() != SmemKind::Linear)
    return emitOpError() << "T39: expected a row-major buffer of " << 4 * warpgroups << "x" << from.getDimSize(1) << " f32, got " << via;
  return success();
}

} // namespace dsv3::tile
