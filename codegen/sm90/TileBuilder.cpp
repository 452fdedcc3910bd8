#include "codegen/sm90/TileBuilder.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;

namespace dsv3::codegen {

using Form = tile::Form;

TileBuilder::TileBuilder(OpBuilder &builder, Location loc)
    : b(loc, builder), f32(b.getF32Type()), bf16(b.getBF16Type()), f16(b.getF16Type()), f8(b.getType<Float8E4M3FNType>()), i32(b.getI32Type()), i8(b.getI8Type()),
      i4(b.getIntegerType(4)), i1(b.getI1Type()), scalars(LLVM::LLVMPointerType::get(b.getContext(), 1)) {}

//===-- Types -------------------------------------------------------------===//

static RankedTensorType fragment(tile::FragKind kind, ArrayRef<int64_t> shape, Type elem) {
  return RankedTensorType::get(shape, elem, tile::FragAttr::get(elem.getContext(), kind));
}

tile::BufType TileBuilder::buf(ArrayRef<int64_t> shape, Type elem, tile::SmemKind kind) const { return tile::BufType::get(shape, elem, kind); }

tile::BufType TileBuilder::swizzled(ArrayRef<int64_t> shape, Type elem, int64_t bits, int64_t base, int64_t shift) const {
  return tile::BufType::get(b.getContext(), shape, elem, tile::LayoutAttr::get(b.getContext(), tile::SmemKind::Swizzle, bits, base, shift));
}

tile::BufType TileBuilder::fragBuf(ArrayRef<int64_t> shape, Type elem, tile::FragKind kind) const {
  auto layout = tile::LayoutAttr::get(b.getContext(), tile::SmemKind::Frag, int64_t(kind), 0, 0);
  return tile::BufType::get(b.getContext(), shape, elem, layout);
}

tile::TmaType TileBuilder::tma(Type elem, ArrayRef<int64_t> box, tile::SmemKind kind) const {
  return tile::TmaType::get(SmallVector<int64_t>(box.size(), ShapedType::kDynamic), elem, box, kind);
}

tile::GmemType TileBuilder::gmem(ArrayRef<int64_t> shape, Type elem) const { return tile::GmemType::get(shape, elem); }
RankedTensorType TileBuilder::frag(int64_t cols, Type elem, tile::FragKind kind) const { return fragment(kind, {64, cols}, elem); }
RankedTensorType TileBuilder::row(Type elem) const { return fragment(tile::FragKind::Row, {64}, elem); }
RankedTensorType TileBuilder::col(int64_t cols, Type elem) const { return fragment(tile::FragKind::Col, {cols}, elem); }
RankedTensorType TileBuilder::quad(Type elem) const { return fragment(tile::FragKind::Quad, {64, 4}, elem); }
RankedTensorType TileBuilder::line(int64_t rows) const { return fragment(tile::FragKind::Line, {rows}, i32); }

//===-- Structure ---------------------------------------------------------===//

OpFoldResult TileBuilder::fold(Num n) const {
  if (!n.value && n.number == tile::kStar)
    return tile::star(b.getContext());
  return n.value ? OpFoldResult(n.value) : OpFoldResult(IntegerAttr::get(i32, n.number));
}

SmallVector<OpFoldResult> TileBuilder::fold(ArrayRef<Num> nums) const {
  return llvm::map_to_vector(nums, [&](Num n) { return fold(n); });
}

/// Runs `body` in `block` and ends it with what it returns.
Values TileBuilder::yieldFrom(Operation *op, Block &block, Fn<Values()> body) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&block);
  Values values = body();
  if (isa<scf::IfOp>(op))
    scf::YieldOp::create(b, values);
  else
    tile::YieldOp::create(b, values);
  return Values(op->getResults());
}

tile::KernelOp TileBuilder::kernel(StringRef name, ArrayRef<Type> args, int64_t cluster, Fn<void(Values)> body) {
  auto op = tile::KernelOp::create(b, name, args, cluster);
  OpBuilder::InsertionGuard guard(b);
  Block &block = op.getBody().front();
  b.setInsertionPointToStart(&block);
  current = op;
  body(Values(block.getArguments()));
  return op;
}

