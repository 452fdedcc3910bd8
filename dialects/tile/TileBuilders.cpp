// Builders, accessors and inferred types.
#include "dialects/tile/TileDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace dsv3::tile {

//===-- Lists of numbers and values ---------------------------------------===//

OpFoldResult star(MLIRContext *context) { return IntegerAttr::get(IntegerType::get(context, 64), kStar); }

void splitCoords(ArrayRef<OpFoldResult> mixed, SmallVectorImpl<Value> &values, SmallVectorImpl<int64_t> &place) {
  for (OpFoldResult entry : mixed) {
    if (auto value = dyn_cast<Value>(entry)) {
      values.push_back(value);
      place.push_back(ShapedType::kDynamic);
    } else {
      place.push_back(cast<IntegerAttr>(cast<Attribute>(entry)).getInt());
    }
  }
}

SmallVector<OpFoldResult> joinCoords(MLIRContext *context, ValueRange values, ArrayRef<int64_t> place) {
  SmallVector<OpFoldResult> mixed;
  unsigned next = 0;
  for (int64_t c : place)
    mixed.push_back(c == ShapedType::kDynamic ? OpFoldResult(values[next++]) : OpFoldResult(IntegerAttr::get(IntegerType::get(context, 64), c)));
  return mixed;
}

namespace {
/// A list in the form that ops store.
struct Split {
  SmallVector<Value> values;
  SmallVector<int64_t> place;
  explicit Split(ArrayRef<OpFoldResult> mixed) { splitCoords(mixed, values, place); }
};
} // namespace

bool RoleOp::gathers() {
  return walk([](GatherOp) { return WalkResult::interrupt(); }).wasInterrupted();
}

SmallVector<OpFoldResult> RasterOp::getMixedExtents() { return joinCoords(getContext(), getExtents(), getPlace()); }
SmallVector<OpFoldResult> ViewOp::getMixedCoords() { return joinCoords(getContext(), getCoords(), getPlace()); }
SmallVector<OpFoldResult> CopyOp::getMixedCoords() { return joinCoords(getContext(), getCoords(), getPlace()); }
SmallVector<OpFoldResult> ZeroOp::getMixedRows() { return joinCoords(getContext(), getCoords(), getPlace()); }
SmallVector<OpFoldResult> PutOp::getMixedCoords() { return joinCoords(getContext(), getCoords(), getPlace()); }
SmallVector<OpFoldResult> ReadOp::getMixedCoords() { return joinCoords(getContext(), getCoords(), getPlace()); }
SmallVector<OpFoldResult> WriteOp::getMixedCoords() { return joinCoords(getContext(), getCoords(), getPlace()); }
OpFoldResult SliceOp::getCol() { return joinCoords(getContext(), getCoords(), getPlace())[0]; }
OpFoldResult LoopOp::getLower() { return joinCoords(getContext(), getBounds(), getPlace())[0]; }
OpFoldResult LoopOp::getUpper() { return joinCoords(getContext(), getBounds(), getPlace())[1]; }
OpFoldResult LoopOp::getStep() { return joinCoords(getContext(), getBounds(), getPlace())[2]; }

//===-- Kernels and roles -------------------------------------------------===//

void KernelOp::build(OpBuilder &b, OperationState &state, StringRef name, TypeRange args, int64_t cluster) {
  state.addAttribute(getSymNameAttrName(state.name), b.getStringAttr(name));
  state.addAttribute(getFunctionTypeAttrName(state.name), TypeAttr::get(b.getFunctionType(args, {})));
  state.addAttribute(getClusterAttrName(state.name), b.getI64IntegerAttr(cluster));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type arg : args)
    block.addArgument(arg, state.location);
}

int64_t KernelOp::getThreads() {
  int64_t warpgroups = 0;
  for (auto role : getBody().getOps<RoleOp>())
    warpgroups += role.getProducer() ? 1 : role.getWarpgroups();
  return 128 * warpgroups;
}

int64_t KernelOp::getBufferBytes() {
  int64_t bytes = 0; // --dsv3-tile-allocate puts buffers of one alignment side by side: none is lost between them
  for (Operation &op : getBody().front()) {
    if (auto alloc = dyn_cast<AllocOp>(op))
      bytes += alloc.getBuf().getType().getBytes();
    if (auto ring = dyn_cast<RingOp>(op))
      for (unsigned k = 0; k < ring.getRing().getBufs().size(); ++k) {
        BufType buf = ring.getRing().getBuf(k);
        bytes += int64_t(llvm::alignTo(buf.getBytes(), buf.getSmem().alignment())) * ring.getRing().getStages() * ring.getRing().getLanes();
      }
  }
  return bytes;
}

