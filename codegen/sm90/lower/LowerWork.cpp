// Which items a block works on.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

#include <algorithm>

using namespace mlir;

namespace dsv3::codegen {

namespace {
/// Unsigned arithmetic on i32 in the order in which it is written.
struct Math {
  OpBuilder &b;
  Location loc;
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value sub(Value x, Value y) { return arith::SubIOp::create(b, loc, x, y); }
  Value mul(Value x, Value y) { return arith::MulIOp::create(b, loc, x, y); }
  Value div(Value x, Value y) { return arith::DivUIOp::create(b, loc, x, y); }
  Value rem(Value x, Value y) { return arith::RemUIOp::create(b, loc, x, y); }
  Value min(Value x, Value y) { return arith::MinSIOp::create(b, loc, x, y); }
  Value max(Value x, Value y) { return arith::MaxSIOp::create(b, loc, x, y); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, loc, c, x, y); }
  Value less(Value x, Value y) { return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y); }
};
} // namespace

LogicalResult KernelLowering::lowerForeach(tile::ForeachOp op) {
  Operation *def = op.getWork().getDefiningOp();
  if (auto raster = dyn_cast_or_null<tile::RasterOp>(def))
    return foreachRaster(op, raster);
  if (auto list = dyn_cast_or_null<tile::ListOp>(def))
    return foreachList(op, list);
  if (auto groups = dyn_cast_or_null<tile::GroupsOp>(def))
    return foreachGroups(op, groups);
  return op.emitOpError("expected work that a raster, list or groups of this kernel made");
}

//===-- raster ------------------------------------------------------------===//

/// Computes, once: tiles per dim, then their product.
LogicalResult KernelLowering::lowerRaster(tile::RasterOp op) {
  Math m{b, op.getLoc()};
  Regs counts;
  Value all;
  for (auto [extent, tile] : llvm::zip(op.getMixedExtents(), op.getTile())) {
    Value n = m.div(m.add(uniform(scalar(extent)), ptx.i32(tile - 1)), ptx.i32(tile));
    counts.push_back(n);
    all = all ? m.mul(all, n) : n;
  }
  counts.push_back(all);
  work[op] = counts;
  return success();
}

/// Start of item number `item`: the last two dims in bands of `group` tiles of the second last, leading dims outermost.
void KernelLowering::rasterFields(tile::RasterOp work_, Value item, Regs &fields) {
  Math m{b, work_.getLoc()};
  const Regs &counts = work[work_];
  ArrayRef<int64_t> tile = work_.getTile();
  const size_t rank = tile.size();
  fields.assign(rank, Value());
  auto field = [&](size_t dim, Value index) { fields[dim] = m.mul(index, ptx.i32(tile[dim])); };
  if (rank == 1)
    return field(0, item);
  Value tm = counts[rank - 2], tn = counts[rank - 1], rest = item;
  if (rank > 2) {
    Value plane = m.mul(tm, tn);
    Value outer = m.div(item, plane);
    rest = m.rem(item, plane);
    for (size_t dim = rank - 2; dim-- > 0;) {
      field(dim, dim == 0 ? outer : m.rem(outer, counts[dim]));
      if (dim > 0)
        outer = m.div(outer, counts[dim]);
    }
  }
  const int64_t group = work_.getGroup();
  if (group == 1) {
    field(rank - 2, m.div(rest, tn));
    field(rank - 1, m.rem(rest, tn));
    return;
  }
  Value band = m.mul(tn, ptx.i32(group));
  Value first = m.mul(m.div(rest, band), ptx.i32(group)), inBand = m.rem(rest, band);
  Value height = arith::MinUIOp::create(b, work_.getLoc(), m.sub(tm, first), ptx.i32(group));
  field(rank - 2, m.add(first, m.rem(inBand, height)));
  field(rank - 1, m.div(inBand, height));
}

LogicalResult KernelLowering::foreachRaster(tile::ForeachOp op, tile::RasterOp def) {
  Value first = ptx.special("ctaid.x"), step = ptx.special("nctaid.x"), all = work[def].back();
  bool counted = !op.getOrdinal().use_empty();
  Regs extras;
  if (counted)
    extras.push_back(ptx.i32(0));
  auto args = op.getIterArgs();
  return lowerLoop(op, first, all, step, op.getInits(), ValueRange(args), op.getBody().front(), extras, [&](Value item, ValueRange carried) {
    Regs fields, next;
    rasterFields(def, item, fields);
    for (auto [arg, value] : llvm::zip(op.getFieldArgs(), fields))
      set(arg, {value});
    if (counted) {
      set(op.getOrdinal(), {carried[0]});
      next.push_back(ptx.add(carried[0], 1));
    }
    return next;
  });
}

//===-- list --------------------------------------------------------------===//