Values TileBuilder::call(StringRef name, ArrayRef<Value> args, Fn<Values(Values)> body) {
  std::string symbol = (current.getSymName() + "." + name).str();
  auto helper = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(current->getParentOp(), b.getStringAttr(symbol));
  if (!helper) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(current);
    SmallVector<Type> inputs(ValueRange(args).getTypes());
    helper = func::FuncOp::create(b, symbol, b.getFunctionType(inputs, {}));
    helper.setPrivate();
    b.setInsertionPointToStart(helper.addEntryBlock());
    Values results = body(Values(helper.getArguments()));
    func::ReturnOp::create(b, results);
    helper.setType(b.getFunctionType(inputs, ValueRange(results).getTypes()));
  }
  auto call = func::CallOp::create(b, helper, args);
  return Values(call.getResults());
}

void TileBuilder::producer(StringRef name, int64_t regs, Fn<void()> body) {
  auto op = tile::RoleOp::create(b, name, /*warpgroups=*/0, regs);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&op.getBody().front());
  body();
}

void TileBuilder::consumers(StringRef name, int64_t count, int64_t regs, Fn<void(Value)> body) {
  auto op = tile::RoleOp::create(b, name, count, regs);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(&op.getBody().front());
  body(op.getIndex());
}

Value TileBuilder::raster(ArrayRef<Num> extents, ArrayRef<int64_t> tile, int64_t group, ArrayRef<StringRef> fields) {
  return tile::RasterOp::create(b, fold(extents), tile, group, fields);
}

Value TileBuilder::list(Value items, Value parts, Value lanes, ArrayRef<StringRef> fields) {
  return tile::ListOp::create(b, items, parts, lanes, fields);
}

Value TileBuilder::groups(Value offsets, Value experts, int64_t rows, Value cols, int64_t tile, int64_t max, ArrayRef<StringRef> fields) {
  return tile::GroupsOp::create(b, offsets, experts, rows, cols, tile, max, fields);
}

Values TileBuilder::foreach(Value work, ArrayRef<Value> inits, Fn<Values(Values, Values)> body) {
  auto op = tile::ForeachOp::create(b, work, inits);
  return yieldFrom(op, op.getBody().front(), [&] { return body(Values(op.getFieldArgs()), Values(op.getIterArgs())); });
}

static tile::LoopOp makeLoop(ImplicitLocOpBuilder &b, OpFoldResult from, OpFoldResult to, OpFoldResult step, ArrayRef<Value> inits,
                             tile::Peel peel, bool unroll) {
  return tile::LoopOp::create(b, from, to, step, inits, peel, unroll);
}

Values TileBuilder::loop(Num from, Num to, Num step, ArrayRef<Value> inits, Fn<Values(Value, Values)> body) {
  tile::LoopOp op = makeLoop(b, fold(from), fold(to), fold(step), inits, tile::Peel::None, false);
  return yieldFrom(op, op.getBody().front(), [&] { return body(op.getIndex(), Values(op.getIterArgs())); });
}

Values TileBuilder::unrolled(int64_t from, int64_t to, int64_t step, ArrayRef<Value> inits, Fn<Values(Value, Values)> body) {
  tile::LoopOp op = makeLoop(b, fold(from), fold(to), fold(step), inits, tile::Peel::None, true);
  return yieldFrom(op, op.getBody().front(), [&] { return body(op.getIndex(), Values(op.getIterArgs())); });
}

Values TileBuilder::peeled(tile::Peel peel, Num from, Num to, Num step, ArrayRef<Value> inits, Fn<Values(Value, Value, Values)> body) {
  tile::LoopOp op = makeLoop(b, fold(from), fold(to), fold(step), inits, peel, false);
  return yieldFrom(op, op.getBody().front(), [&] { return body(op.getIndex(), op.getFin(), Values(op.getIterArgs())); });
}

void TileBuilder::when(Value condition, Fn<void()> then) {
  choose(
      condition, {},
      [&] {
        then();
        return Values();
      },
      nullptr);
}

