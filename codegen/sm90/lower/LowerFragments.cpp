// Arithmetic on fragments: the same op on every register, and what moves values between rows, columns and threads.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;

namespace dsv3::codegen {

//===-- Registers and elements --------------------------------------------===//

Regs KernelLowering::unpacked(Value fragment) {
  FragmentRegs frag(fragment.getType());
  const Regs words = values.lookup(fragment);
  if (frag.perWord() == 1)
    return words;
  Regs out;
  Location loc = fragment.getLoc();
  for (Value word : words) {
    if (frag.element.isBF16()) {
      auto [low, high] = ptx.unpackBf16(word);
      out.append({low, high});
    } else if (frag.element.isF16()) {
      auto [low, high] = ptx.unpackF16(word);
      out.append({low, high});
    } else if (isa<Float8E4M3FNType>(frag.element)) {
      for (Value v : ptx.unpackE4m3(word))
        out.push_back(v);
    } else {
      for (int64_t i = 0; i < frag.perWord(); ++i) {
        Value top = ptx.shl(word, 32 - frag.bits * (i + 1)); // to the top and back: sign extended
        out.push_back(arith::ShRSIOp::create(b, loc, top, ptx.i32(32 - frag.bits)));
      }
    }
  }
  out.truncate(frag.map.registers());
  return out;
}

Regs KernelLowering::packed(const FragmentRegs &frag, ValueRange elements) {
  if (frag.perWord() == 1)
    return Regs(elements);
  Regs all(elements), out;
  while (all.size() % frag.perWord())
    all.push_back(all.back());
  for (size_t i = 0; i < all.size(); i += frag.perWord()) {
    ArrayRef<Value> group = ArrayRef<Value>(all).slice(i, frag.perWord());
    if (frag.element.isBF16()) {
      out.push_back(ptx.packBf16(group[0], group[1]));
    } else if (frag.element.isF16()) {
      out.push_back(ptx.packF16(group[0], group[1]));
    } else if (isa<Float8E4M3FNType>(frag.element)) {
      out.push_back(ptx.packE4m3(group));
    } else {
      Value word;
      for (auto [k, v] : llvm::enumerate(group)) {
        Value part = ptx.shl(ptx.bitAnd(v, (int64_t(1) << frag.bits) - 1), k * frag.bits);
        word = word ? Value(arith::OrIOp::create(b, v.getLoc(), word, part)) : part;
      }
      out.push_back(word);
    }
  }
  return out;
}

/// The type in which a narrow element is computed.
static Type wideType(Type element) {
  MLIRContext *context = element.getContext();
  if (element.isInteger(1) || element.getIntOrFloatBitWidth() >= 32)
    return element;
  return isa<FloatType>(element) ? Type(Float32Type::get(context)) : Type(IntegerType::get(context, 32));
}

LogicalResult KernelLowering::lowerConstant(Operation *op) {
  auto dense = dyn_cast<DenseElementsAttr>(cast<arith::ConstantOp>(op).getValue());
  if (!dense || !dense.isSplat())
    return op->emitOpError("expected one value for all elements of a fragment");
  FragmentRegs frag(op->getResult(0).getType());
  Type wide = wideType(frag.element);
  Value element;
  if (auto type = dyn_cast<FloatType>(frag.element)) {
    APFloat value = dense.getSplatValue<APFloat>();
    bool lost;
    if (wide != type)
      value.convert(cast<FloatType>(wide).getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
    element = arith::ConstantOp::create(b, op->getLoc(), FloatAttr::get(wide, value));
  } else {
    APInt value = dense.getSplatValue<APInt>();
    element = arith::ConstantOp::create(b, op->getLoc(), IntegerAttr::get(wide, value.sextOrTrunc(wide.getIntOrFloatBitWidth())));
  }
  set(op->getResult(0), packed(frag, Regs(frag.map.registers(), element)));
  return success();
}

/// Conversions between a narrow type and the wider one in which it is computed are done by packing and unpacking.
static bool isNarrowing(Operation *op) { return isa<arith::TruncFOp, arith::TruncIOp>(op) && wideType(getElementTypeOrSelf(op->getResult(0))) == getElementTypeOrSelf(op->getOperand(0)); }
static bool isWidening(Operation *op) { return isa<arith::ExtFOp, arith::ExtSIOp>(op) && wideType(getElementTypeOrSelf(op->getOperand(0))) == getElementTypeOrSelf(op->getResult(0)); }

LogicalResult KernelLowering::lowerElementwise(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return op->emitOpError("expected one result of an operation on fragments");
  FragmentRegs out(op->getResult(0).getType());
  SmallVector<Regs> operands;
  for (Value v : op->getOperands())
    operands.push_back(tile::isFragment(v.getType()) ? unpacked(v) : Regs(out.map.registers(), scalar(v)));
  if (isNarrowing(op) || isWidening(op)) {
    set(op->getResult(0), packed(out, operands[0]));
    return success();
  }
  // Rounding to a narrow type happens once per op, as its type says.
  if (out.perWord() != 1 && !isa<arith::SelectOp, arith::FPToSIOp>(op) && isa<IntegerType>(out.element))
    return op->emitOpError("expected arithmetic on 32-bit integers");
  Regs results;
  for (int64_t i = 0; i < out.map.registers(); ++i) {
    IRMapping map;
    for (auto [operand, regs] : llvm::zip(op->getOperands(), operands))
      map.map(operand, regs[i]);
    Operation *clone = b.clone(*op, map);
    clone->getResult(0).setType(wideType(out.element));
    results.push_back(clone->getResult(0));
  }
  set(op->getResult(0), packed(out, results));
  return success();
}

//===-- Rows and columns --------------------------------------------------===//

static Value combine(OpBuilder &b, Location loc, tile::Combine kind, Value x, Value y) {
  bool isFloat = isa<FloatType>(x.getType());
  switch (kind) {
  case tile::Combine::Add:
    return isFloat ? Value(arith::AddFOp::create(b, loc, x, y)) : Value(arith::AddIOp::create(b, loc, x, y));
  case tile::Combine::Max:
    return isFloat ? Value(arith::MaxNumFOp::create(b, loc, x, y)) : Value(arith::MaxSIOp::create(b, loc, x, y));
  case tile::Combine::Min:
    return isFloat ? Value(arith::MinNumFOp::create(b, loc, x, y)) : Value(arith::MinSIOp::create(b, loc, x, y));
  }
  return {};
}

LogicalResult KernelLowering::lowerReduce(tile::ReduceOp op) {
  FragmentRegs from(op.getSource().getType()), to(op.getResult().getType());
  const bool fromAcc = from.map.kind() == tile::FragKind::Acc, fromQuad = from.map.kind() == tile::FragKind::Quad;
  const bool toRow = to.map.kind() == tile::FragKind::Row;
  if (op.getDim() != 1 || !(fromAcc || fromQuad) || !(toRow || to.map.kind() == tile::FragKind::Quad) || from.perWord() != 1)
    return op.emitOpError("T33: expected a reduction of 32-bit elements along dim 1 from acc or quad to quad or row");
  Regs source = values.lookup(op.getSource()), out;
  for (int64_t half = 0; half < 2; ++half) { // rows l / 4 and l / 4 + 8
    Regs level;
    for (int64_t reg = 0; reg < from.map.registers(); ++reg)
      if ((fromAcc ? reg / 2 % 2 : reg) == half)
        level.push_back(source[reg]);
    while (level.size() > 1) { // a tree over neighbours; an odd one waits for the next level
      Regs next;
      for (size_t i = 0; i + 1 < level.size(); i += 2)
        next.push_back(combine(b, op.getLoc(), op.getKind(), level[i], level[i + 1]));
      if (level.size() % 2)
        next.push_back(level.back());
      level = next;
    }
    Value value = level[0];
    for (int64_t mask : {1, 2})
      if (toRow)
        value = combine(b, op.getLoc(), op.getKind(), value, ptx.shuffleXor(value, mask));
    out.push_back(value);
  }
  set(op.getResult(), out);
  return success();
}

LogicalResult KernelLowering::lowerReduceRows(tile::ReduceRowsOp op) {
  FragmentRegs from(op.getSource().getType());
  auto id = op->getAttrOfType<IntegerAttr>(plan::kId);
  if (!role || !id)
    return op.emitOpError("expected named barriers from --dsv3-tile-allocate");
  const int64_t columns = from.map.shape()[1], pitch = 4 * columns, over = op.getOver(), warps = 4 * over;
  const Regs source = values.lookup(op.getSource());
  auto both = [&](Value x, Value y) { return combine(b, op.getLoc(), op.getKind(), x, y); };
  Regs mine; // two columns of every eight: those of the thread's quad
  for (int64_t j = 0; j < columns / 8; ++j)
    for (int64_t i = 0; i < 2; ++i) {
      Value value = both(source[4 * j + i], source[4 * j + 2 + i]);
      for (int64_t mask : {4, 8, 16})
        value = both(value, ptx.shuffleXor(value, mask));
      mine.push_back(value);
    }
  Value g = scalar(role.getIndex()), group = over > 1 ? arith::DivUIOp::create(b, op.getLoc(), g, ptx.i32(over)) : g;
  Value barrier = ptx.add(group, id.getInt()), place = ptx.add(scalar(op.getVia()), ptx.mul(ptx.bitAnd(thread, 3), 8));
  Value own = ptx.add(place, ptx.mul(ptx.add(ptx.mul(g, 4), ptx.shr(thread, 5)), pitch)), first = ptx.equal(ptx.shr(lane, 2), 0);
  ptx.barrierSync(barrier, 128 * over); // all have read the values of the time before
  for (int64_t j = 0; j < columns / 8; ++j)
    ptx.stShared(own, 32 * j, {ptx.bitcast(mine[2 * j], b.getI32Type()), ptx.bitcast(mine[2 * j + 1], b.getI32Type())}, first);
  ptx.barrierSync(barrier, 128 * over);
  Value all = ptx.add(place, ptx.mul(group, warps * pitch));
  Regs out;
  for (int64_t j = 0; j < columns / 8; ++j) {
    Regs two;
    for (int64_t w = 0; w < warps; ++w)
      for (auto [i, word] : llvm::enumerate(ptx.ldShared(all, w * pitch + 32 * j, 2))) {
        Value x = ptx.bitcast(word, b.getF32Type());
        if (w == 0)
          two.push_back(x);
        else
          two[i] = both(two[i], x);
      }
    llvm::append_range(out, two);
  }
  set(op.getResult(), out);
  return success();
}

LogicalResult KernelLowering::lowerBcast(tile::BcastOp op) {
  FragmentRegs to(op.getResult().getType());
  Regs out;
  if (!tile::isFragment(op.getSource().getType())) {
    Value x = scalar(op.getSource());
    if (x.getType() != wideType(to.element))
      return op.emitOpError("expected a scalar of 32 bits");
    set(op.getResult(), packed(to, Regs(to.map.registers(), x)));
    return success();
  }
  FragmentRegs from(op.getSource().getType());
  Regs source = unpacked(op.getSource());
  const bool rows = from.map.kind() == tile::FragKind::Row;
  const bool acc = to.map.kind() == tile::FragKind::Acc, quad = to.map.kind() == tile::FragKind::Quad;
  if (!(rows ? acc || quad : from.map.kind() == tile::FragKind::Col && acc))
    return op.emitOpError("T34: expected row to acc or quad, or col to acc");
  for (int64_t reg = 0; reg < to.map.registers(); ++reg)
    out.push_back(source[quad ? reg : rows ? reg / 2 % 2 : 2 * (reg / 4) + reg % 2]);
  set(op.getResult(), packed(to, out));
  return success();
}

LogicalResult KernelLowering::lowerIota(tile::IotaOp op) {
  FragmentRegs to(op.getResult().getType());
  const int64_t dim = op.getDim();
  if (to.perWord() != 1 || !to.element.isInteger(32))
    return op.emitOpError("expected i32 elements");
  std::optional<AddressFit> fit = fitAddress(to.map.registers(), [&](int64_t reg, int64_t t) { return to.coord(reg, t)[dim]; });
  if (!fit)
    return op.emitOpError("expected coordinates that are sums over the bits of the thread's index");
  Value base = threadSum(fit->linear);
  Regs out;
  for (int64_t reg = 0; reg < to.map.registers(); ++reg)
    out.push_back(ptx.add(base, fit->offset[reg]));
  set(op.getResult(), out);
  return success();
}

LogicalResult KernelLowering::lowerSlice(tile::SliceOp op) {
  FragmentRegs from(op.getSource().getType()), to(op.getResult().getType());
  OpFoldResult at = op.getCol();
  std::optional<int64_t> column;
  if (auto attr = dyn_cast<Attribute>(at))
    column = cast<IntegerAttr>(attr).getInt();
  else
    column = constant(scalar(cast<Value>(at)));
  if (!column)
    return op.emitOpError("expected a constant first column after unrolling");
  if (from.map.kind() != tile::FragKind::Acc || *column % 8 || *column < 0 || *column + to.map.shape()[1] > from.map.shape()[1])
    return op.emitOpError("expected columns of an acc fragment from a multiple of 8, inside it");
  const int64_t first = *column / 2 / from.perWord();
  set(op.getResult(), Regs(ValueRange(values.lookup(op.getSource())).slice(first, to.words())));
  return success();
}

/// Made once, at the kernel's start. Only experts' kernels keep them: their tiles leave two registers for that, of dense ones one
/// spilled.
const std::array<Value, 2> &KernelLowering::e4m3Tables() {
  if (!tables[0]) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&func.getBody().front());
    const uint32_t low[] = {uint32_t(kE4m3FromZero), uint32_t(kHalfE4m3BelowZero)};
    const bool experts = !kernel.getBody().getOps<tile::GroupsOp>().empty();
    for (auto [table, number] : llvm::zip(tables, low))
      table = experts ? ptx.kept(number) : ptx.i32(int32_t(number));
  }
  return tables;
}