/// Computes, once: this block's lane and part, first and last item of the part.
LogicalResult KernelLowering::lowerList(tile::ListOp op) {
  Math m{b, op.getLoc()};
  Value block = ptx.special("ctaid.x"), lanes = uniform(scalar(op.getLanes()));
  Value part = m.div(block, lanes);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
  Value at = LLVM::GEPOp::create(b, op.getLoc(), pointer, b.getI32Type(), regs(op.getParts())[0], ArrayRef<LLVM::GEPArg>{part});
  Value begin = uniform(ptx.ldGlobal(at, 0, 1)[0]), end = uniform(ptx.ldGlobal(at, 4, 1)[0]);
  work[op] = {m.rem(block, lanes), begin, end};
  return success();
}

/// Where item `index` stands.
Value KernelLowering::listRow(tile::ListOp def, Value index) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
  int64_t width = cast<tile::GmemType>(def.getItems().getType()).getShape().back();
  return LLVM::GEPOp::create(b, def.getLoc(), pointer, b.getI32Type(), regs(def.getItems())[0], ArrayRef<LLVM::GEPArg>{ptx.mul(index, width)});
}

/// Columns of item `index`.
Regs KernelLowering::listItem(tile::ListOp def, Value index, int64_t fields) {
  Regs out;
  Value row = listRow(def, index);
  for (int64_t k = 0; k < fields; ++k)
    out.push_back(uniform(ptx.ldGlobal(row, 4 * k, 1)[0]));
  return out;
}

LogicalResult KernelLowering::foreachList(tile::ForeachOp op, tile::ListOp def) {
  Math m{b, op.getLoc()};
  const Regs computed = work[def];
  Value part = computed[0], begin = computed[1], end = computed[2];
  const int64_t columns = op.getNumFields() - 1;
  // The next item is fetched while this one is worked on; past the end, and for an empty part, some item of the list again. A
  // thread that copies has registers for it; those that multiply have none to spare, and find it in their L1.
  const bool held = !role || role.getProducer();
  Value last = m.max(m.sub(end, ptx.i32(1)), ptx.i32(0));
  Regs extras;
  if (held)
    extras = listItem(def, m.min(begin, last), columns);
  auto args = op.getIterArgs();
  // Counted from a constant, the loop needs no register of a thread: it is uniform.
  return lowerLoop(op, ptx.i32(0), m.sub(end, begin), ptx.i32(1), op.getInits(), ValueRange(args), op.getBody().front(), extras,
                   [&](Value ordinal, ValueRange item) {
    Value index = m.add(begin, ordinal);
    const Regs fields = held ? Regs(item.begin(), item.end()) : listItem(def, index, columns);
    set(op.getFieldArgs()[0], {part});
    for (int64_t k = 0; k < columns; ++k)
      set(op.getFieldArgs()[k + 1], {fields[k]});
    set(op.getOrdinal(), {ordinal});
    Value next = m.min(ptx.add(index, 1), last);
    if (held)
      return listItem(def, next, columns);
    ptx.prefetchGlobal(listRow(def, next));
    return Regs();
  });
}

//===-- groups ------------------------------------------------------------===//

/// Neighbouring groups that a thread looks at, so that the first warp sees all of them at once: their offsets are all on the way
/// before the first is needed (256 experts took 3.5 us in 8 turns of 32).
static int64_t groupsOfThread(Value count) {
  constexpr int64_t kMost = 8; // registers
  APInt number;
  return matchPattern(count, m_ConstantInt(&number)) ? std::clamp<int64_t>(int64_t(llvm::divideCeil(number.getZExtValue(), 32)), 1, kMost) : kMost;
}

/// What a thread of the first warp puts into the list for its groups from `first` on, behind the `before` tiles of other turns;
/// returns the tiles of all turns so far.
Value KernelLowering::listGroups(tile::GroupsOp op, Value list, Value first, int64_t count, Value before) {
  Math m{b, op.getLoc()};
  Location loc = op.getLoc();
  Value experts = uniform(scalar(op.getExperts())), rows = ptx.i32(op.getRows()), zero = ptx.i32(0), one = ptx.i32(1);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 1);
  Regs bounds, tiles;
  for (int64_t i = 0; i <= count; ++i) { // a group past the last one is empty
    Value at = LLVM::GEPOp::create(b, loc, pointer, b.getI32Type(), regs(op.getOffsets())[0], ArrayRef<LLVM::GEPArg>{m.min(ptx.add(first, i), experts)});
    bounds.push_back(ptx.ldGlobal(at, 0, 1)[0]);
  }
  Value mine = zero, myLane = ptx.bitAnd(tid, 31);
  for (int64_t i = 0; i < count; ++i) {
    tiles.push_back(m.div(m.add(m.sub(bounds[size_t(i + 1)], bounds[size_t(i)]), ptx.i32(op.getRows() - 1)), rows));
    mine = m.add(mine, tiles.back());
  }
  Value sum = mine; // inclusive prefix sum over the lanes
  for (int64_t step : {1, 2, 4, 8, 16})
    sum = m.add(sum, m.select(m.less(myLane, ptx.i32(step)), zero, ptx.shuffleUp(sum, step)));
  Value place = m.add(before, m.sub(sum, mine));
  for (int64_t i = 0; i < count; ++i) {
    Value group = ptx.add(first, i), begin = bounds[size_t(i)], end = bounds[size_t(i + 1)];
    scf::ForOp::create(b, loc, zero, tiles[size_t(i)], one, ValueRange(), [&](OpBuilder &, Location, Value t, ValueRange) {
      Value index = m.add(place, t);
      ptx.stShared(m.add(list, m.mul(index, ptx.i32(16))), 0, {group, place, begin, end}, m.less(index, ptx.i32(op.getMax())));
      scf::YieldOp::create(b, loc);
    });
    place = m.add(place, tiles[size_t(i)]);
  }
  ptx.warpSync();
  return m.add(before, ptx.lastLane(sum));
}