Values TileBuilder::choose(Value condition, ArrayRef<Type> types, Fn<Values()> then, Fn<Values()> otherwise) {
  auto op = scf::IfOp::create(b, TypeRange(types), condition, /*addThenBlock=*/true, /*addElseBlock=*/bool(otherwise));
  yieldFrom(op, *op.thenBlock(), then);
  return otherwise ? yieldFrom(op, *op.elseBlock(), otherwise) : Values(op.getResults());
}

Value TileBuilder::none(Type type) { return tile::NoneOp::create(b, type); }

//===-- Rings and barriers ------------------------------------------------===//

Value TileBuilder::ring(StringRef name, int64_t stages, ArrayRef<Type> bufs, ArrayRef<StringRef> freedBy, tile::Arrive arrive) {
  return ring(tile::RingAttr::get(b.getContext(), name, stages, bufs, {tile::FreeAttr::get(b.getContext(), freedBy)}, arrive));
}

Value TileBuilder::ring(tile::RingAttr attr) { return tile::RingOp::create(b, attr); }
Value TileBuilder::next(Value ringOrSlot) { return tile::NextOp::create(b, ringOrSlot); }

void TileBuilder::fill(Value slot, Fn<void(Values)> body, int64_t group) {
  auto op = tile::FillOp::create(b, slot, group);
  OpBuilder::InsertionGuard guard(b);
  Block &block = op.getBody().front();
  b.setInsertionPointToStart(&block);
  body(Values(block.getArguments()));
}

static IntegerAttr groupAttr(Builder &b, int64_t group) { return group < 0 ? IntegerAttr() : b.getI64IntegerAttr(group); }

Values TileBuilder::wait(Value slot, int64_t group) {
  return Values(tile::WaitOp::create(b, tile::Barrier::Full, slot, groupAttr(b, group)).getBufs());
}

Values TileBuilder::waitFree(Value slot, int64_t group) {
  return Values(tile::WaitOp::create(b, tile::Barrier::Free, slot, groupAttr(b, group)).getBufs());
}

Values TileBuilder::peek(Value slot) { return Values(tile::PeekOp::create(b, slot).getBufs()); }
void TileBuilder::release(Value slot, int64_t group) { tile::ReleaseOp::create(b, slot, group); }
void TileBuilder::releaseFull(Value slot) { tile::ReleaseOp::create(b, slot, -1, tile::Barrier::Full); }

Value TileBuilder::gate(StringRef from, StringRef to, bool mutual) {
  return tile::GateOp::create(b, from, to, mutual);
}
Value TileBuilder::memoryGate(StringRef from, StringRef to, bool mutual) {
  auto op = tile::GateOp::create(b, from, to, mutual);
  op->setAttr("tile.memory", b.getUnitAttr());
  return op;
}

void TileBuilder::signal(Value gate) { tile::SignalOp::create(b, gate); }
void TileBuilder::meet(Value gate) { tile::MeetOp::create(b, gate); }
void TileBuilder::sync(tile::Scope scope) { tile::SyncOp::create(b, scope); }

//===-- Memory ------------------------------------------------------------===//

Value TileBuilder::alloc(tile::BufType type) { return tile::AllocOp::create(b, type); }
Value TileBuilder::view(tile::BufType type, Value source, ArrayRef<Num> at) { return tile::ViewOp::create(b, type, source, fold(at)); }

void TileBuilder::copy(Value source, ArrayRef<Num> at, Value dest, tile::Hint hint, Value onSlot) {
  tile::CopyOp::create(b, source, fold(at), dest, onSlot, hint);
}

void TileBuilder::gather(Value source, Value ids, Num column, Value rows, Value dest) {
  tile::GatherOp::create(b, source, ids, index(column), rows, dest);
}
Value TileBuilder::lookup(Value source, Value ids, Num column) {
  auto places = mlir::cast<RankedTensorType>(ids.getType());
  Type elem = mlir::cast<tile::GmemType>(source.getType()).getElement();
  return tile::LookupOp::create(b, RankedTensorType::get(places.getShape(), elem, places.getEncoding()), source, ids, index(column));
}

