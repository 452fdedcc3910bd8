// Asynchronous copies between global and shared memory.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

static L2Policy policyOf(tile::Hint hint) {
  return hint == tile::Hint::First ? L2Policy::EvictFirst : hint == tile::Hint::Last ? L2Policy::EvictLast : L2Policy::Normal;
}

int64_t KernelLowering::boxBytes(tile::TmaType map) const {
  int64_t n = map.getElement().getIntOrFloatBitWidth();
  for (int64_t dim : map.getBox())
    n *= dim;
  return n / 8;
}

SmallVector<KernelLowering::Box> KernelLowering::boxesOf(tile::TmaType map, tile::BufType whole, ArrayRef<std::pair<int64_t, int64_t>> columns) const {
  tile::SmemLayout layout = whole.getSmem();
  ArrayRef<int64_t> shape = whole.getShape(), box = map.getBox();
  const size_t lead = box.size() - std::min(box.size(), shape.size()); // dims of the map that the buffer has not
  SmallVector<Box> out;
  std::vector<int64_t> at(shape.size(), 0);
  // Counts through all dims but the last, in steps of boxes; the last one by ranges of columns.
  for (bool more = true; more;) {
    for (auto [from, to] : columns)
      for (int64_t column = from; column < to; column += box.back()) {
        at.back() = column;
        Box entry{SmallVector<int64_t>(box.size(), 0), layout.byte(at), column};
        for (size_t d = lead; d < box.size(); ++d)
          entry.offset[d] = at[d - lead];
        out.push_back(entry);
      }
    more = false;
    for (size_t d = shape.size() - 1; d-- > 0;) {
      at[d] += box[d + lead];
      if (at[d] < shape[d]) {
        more = true;
        break;
      }
      at[d] = 0;
    }
  }
  return out;
}

std::optional<int64_t> KernelLowering::groupOfFillArgument(Value buf) const {
  auto arg = dyn_cast<BlockArgument>(buf);
  if (!fill || !arg || !isa<tile::FillOp>(arg.getOwner()->getParentOp()))
    return std::nullopt;
  return fill->group;
}

LogicalResult KernelLowering::lowerCopy(tile::CopyOp op) {
  if (!fill)
    return op.emitOpError("expected to stand in a fill");
  OpBuilder::InsertionGuard guard(b);
  if (gathering) { // one thread issues what the hardware copies
    auto leader = scf::IfOp::create(b, op.getLoc(), ptx.equal(thread, 0), /*withElseRegion=*/false);
    b.setInsertionPoint(leader.thenBlock()->getTerminator());
  }
  return isa<tile::TmaType>(op.getSource().getType()) ? lowerTmaCopy(op) : lowerBulkCopy(op);
}

LogicalResult KernelLowering::lowerTmaCopy(tile::CopyOp op) {
  auto map = cast<tile::TmaType>(op.getSource().getType());
  tile::RingAttr ring = op.getOn() ? tile::ringOf(op.getOn().getType()) : fill->ring;
  SlotRegs s = op.getOn() ? slot(op.getOn()) : fill->slot;
  std::optional<int64_t> group = groupOfFillArgument(op.getDest());
  const bool ofGroup = group && *group >= 0 && !fill->ring.getFree()[*group].getCols().empty();
  tile::BufType whole = ofGroup ? fill->ring.getBuf(0) : op.getDest().getType();
  SmallVector<std::pair<int64_t, int64_t>> columns = {{0, whole.getShape().back()}};
  if (ofGroup)
    columns = fill->ring.getGroupCols(*group);
  SmallVector<OpFoldResult> coords = op.getMixedCoords();
  const bool parts = ring.getLanded() == tile::Landed::Cols;
  Value multicast;
  if (auto mask = op.getMulticast())
    multicast = arith::ConstantOp::create(b, op.getLoc(), b.getI16IntegerAttr(*mask));
  for (const Box &box : boxesOf(map, whole, columns)) {
    Value bar = barrierOf(ring, s, tile::Barrier::Full, parts ? box.column / ring.getLandedCols() : 0);
    if (fill->announceLate)
      ptx.mbarrierAddBytes(bar, ptx.i32(boxBytes(map)));
    Regs innermostFirst;
    for (size_t d = coords.size(); d-- > 0;) {
      auto fixed = dyn_cast<Attribute>(coords[d]);
      bool isStar = fixed && cast<IntegerAttr>(fixed).getInt() == tile::kStar;
      int64_t offset = box.offset[d];
      if (d + 1 == coords.size() && ofGroup && !isStar)
        offset -= columns[0].first; // a coordinate names the part's first column
      innermostFirst.push_back(isStar ? ptx.i32(offset) : ptx.add(scalar(coords[d]), offset));
    }
    ptx.tmaLoad(ptx.add(scalar(op.getDest()), box.byte), scalar(op.getSource()), innermostFirst, bar, policyOf(op.getHint()), multicast);
  }
  return success();
}