/// Computes, once: the number of items, and the list of row tiles in shared memory, 16 bytes each: the group, the entry of its
/// first tile, its first row and the row behind its last. A prefix sum over the first warp places them.
LogicalResult KernelLowering::lowerGroups(tile::GroupsOp op) {
  Math m{b, op.getLoc()};
  Location loc = op.getLoc();
  auto offset = op->getAttrOfType<IntegerAttr>(plan::kOffset);
  if (!offset)
    return op.emitOpError("expected an offset from --dsv3-tile-allocate");
  Value list = ptx.add(smem, offset.getInt() + 16); // the first 16 bytes hold the count
  Value zero = ptx.i32(0), myLane = ptx.bitAnd(tid, 31), experts = uniform(scalar(op.getExperts()));
  auto firstWarp = scf::IfOp::create(b, loc, m.less(ptx.uniform(ptx.shr(tid, 5)), ptx.i32(1)), /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(firstWarp.thenBlock()->getTerminator());
    const int64_t count = groupsOfThread(op.getExperts());
    auto turns = scf::ForOp::create(b, loc, zero, experts, ptx.i32(32 * count), ValueRange{zero}, [&](OpBuilder &, Location, Value base, ValueRange carried) {
      scf::YieldOp::create(b, loc, listGroups(op, list, m.add(base, ptx.mul(myLane, count)), count, carried[0]));
    });
    ptx.stShared(list, -16, {m.min(turns.getResult(0), ptx.i32(op.getMax()))}, ptx.equal(myLane, 0));
  }
  ptx.barrierAll();
  Value tiles = uniform(ptx.ldShared(list, -16, 1)[0]);
  Value columns = m.div(m.add(uniform(scalar(op.getCols())), ptx.i32(op.getTile() - 1)), ptx.i32(op.getTile()));
  work[op] = {list, columns, m.mul(tiles, columns)};
  return success();
}

LogicalResult KernelLowering::foreachGroups(tile::ForeachOp op, tile::GroupsOp def) {
  Math m{b, op.getLoc()};
  const Regs computed = work[def];
  Value list = computed[0], columns = computed[1], all = computed[2], rows = ptx.i32(def.getRows());
  const bool ranked = def.getFields().size() == 5;
  Value blocks = ptx.i32(ranked ? int64_t(kernel.getCluster()) : 1);
  auto args = op.getIterArgs();
  Regs extras = {ptx.i32(0)};
  return lowerLoop(op, ptx.special("ctaid.x"), ranked ? m.mul(all, blocks) : all, ptx.special("nctaid.x"), op.getInits(), ValueRange(args), op.getBody().front(), extras,
                   [&](Value item, ValueRange carried) {
                     if (ranked) {
                       set(op.getFieldArgs()[4], {m.rem(item, blocks)});
                       item = m.div(item, blocks);
                     }
                     // The items of a group lie one behind the other, so that entry item / columns is one of the group's. Row
                     // tiles are innermost: blocks that run together share columns and, soon after, rows.
                     Regs entry = ptx.ldShared(m.add(list, m.mul(m.div(item, columns), ptx.i32(16))), 0, 4);
                     for (Value &word : entry)
                       word = uniform(word);
                     Value begin = entry[2], end = entry[3], inGroup = m.sub(item, m.mul(entry[1], columns));
                     Value tiles = m.div(m.add(m.sub(end, begin), ptx.i32(def.getRows() - 1)), rows);
                     Value row = m.add(begin, m.mul(m.rem(inGroup, tiles), rows));
                     auto fields = op.getFieldArgs();
                     set(fields[0], {entry[0]});
                     set(fields[1], {m.min(m.sub(end, row), rows)});
                     set(fields[2], {row});
                     set(fields[3], {m.mul(m.div(inGroup, tiles), ptx.i32(def.getTile()))});
                     set(op.getOrdinal(), {carried[0]});
                     return Regs{ptx.add(carried[0], 1)};
                   });
}

} // namespace dsv3::codegen
