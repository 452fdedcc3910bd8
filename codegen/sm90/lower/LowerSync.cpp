// Rings, slots, gates and barriers.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

//===-- Slots -------------------------------------------------------------===//

KernelLowering::SlotRegs KernelLowering::slot(Value v) {
  tile::RingAttr ring = tile::ringOf(v.getType());
  const Regs r = values.lookup(v);
  SlotRegs out;
  size_t at = 0;
  if (ring.getStages() > 1)
    out.stage = r[at++];
  out.parity = r[at++];
  if (ring.getLanes() > 1)
    out.lane = r[at++];
  if (at < r.size())
    out.present = r[at];
  return out;
}

Regs KernelLowering::pack(const SlotRegs &slot, tile::RingAttr ring, bool maybe) const {
  Regs out;
  if (ring.getStages() > 1)
    out.push_back(slot.stage);
  out.push_back(slot.parity);
  if (ring.getLanes() > 1)
    out.push_back(slot.lane);
  if (maybe)
    out.push_back(slot.present);
  return out;
}

LogicalResult KernelLowering::lowerNext(tile::NextOp op) {
  tile::RingAttr ring = tile::ringOf(op.getResult().getType());
  SlotRegs next;
  if (isa<tile::RingType>(op.getFrom().getType())) {
    next.stage = next.parity = ptx.i32(0);
    next.lane = op.getLane() ? scalar(op.getLane()) : ptx.i32(0);
    set(op.getResult(), pack(next, ring, false));
    return success();
  }
  if (presence(op.getFrom()) == Presence::None)
    return success();
  SlotRegs from = slot(op.getFrom());
  next = from;
  Value one = ptx.i32(1), flipped = ptx.bitXor(from.parity, one);
  if (ring.getStages() == 1) {
    next.parity = flipped;
  } else {
    Value stage = ptx.add(from.stage, 1), wraps = ptx.equal(stage, ring.getStages());
    next.stage = arith::SelectOp::create(b, op.getLoc(), wraps, ptx.i32(0), stage);
    next.parity = arith::SelectOp::create(b, op.getLoc(), wraps, flipped, from.parity);
  }
  set(op.getResult(), pack(next, ring, bool(from.present)));
  return success();
}

Value KernelLowering::stageIndex(tile::RingAttr ring, const SlotRegs &slot) {
  Value index = slot.stage ? slot.stage : ptx.i32(0);
  return slot.lane ? ptx.add(ptx.mul(slot.lane, ring.getStages()), index) : index;
}

Value KernelLowering::bufferOf(tile::RingAttr ring, const SlotRegs &slot, unsigned buffer) {
  auto offsets = rings[ring]->getAttrOfType<DenseI64ArrayAttr>(plan::kOffsets);
  tile::BufType buf = ring.getBuf(buffer);
  int64_t size = llvm::alignTo(buf.getBytes(), buf.getSmem().alignment());
  return ptx.add(ptx.add(smem, offsets[buffer]), ptx.mul(stageIndex(ring, slot), size));
}

Value KernelLowering::barrierOf(tile::RingAttr ring, const SlotRegs &slot, tile::Barrier kind, int64_t index) {
  const int64_t parts = ring.getParts(), groups = ring.getFree().size(), stages = ring.getStages() * ring.getLanes();
  const int64_t perStage = kind == tile::Barrier::Full ? parts : groups;
  int64_t base = rings[ring]->getAttrOfType<IntegerAttr>(plan::kBarriers).getInt() + (kind == tile::Barrier::Full ? 0 : 8 * stages * parts) + 8 * index;
  return ptx.add(ptx.add(smem, base), ptx.mul(stageIndex(ring, slot), 8 * perStage));
}

SmallVector<int64_t> KernelLowering::partsOf(tile::RingAttr ring, int64_t group) const {
  SmallVector<int64_t> parts;
  if (ring.getLanded() != tile::Landed::Cols) {
    for (int64_t i = 0; i < ring.getParts(); ++i)
      parts.push_back(i);
    return parts;
  }
  auto addGroup = [&](int64_t g) {
    for (auto [from, to] : ring.getGroupCols(g))
      for (int64_t column = from; column < to; column += ring.getLandedCols())
        parts.push_back(column / ring.getLandedCols());
  };
  if (group >= 0)
    addGroup(group);
  else
    for (size_t g = 0; g < ring.getFree().size(); ++g) // in the order in which they are filled
      addGroup(g);
  return parts;
}

bool KernelLowering::isRemote(tile::RingAttr ring) const {
  bool found = false;
  const_cast<tile::KernelOp &>(kernel)->walk([&](tile::CopyOp copy) {
    if (!copy.getMulticast())
      return;
    auto fillOp = copy->getParentOfType<tile::FillOp>();
    Type slotType = copy.getOn() ? copy.getOn().getType() : fillOp ? fillOp.getSlot().getType() : Type();
    found |= slotType && tile::ringOf(slotType) == ring;
  });
  return found;
}