RoleOp KernelOp::getRole(StringRef name) {
  for (auto role : getBody().getOps<RoleOp>())
    if (role.getName() == name)
      return role;
  return {};
}

RingOp KernelOp::getRing(RingAttr ring) {
  for (auto op : getBody().getOps<RingOp>())
    if (op.getRing() == ring)
      return op;
  return {};
}

void RoleOp::build(OpBuilder &b, OperationState &state, StringRef name, int64_t warpgroups, int64_t regs) {
  state.addAttribute(getNameAttrName(state.name), b.getStringAttr(name));
  Block &block = state.addRegion()->emplaceBlock();
  if (warpgroups)
    block.addArgument(b.getI32Type(), state.location);
  else
    state.addAttribute(getProducerAttrName(state.name), b.getUnitAttr());
  state.addAttribute(getWarpgroupsAttrName(state.name), b.getI64IntegerAttr(warpgroups ? warpgroups : 1));
  if (regs)
    state.addAttribute(getRegsAttrName(state.name), b.getI64IntegerAttr(regs));
}

//===-- Work --------------------------------------------------------------===//

void RasterOp::build(OpBuilder &b, OperationState &state, ArrayRef<OpFoldResult> extents, ArrayRef<int64_t> tile, int64_t group, ArrayRef<StringRef> fields) {
  Split s(extents);
  build(b, state, WorkType::get(b.getContext()), s.values, s.place, tile, group, b.getStrArrayAttr(fields));
}

void ListOp::build(OpBuilder &b, OperationState &state, Value items, Value parts, Value lanes, ArrayRef<StringRef> fields) {
  build(b, state, WorkType::get(b.getContext()), items, parts, lanes, b.getStrArrayAttr(fields));
}

void GroupsOp::build(OpBuilder &b, OperationState &state, Value offsets, Value experts, int64_t rows, Value cols, int64_t tile, int64_t max, ArrayRef<StringRef> fields) {
  build(b, state, WorkType::get(b.getContext()), offsets, experts, rows, cols, tile, max, b.getStrArrayAttr(fields));
}

SmallVector<StringRef> getFields(Value work) {
  ArrayAttr names;
  if (Operation *op = work.getDefiningOp())
    names = op->getAttrOfType<ArrayAttr>("fields");
  SmallVector<StringRef> fields;
  if (names)
    for (StringRef name : names.getAsValueRange<StringAttr>())
      fields.push_back(name);
  return fields;
}

void ForeachOp::build(OpBuilder &b, OperationState &state, Value work, ValueRange inits) {
  state.addOperands(work);
  state.addOperands(inits);
  state.addTypes(inits.getTypes());
  Block &block = state.addRegion()->emplaceBlock();
  for (unsigned i = 0, n = getFields(work).size(); i <= n; ++i)
    block.addArgument(b.getI32Type(), state.location);
  for (Type type : inits.getTypes())
    block.addArgument(type, state.location);
}

YieldOp ForeachOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }
YieldOp LoopOp::getYield() { return cast<YieldOp>(getBody().front().getTerminator()); }

void LoopOp::build(OpBuilder &b, OperationState &state, OpFoldResult lower, OpFoldResult upper, OpFoldResult step, ValueRange inits, Peel peel, bool unroll) {
  Split s({lower, upper, step});
  state.addOperands(s.values);
  state.addOperands(inits);
  state.addTypes(inits.getTypes());
  state.addAttribute(getPlaceAttrName(state.name), b.getDenseI64ArrayAttr(s.place));
  state.addAttribute(getPeelAttrName(state.name), PeelAttr::get(b.getContext(), peel));
  if (unroll)
    state.addAttribute(getUnrollAttrName(state.name), b.getUnitAttr());
  state.addAttribute(getOperandSegmentSizesAttrName(state.name), b.getDenseI32ArrayAttr({int32_t(s.values.size()), int32_t(inits.size())}));
  Block &block = state.addRegion()->emplaceBlock();
  block.addArgument(b.getI32Type(), state.location);
  if (peel != Peel::None)
    block.addArgument(b.getI1Type(), state.location);
  for (Type type : inits.getTypes())
    block.addArgument(type, state.location);
}

//===-- Memory ------------------------------------------------------------===//

void ViewOp::build(OpBuilder &b, OperationState &state, BufType result, Value source, ArrayRef<OpFoldResult> coords) {
  Split s(coords);
  build(b, state, result, source, s.values, s.place);
}

