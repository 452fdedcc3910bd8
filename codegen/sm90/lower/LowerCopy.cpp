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