bool KernelLowering::isGathered(tile::RingAttr ring) const {
  bool found = false;
  const_cast<tile::KernelOp &>(kernel)->walk([&](tile::GatherOp gather) {
    found |= tile::ringOf(gather->getParentOfType<tile::FillOp>().getSlot().getType()) == ring;
  });
  return found;
}

//===-- Waiting and releasing ---------------------------------------------===//

void KernelLowering::waitForParts(tile::RingAttr ring, const SlotRegs &slot, ArrayRef<int64_t> parts) {
  for (int64_t part : parts)
    ptx.mbarrierWait(barrierOf(ring, slot, tile::Barrier::Full, part), slot.parity);
  if (isGathered(ring)) // threads wrote what wgmma reads
    ptx.fenceProxyAsync();
}

LogicalResult KernelLowering::lowerWait(tile::WaitOp op) {
  tile::RingAttr ring = tile::ringOf(op.getSlot().getType());
  SlotRegs s = slot(op.getSlot());
  const int64_t group = op.getGroup().value_or(-1);
  if (op.getBarrier() == tile::Barrier::Full) {
    waitForParts(ring, s, partsOf(ring, group));
  } else {
    Value other = ptx.bitXor(s.parity, ptx.i32(1)); // so the first pass of whoever fills goes through
    for (size_t g = 0; g < ring.getFree().size(); ++g)
      if (group < 0 || int64_t(g) == group)
        ptx.mbarrierWait(barrierOf(ring, s, tile::Barrier::Free, g), other);
  }
  for (auto [i, buf] : llvm::enumerate(op.getBufs()))
    set(buf, {bufferOf(ring, s, i)});
  return success();
}

LogicalResult KernelLowering::lowerPeek(tile::PeekOp op) {
  tile::RingAttr ring = tile::ringOf(op.getSlot().getType());
  SlotRegs s = slot(op.getSlot());
  for (auto [i, buf] : llvm::enumerate(op.getBufs()))
    set(buf, {bufferOf(ring, s, i)});
  return success();
}

LogicalResult KernelLowering::lowerRelease(tile::ReleaseOp op) {
  if (presence(op.getSlot()) == Presence::None)
    return success();
  tile::RingAttr ring = tile::ringOf(op.getSlot().getType());
  SlotRegs s = slot(op.getSlot());
  const bool full = op.getBarrier() == tile::Barrier::Full, remote = !full && isRemote(ring);
  // Of what threads store, all tell, and all who read it: compute-sanitizer would take other lanes' accesses for unordered.
  const bool perThread = ring.getFillWarps(), perWarp = full || ring.getArrive() == tile::Arrive::Warp;
  // One lane arrives for its warp: the other lanes' accesses must be over. wgmma reads are, as they were waited for.
  if (perWarp && !perThread)
    ptx.warpSync();
  Value who = perWarp ? lane : thread;
  Value arrives = remote ? Value(arith::CmpIOp::create(b, op.getLoc(), arith::CmpIPredicate::ult, who, ptx.i32(kernel.getCluster())))
                         : perThread ? ptx.i1(true) : ptx.equal(who, 0);
  if (s.present)
    arrives = arith::AndIOp::create(b, op.getLoc(), arrives, s.present);
  const int64_t group = op.getGroup().value_or(-1), count = full ? ring.getParts() : ring.getFree().size();
  for (int64_t g = 0; g < count; ++g) {
    if (group >= 0 && g != group)
      continue;
    Value bar = barrierOf(ring, s, full ? tile::Barrier::Full : tile::Barrier::Free, g);
    if (remote)
      ptx.mbarrierArriveRemote(bar, who, arrives);
    else
      ptx.mbarrierArrive(bar, arrives);
  }
  return success();
}

//===-- Filling -----------------------------------------------------------===//

std::optional<SmallVector<int64_t>> KernelLowering::staticBytes(tile::FillOp op) const {
  tile::RingAttr ring = tile::ringOf(op.getSlot().getType());
  SmallVector<int64_t> bytes(std::max<int64_t>(1, ring.getParts()), 0);
  const int64_t group = op.getGroup().value_or(-1);
  bool conditional = false;
  op.walk([&](tile::CopyOp copy) {
    conditional |= copy->getParentOp() != op || (copy.getOn() && copy.getOn() != op.getSlot());
    auto map = dyn_cast<tile::TmaType>(copy.getSource().getType());
    if (!map) {
      bytes[0] += copy.getDest().getType().getBytes();
      return;
    }
    const bool toPart = ring.getLanded() == tile::Landed::Cols;
    tile::BufType whole = toPart ? ring.getBuf(0) : copy.getDest().getType();
    SmallVector<std::pair<int64_t, int64_t>> columns = {{0, whole.getShape().back()}};
    if (toPart)
      columns = ring.getGroupCols(group);
    for (const Box &box : boxesOf(map, whole, columns))
      bytes[toPart ? box.column / ring.getLandedCols() : 0] += boxBytes(map);
  });
  if (conditional)
    return std::nullopt;
  return bytes;
}