Value TileBuilder::loadPaired(Value source, int64_t column, Type type) {
  return tile::LoadOp::create(b, type, source, /*trans=*/false, b.getI64IntegerAttr(column));
}
void TileBuilder::writePaired(Value value, Value dest, ArrayRef<Num> at, Value rows) {
  auto write = tile::WriteOp::create(b, value, dest, fold(at), rows, Value(), /*trans=*/true, Value());
  write.setPaired(true);
}
Value TileBuilder::load(Value source, Type type, bool trans) { return tile::LoadOp::create(b, type, source, trans, /*paired=*/IntegerAttr()); }
void TileBuilder::store(Value frag, Value dest) { tile::StoreOp::create(b, frag, dest, false); }
void TileBuilder::zero(Value dest, Num from, Num to) { tile::ZeroOp::create(b, dest, fold(from), fold(to)); }
Value TileBuilder::put(Value source, Value tma, ArrayRef<Num> at) { return tile::PutOp::create(b, source, tma, fold(at)); }

Value TileBuilder::read(Value source, ArrayRef<Num> at, Type type, Value rows, Value cols, bool trans) {
  return tile::ReadOp::create(b, type, source, fold(at), rows, cols, trans);
}

void TileBuilder::write(Value value, Value dest, ArrayRef<Num> at, Value rows, Value cols, bool trans, Value via) {
  tile::WriteOp::create(b, value, dest, fold(at), rows, cols, trans, via);
}

Value TileBuilder::count(Value scalars, int64_t index) { return tile::CountOp::create(b, scalars, index); }

//===-- Tile compute ------------------------------------------------------===//

TileBuilder::Mma TileBuilder::mma(Form form, Value a, Value bufOrSlot, Value acc, int64_t group) {
  auto op = tile::MmaOp::create(b, form, a, bufOrSlot, acc);
  if (group >= 0)
    op.setGroup(group);
  return {op.getResult(), op.getToken()};
}

Value TileBuilder::await(Value accOrToken, bool reads) {
  auto op = tile::AwaitOp::create(b, accOrToken, reads ? b.getUnitAttr() : UnitAttr());
  return op->getNumResults() ? op->getResult(0) : Value();
}

Value TileBuilder::reduce(tile::Combine kind, Value source, Type type) { return tile::ReduceOp::create(b, type, kind, source, 1); }
Value TileBuilder::reduceRows(tile::Combine kind, Value source, int64_t over, Value via) {
  auto type = mlir::cast<RankedTensorType>(source.getType());
  return tile::ReduceRowsOp::create(b, col(type.getDimSize(1), type.getElementType()), kind, source, over, via);
}
Value TileBuilder::bcast(Value source, Type type) { return tile::BcastOp::create(b, type, source); }
Value TileBuilder::iota(int64_t dim, Type type) { return tile::IotaOp::create(b, type, dim); }

Value TileBuilder::slice(Value frag, Num column, int64_t columns) {
  auto type = mlir::cast<RankedTensorType>(frag.getType());
  if (!column.value && column.number == 0 && columns == type.getDimSize(1))
    return frag;
  return tile::SliceOp::create(b, RankedTensorType::get({type.getDimSize(0), columns}, type.getElementType(), type.getEncoding()), frag,
                               fold(column));
}

Value TileBuilder::expand(Value frag, Type type, Value zero) { return tile::ExpandOp::create(b, type, frag, zero); }
Value TileBuilder::clusterSum(Value frag, Value via, int64_t cols) {
  return tile::ClusterSumOp::create(b, this->frag(cols, getElementTypeOrSelf(frag.getType())), frag, via);
}
Value TileBuilder::any(Value mask) { return tile::AnyOp::create(b, mask); }

//===-- Elementwise -------------------------------------------------------===//

static bool isFloat(Value v) { return isa<FloatType>(getElementTypeOrSelf(v.getType())); }

Value TileBuilder::constant(Type type, double number) {
  Type elem = getElementTypeOrSelf(type);
  TypedAttr attr = isa<FloatType>(elem) ? TypedAttr(b.getFloatAttr(elem, number)) : TypedAttr(b.getIntegerAttr(elem, int64_t(number)));
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    attr = SplatElementsAttr::get(tensor, Attribute(attr));
  return arith::ConstantOp::create(b, attr);
}

Value TileBuilder::operand(Value like, Num n) { return n.value ? n.value : constant(like.getType(), double(n.number)); }