void CopyOp::build(OpBuilder &b, OperationState &state, Value source, ArrayRef<OpFoldResult> coords, Value dest, Value on, Hint hint) {
  Split s(coords);
  build(b, state, source, s.values, s.place, dest, on, hint, IntegerAttr());
}

void ZeroOp::build(OpBuilder &b, OperationState &state, Value dest, OpFoldResult from, OpFoldResult to) {
  Split s({from, to});
  build(b, state, dest, s.values, s.place);
}

void PutOp::build(OpBuilder &b, OperationState &state, Value source, Value dest, ArrayRef<OpFoldResult> coords) {
  Split s(coords);
  build(b, state, TokenType::get(b.getContext()), source, dest, s.values, s.place);
}

void ReadOp::build(OpBuilder &b, OperationState &state, Type result, Value source, ArrayRef<OpFoldResult> coords, Value rows, Value cols, bool trans) {
  Split s(coords);
  build(b, state, result, source, s.values, s.place, rows, cols, trans);
}

void WriteOp::build(OpBuilder &b, OperationState &state, Value value, Value dest, ArrayRef<OpFoldResult> coords, Value rows, Value cols, bool trans, Value via) {
  Split s(coords);
  build(b, state, value, dest, s.values, s.place, rows, cols, via, trans);
}

void SliceOp::build(OpBuilder &b, OperationState &state, Type result, Value source, OpFoldResult col) {
  Split s(col);
  build(b, state, result, source, s.values, s.place);
}

//===-- Synchronisation ---------------------------------------------------===//

static IntegerAttr groupAttr(OpBuilder &b, int64_t group) { return group < 0 ? IntegerAttr() : b.getI64IntegerAttr(group); }

void FillOp::build(OpBuilder &b, OperationState &state, Value slot, int64_t group) {
  state.addOperands(slot);
  if (group >= 0)
    state.addAttribute(getGroupAttrName(state.name), b.getI64IntegerAttr(group));
  Block &block = state.addRegion()->emplaceBlock();
  for (Type buf : cast<SlotType>(slot.getType()).getRing().getGroupBufs(group))
    block.addArgument(buf, state.location);
}

void WaitOp::build(OpBuilder &b, OperationState &state, Barrier barrier, Value slot, int64_t group) { build(b, state, barrier, slot, groupAttr(b, group)); }

void ReleaseOp::build(OpBuilder &b, OperationState &state, Value slot, int64_t group, Barrier barrier) { build(b, state, barrier, slot, groupAttr(b, group)); }

LogicalResult RingOp::inferReturnTypes(MLIRContext *context, std::optional<Location>, RingOp::Adaptor adaptor, SmallVectorImpl<Type> &types) {
  types.push_back(RingType::get(context, adaptor.getRing()));
  return success();
}

LogicalResult WaitOp::inferReturnTypes(MLIRContext *, std::optional<Location>, WaitOp::Adaptor adaptor, SmallVectorImpl<Type> &types) {
  llvm::append_range(types, cast<SlotType>(adaptor.getSlot().getType()).getRing().getBufs());
  return success();
}

LogicalResult PeekOp::inferReturnTypes(MLIRContext *, std::optional<Location>, PeekOp::Adaptor adaptor, SmallVectorImpl<Type> &types) {
  llvm::append_range(types, cast<SlotType>(adaptor.getSlot().getType()).getRing().getBufs());
  return success();
}

void MmaOp::build(OpBuilder &b, OperationState &state, Form form, Value a, Value operand, Value acc, int64_t group) {
  build(b, state, form, a, operand, acc, groupAttr(b, group));
}

LogicalResult MmaOp::inferReturnTypes(MLIRContext *context, std::optional<Location> loc, MmaOp::Adaptor adaptor, SmallVectorImpl<Type> &types) {
  Type acc = accOf(adaptor.getAcc().getType());
  if (!acc)
    return emitOptionalError(loc, "T24: expected `into` an accumulator or an acc fragment of f32 or i32, got ", adaptor.getAcc().getType());
  types.append({acc, TokenType::get(context)});
  return success();
}

LogicalResult AwaitOp::inferReturnTypes(MLIRContext *, std::optional<Location>, AwaitOp::Adaptor adaptor, SmallVectorImpl<Type> &types) {
  if (auto acc = dyn_cast<AccType>(adaptor.getSource().getType()))
    types.push_back(acc.getTensor());
  return success();
}

} // namespace dsv3::tile