LogicalResult KernelLowering::lowerFill(tile::FillOp op) {
  tile::RingAttr ring = tile::ringOf(op.getSlot().getType());
  SlotRegs s = slot(op.getSlot());
  const int64_t group = op.getGroup().value_or(-1);
  if (ring.getLanded() == tile::Landed::Other)
    return op.emitOpError("expected a ring with barriers of its own, got one with landed = other");
  Value other = ptx.bitXor(s.parity, ptx.i32(1));
  for (size_t g = 0; g < ring.getFree().size(); ++g)
    if (group < 0 || int64_t(g) == group)
      ptx.mbarrierWait(barrierOf(ring, s, tile::Barrier::Free, g), other);
  std::optional<SmallVector<int64_t>> bytes = staticBytes(op);
  SmallVector<int64_t> parts = partsOf(ring, group);
  if (!bytes && parts.size() != 1)
    return op.emitOpError("expected conditional copies only in a ring that lands as a whole");
  Value leader = gathering ? ptx.equal(thread, 0) : Value();
  if (bytes)
    for (int64_t part : parts)
      ptx.mbarrierExpect(barrierOf(ring, s, tile::Barrier::Full, part), ptx.i32((*bytes)[part]), leader);
  for (auto [i, arg] : llvm::enumerate(op.getBody().getArguments()))
    set(arg, {bufferOf(ring, s, i)});
  fill = FillState{ring, s, group, !bytes};
  LogicalResult done = lowerBlock(op.getBody().front());
  // Copies that were announced one by one: the arrival that is still missing keeps the phase open until here.
  if (!bytes)
    ptx.mbarrierExpect(barrierOf(ring, s, tile::Barrier::Full, parts[0]), ptx.i32(0), leader);
  if (isGathered(ring))
    ptx.copyAsyncArrive(barrierOf(ring, s, tile::Barrier::Full, parts[0]));
  fill.reset();
  return done;
}

//===-- Gates and barriers ------------------------------------------------===//

int64_t KernelLowering::warpgroupsAt(tile::GateOp op) { return kernel.getRole(op.getA()).getWarpgroups() + kernel.getRole(op.getB()).getWarpgroups(); }

LogicalResult KernelLowering::defineGate(tile::GateOp op) {
  const bool memory = op->hasAttr(plan::kMemory);
  auto place = op->getAttrOfType<IntegerAttr>(memory ? plan::kOffset : plan::kId);
  if (!place)
    return op.emitOpError("expected an offset or id from --dsv3-tile-allocate");
  if (!memory) {
    set(op.getGate(), {ptx.i32(place.getInt())});
    return success();
  }
  // A thread has one role, so one parity per gate; LLVM makes a register of what is allocated in the entry block.
  Value parity;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&func.getBody().front());
    parity = LLVM::AllocaOp::create(b, op.getLoc(), LLVM::LLVMPointerType::get(b.getContext()), b.getI32Type(), ptx.i32(1));
  }
  LLVM::StoreOp::create(b, op.getLoc(), ptx.i32(0), parity);
  set(op.getGate(), {ptx.add(smem, place.getInt()), parity});
  return success();
}

/// As a named barrier, or in memory with the same meaning: every thread of both roles arrives, and who meets waits too. A lane
/// could arrive for its warp, but compute-sanitizer's racecheck would take what the other lanes did for unordered.
LogicalResult KernelLowering::lowerGate(Value gate, bool wait) {
  auto def = gate.getDefiningOp<tile::GateOp>();
  const int64_t threads = 128 * warpgroupsAt(def);
  const Regs regs = values.lookup(gate);
  if (regs.size() == 1) {
    wait ? ptx.barrierSync(regs[0], threads) : ptx.barrierArrive(regs[0], threads);
    return success();
  }
  ptx.mbarrierArrive(regs[0], ptx.i1(true));
  if (!wait)
    return success();
  Value parity = LLVM::LoadOp::create(b, gate.getLoc(), b.getI32Type(), regs[1]);
  ptx.mbarrierWait(regs[0], parity);
  LLVM::StoreOp::create(b, gate.getLoc(), ptx.bitXor(parity, ptx.i32(1)), regs[1]);
  return success();
}

LogicalResult KernelLowering::lowerSync(tile::SyncOp op) {
  switch (op.getScope()) {
  case tile::Scope::Warp:
    ptx.warpSync();
    return success();
  case tile::Scope::Cta:
    ptx.barrierAll();
    return success();
  case tile::Scope::Cluster:
    ptx.clusterSync();
    return success();
  case tile::Scope::Warpgroup:
    break;
  }
  auto id = role ? role->getAttrOfType<IntegerAttr>(plan::kId) : IntegerAttr();
  if (!id)
    return op.emitOpError("expected a barrier id from --dsv3-tile-allocate on the role");
  Value barrier = role.getWarpgroups() == 1 ? ptx.i32(id.getInt()) : ptx.add(scalar(role.getIndex()), id.getInt());
  ptx.barrierSync(barrier, 128);
  return success();
}

LogicalResult KernelLowering::lowerPdl(tile::PdlOp op) {
  if (op.getEvent() == tile::PdlEvent::Trigger)
    ptx.launchDependents();
  else
    ptx.waitForDependencies();
  return success();
}

} // namespace dsv3::codegen