/// The float or the integer op of a pair.
template <typename FloatOp, typename IntOp> static Value either(ImplicitLocOpBuilder &b, Value x, Value y) {
  return isFloat(x) ? Value(FloatOp::create(b, x, y)) : Value(IntOp::create(b, x, y));
}

Value TileBuilder::add(Value x, Num y) {
  return !y.value && !y.number ? x : either<arith::AddFOp, arith::AddIOp>(b, x, operand(x, y));
}
Value TileBuilder::sub(Value x, Num y) { return either<arith::SubFOp, arith::SubIOp>(b, x, operand(x, y)); }
Value TileBuilder::mul(Value x, Num y) {
  return !y.value && y.number == 1 ? x : either<arith::MulFOp, arith::MulIOp>(b, x, operand(x, y));
}
Value TileBuilder::divUp(Value x, int64_t y) { return y == 1 ? x : div(add(x, y - 1), y); }
Value TileBuilder::div(Value x, int64_t y) { return y == 1 ? x : Value(arith::DivUIOp::create(b, x, operand(x, y))); }
Value TileBuilder::rem(Value x, int64_t y) { return arith::RemUIOp::create(b, x, operand(x, y)); }
Value TileBuilder::shl(Value x, int64_t bits) { return arith::ShLIOp::create(b, x, operand(x, bits)); }
Value TileBuilder::shr(Value x, int64_t bits) { return arith::ShRUIOp::create(b, x, operand(x, bits)); }
Value TileBuilder::min(Value x, Num y) { return either<arith::MinNumFOp, arith::MinSIOp>(b, x, operand(x, y)); }
Value TileBuilder::max(Value x, Num y) { return either<arith::MaxNumFOp, arith::MaxSIOp>(b, x, operand(x, y)); }

static Value compare(ImplicitLocOpBuilder &b, arith::CmpFPredicate f, arith::CmpIPredicate i, Value x, Value y) {
  return isFloat(x) ? Value(arith::CmpFOp::create(b, f, x, y)) : Value(arith::CmpIOp::create(b, i, x, y));
}

Value TileBuilder::lt(Value x, Num y) { return compare(b, arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt, x, operand(x, y)); }
Value TileBuilder::ge(Value x, Num y) { return compare(b, arith::CmpFPredicate::OGE, arith::CmpIPredicate::sge, x, operand(x, y)); }
Value TileBuilder::eq(Value x, Num y) { return compare(b, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq, x, operand(x, y)); }
Value TileBuilder::select(Value mask, Value x, Value y) { return arith::SelectOp::create(b, mask, x, y); }
Value TileBuilder::fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
Value TileBuilder::divide(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
Value TileBuilder::neg(Value x) { return arith::NegFOp::create(b, x); }
Value TileBuilder::exp2(Value x) { return math::Exp2Op::create(b, x, arith::FastMathFlags::afn); }
Value TileBuilder::log2(Value x) { return math::Log2Op::create(b, x, arith::FastMathFlags::afn); }

/// A scalar of `elem`, or a fragment of it in the place of `like`.
static Type withElement(Type like, Type elem) {
  auto tensor = dyn_cast<RankedTensorType>(like);
  return tensor ? Type(RankedTensorType::get(tensor.getShape(), elem, tensor.getEncoding())) : elem;
}

Value TileBuilder::toFloat(Value x) { return arith::SIToFPOp::create(b, withElement(x.getType(), f32), x); }

Value TileBuilder::toCodes(Value x) {
  // Where a number's last place is 1, it holds the integer.
  Value shifted = add(x, constant(x.getType(), 0x1.8p23));
  return arith::TruncIOp::create(b, withElement(x.getType(), i8), arith::BitcastOp::create(b, withElement(x.getType(), i32), shifted));
}

Value TileBuilder::cast(Value x, Type elem) {
  Type from = getElementTypeOrSelf(x.getType()), type = withElement(x.getType(), elem);
  if (from == elem)
    return x;
  return from.getIntOrFloatBitWidth() < elem.getIntOrFloatBitWidth() ? Value(arith::ExtFOp::create(b, type, x))
                                                                      : Value(arith::TruncFOp::create(b, type, x));
}

} // namespace dsv3::codegen