LogicalResult KernelLowering::lowerBulkCopy(tile::CopyOp op) {
  tile::RingAttr ring = op.getOn() ? tile::ringOf(op.getOn().getType()) : fill->ring;
  SlotRegs s = op.getOn() ? slot(op.getOn()) : fill->slot;
  if (ring.getLanded() == tile::Landed::Cols)
    return op.emitOpError("expected a ring that lands as a whole for a copy from a pointer");
  Value bytes = ptx.i32(op.getDest().getType().getBytes()), bar = barrierOf(ring, s, tile::Barrier::Full, 0);
  if (fill->announceLate)
    ptx.mbarrierAddBytes(bar, bytes);
  ptx.bulkLoad(scalar(op.getDest()), globalAddress(op.getSource(), op.getMixedCoords()), bytes, bar, policyOf(op.getHint()));
  return success();
}

/// Eight lanes copy 128 bytes of a row, four rows a warp. Threads of which a buffer of 8 rows has none to copy only arrive.
LogicalResult KernelLowering::lowerGather(tile::GatherOp op) {
  if (!fill || !gathering)
    return op.emitOpError("expected to stand in a fill of a producer");
  tile::BufType buf = op.getDest().getType();
  tile::SmemLayout layout = buf.getSmem();
  FragmentRegs ids(op.getIds().getType());
  const int64_t perWord = 128 / buf.getElementBits(), lines = buf.getShape()[1] / (8 * perWord), rows = ids.map.shape()[0], columns = cast<tile::GmemType>(op.getSource().getType()).getShape()[1];
  auto rowOf = [&](int64_t reg, int64_t t) { return ids.coord(reg, t)[0]; };
  auto to = places(scalar(op.getDest()), ids.map.registers() * lines,
                   [&](int64_t i, int64_t t) { return layout.byte({rowOf(i / lines, t), (t % 8 + i % lines * 8) * perWord}); }, layout.exchange());
  auto row = fitAddress(ids.map.registers(), rowOf);
  if (!to || !row)
    return op.emitOpError("expected a layout whose 16-byte words are sums over the bits of the thread's index");
  const Regs picked = values.lookup(op.getIds());
  Value exist = scalar(op.getRows()), threadRow = threadSum(row->linear), column = ptx.add(scalar(op.getColumn()), ptx.mul(ptx.bitAnd(thread, 7), perWord));
  Value copies = rows < 16 ? below(thread, ptx.i32(8 * rows)) : Value();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
  auto step = [&](Value from, Value elements, int64_t bytes) -> Value {
    Value wide = arith::ExtUIOp::create(b, op.getLoc(), b.getI64Type(), elements);
    return LLVM::GEPOp::create(b, op.getLoc(), pointer, b.getI8Type(), from, ArrayRef<LLVM::GEPArg>{arith::MulIOp::create(b, op.getLoc(), wide, ptx.i64(bytes)).getResult()});
  };
  const int64_t bits = buf.getElementBits();
  Value base = step(regs(op.getSource())[0], column, bits / 8);
  for (int64_t i = 0; i < ids.map.registers() * lines; ++i) {
    const int64_t reg = i / lines, line = i % lines;
    Value exists = below(ptx.add(threadRow, row->offset[size_t(reg)]), exist);
    if (columns % buf.getShape()[1])
      exists = both(exists, below(ptx.add(column, line * 8 * perWord), ptx.i32(columns)));
    Value bytes = arith::SelectOp::create(b, op.getLoc(), exists, ptx.i32(16), ptx.i32(0));
    int64_t offset;
    Value place = placeOf(*to, i, offset);
    ptx.copyAsync(place, offset, step(base, picked[size_t(reg)], columns * bits / 8), line * 128, bytes, copies);
  }
  return success();
}

LogicalResult KernelLowering::lowerPut(tile::PutOp op) {
  auto map = cast<tile::TmaType>(op.getDest().getType());
  tile::BufType buf = op.getSource().getType();
  Value leader = ptx.equal(thread, 0);
  SmallVector<OpFoldResult> coords = op.getMixedCoords();
  for (const Box &box : boxesOf(map, buf, {{0, buf.getShape().back()}})) {
    Regs innermostFirst;
    for (size_t d = coords.size(); d-- > 0;)
      innermostFirst.push_back(ptx.add(scalar(coords[d]), box.offset[d]));
    ptx.tmaStore(scalar(op.getDest()), innermostFirst, ptx.add(scalar(op.getSource()), box.byte), leader);
  }
  ptx.bulkCommit(leader);
  return success();
}

} // namespace dsv3::codegen