LogicalResult KernelLowering::lowerExpand(tile::ExpandOp op) {
  FragmentRegs from(op.getSource().getType()), to(op.getResult().getType());
  Regs out;
  const Regs words = values.lookup(op.getSource());
  const bool nibbles = from.element.isInteger(4) && from.map.kind() == tile::FragKind::OpA4;
  const bool looked = from.element.isInteger(4) && from.map.kind() == tile::FragKind::OpA4T;
  const bool pairs = from.element.isInteger(4) && from.map.kind() == tile::FragKind::Acc4;
  const bool wide = isa<Float8E5M2Type>(from.element); // of exponent
  const bool half = to.element.isF16();
  const bool bytes = (wide || isa<Float8E4M3FNType>(from.element)) && (half || to.element.isBF16()) && from.map.kind() == tile::FragKind::Acc;
  if (!nibbles && !looked && !pairs && !bytes)
    return op.emitOpError("T35: expected i4 in opA4, opA4t or acc4, or f8E4M3FN or f8E5M2 in acc");
  std::array<Value, 2> bias{ptx.i32(0x43084308), ptx.i32(0x43084308)}; // 136 twice, of a row and the one 8 below
  if (op.getZero())
    for (auto [row, zero] : llvm::zip(bias, values.lookup(op.getZero()))) {
      Value sum = arith::AddFOp::create(b, op.getLoc(), zero, ptx.f32(136));
      row = ptx.packBf16(sum, sum);
    }
  for (Value word : words) {
    if (pairs)
      llvm::append_range(out, ptx.expandI4ToBf16(word, bias));
    else if (half)
      llvm::append_range(out, wide ? ptx.expandE5m2ToF16(word) : ptx.expandE4m3ToF16(word));
    else
      llvm::append_range(out, nibbles ? ptx.expandI4(word) : looked ? ptx.expandI4ToE4m3(word, e4m3Tables()) : wide ? ptx.expandE5m2(word) : ptx.expandE4m3(word));
  }
  set(op.getResult(), out);
  return success();
}

LogicalResult KernelLowering::lowerAny(tile::AnyOp op) {
  Value all;
  for (Value v : values.lookup(op.getMask()))
    all = all ? Value(arith::OrIOp::create(b, op.getLoc(), all, v)) : v;
  set(op.getResult(), {ptx.any(all)});
  return success();
}

} // namespace dsv3::codegen
