// Verifiers of rings, slots and gates.
#include "dialects/tile/TileVerify.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

namespace dsv3::tile {

static RingAttr ringOfSlot(Value slot) { return cast<SlotType>(slot.getType()).getRing(); }

LogicalResult RingOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  for (FreeAttr group : getRing().getFree())
    for (FlatSymbolRefAttr role : group.getRoles())
      if (RoleOp op = kernel.getRole(role.getValue()); !op || op.getProducer())
        return emitOpError() << "T12: expected a consumer role of the kernel that frees, got " << role;
  return success();
}

LogicalResult NextOp::verify() {
  RingAttr ring = ringOf(getFrom().getType());
  bool first = isa<RingType>(getFrom().getType());
  if (bool(getLane()) != (first && ring.getLanes() > 1))
    return emitOpError() << "expected a lane for the first slot of a ring with lanes, and only there";
  return success();
}

LogicalResult GateOp::verify() {
  auto kernel = cast<KernelOp>((*this)->getParentOp());
  for (StringRef name : {getA(), getB()})
    if (RoleOp role = kernel.getRole(name); !role || role.getProducer())
      return emitOpError() << "T14: expected a consumer role of the kernel, got @" << name;
  if (getA() == getB())
    return emitOpError() << "T14: expected two roles, got @" << getA() << " twice";
  return success();
}

/// T14: who signals and who meets. Helper functions are looked at once they are inlined.
static LogicalResult verifyEnd(Operation *op, Value gate, bool signal) {
  auto role = op->getParentOfType<RoleOp>();
  auto def = gate.getDefiningOp<GateOp>();
  if (!role || !def)
    return success();
  StringRef name = role.getName();
  bool legal = def.getMutual() ? !signal && (name == def.getA() || name == def.getB()) : name == (signal ? def.getA() : def.getB());
  if (!legal)
    return (op->emitOpError() << "T14: expected a role that " << (signal ? "signals" : "meets") << " at this gate, got @" << name).attachNote(def.getLoc()) << "the gate";
  return success();
}

LogicalResult SignalOp::verify() { return verifyEnd(*this, getGate(), true); }
LogicalResult MeetOp::verify() { return verifyEnd(*this, getGate(), false); }

//===-- fill, wait, peek, release -----------------------------------------===//

/// A copy writes the buffer, or a part of it.
static bool isCopied(Value buf) {
  return llvm::any_of(buf.getUsers(), [&](Operation *user) {
    if (auto gather = dyn_cast<GatherOp>(user))
      return gather.getDest() == buf;
    if (auto copy = dyn_cast<CopyOp>(user))
      return copy.getDest() == buf;
    auto view = dyn_cast<ViewOp>(user);
    return view && isCopied(view.getResult());
  });
}

LogicalResult FillOp::verify() {
  RingAttr ring = ringOfSlot(getSlot());
  if (failed(verifyGroup(*this, ring, getGroup())))
    return failure();
  if (ring.getFillWarps())
    return emitOpError() << "expected a ring filled by copies, got fill = arrive(" << ring.getFillWarps() << ")";
  if (getBody().getArgumentTypes() != TypeRange(ring.getGroupBufs(getGroup() ? int64_t(*getGroup()) : -1)))
    return emitOpError() << "expected the group's buffers as region arguments";
  if (auto role = (*this)->getParentOfType<RoleOp>(); role && !role.getProducer())
    return emitOpError() << "T15: expected to be in a producer role, got @" << role.getName();
  return success();
}

LogicalResult FillOp::verifyRegions() {
  WalkResult walk = getBody().walk([&](Operation *op) {
    bool scalar = op->getDialect() && isa<arith::ArithDialect>(op->getDialect()) && llvm::none_of(op->getResultTypes(), isFragment);
    if (scalar || isa<CopyOp, GatherOp, LoopOp, YieldOp, ViewOp, ReadOp, scf::IfOp, scf::ForOp, scf::YieldOp>(op))
      return WalkResult::advance();
    (op->emitOpError() << "T15: expected copies, loops, scf.if and scalar operations in a `fill`").attachNote(getLoc()) << "the fill";
    return WalkResult::interrupt();
  });
  if (walk.wasInterrupted())
    return failure();
  for (BlockArgument buf : getBody().getArguments())
    if (!isCopied(buf))
      return emitOpError() << "T16: expected a copy into buffer " << buf.getArgNumber();
  return success();
}

/// The role fills the ring: by copies, or by stores that it announces.
static bool fills(RoleOp role, RingAttr ring) {
  return role
      .walk([&](Operation *op) {
        bool fill = false;
        if (auto f = dyn_cast<FillOp>(op))
          fill = ringOfSlot(f.getSlot()) == ring;
        else if (auto copy = dyn_cast<CopyOp>(op)) // lands elsewhere: the ring has no barrier of its own
          fill = ring.getLanded() == Landed::Other && bool(copy.getOn());
        else if (auto release = dyn_cast<ReleaseOp>(op))
          fill = release.getBarrier() == Barrier::Full && ringOfSlot(release.getSlot()) == ring;
        return fill ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

LogicalResult WaitOp::verify() {
  RingAttr ring = ringOfSlot(getSlot());
  if (failed(verifyGroup(*this, ring, getGroup())))
    return failure();
  if (getBarrier() == Barrier::Full && ring.getLanded() == Landed::Other)
    return emitOpError() << "expected a ring with full barriers of its own, got landed = other: `peek`";
  // A helper that both waits and fills is judged where it is inlined.
  auto role = (*this)->getParentOfType<RoleOp>();
  bool calls = role && role.walk([](CallOpInterface) { return WalkResult::interrupt(); }).wasInterrupted();
  if (getBarrier() == Barrier::Free && role && !calls && !fills(role, ring))
    return emitOpError() << "T20: expected a role that fills the ring, got @" << role.getName();
  return success();
}

LogicalResult ReleaseOp::verify() {
  RingAttr ring = ringOfSlot(getSlot());
  if (failed(verifyGroup(*this, ring, getGroup())))
    return failure();
  auto role = (*this)->getParentOfType<RoleOp>();
  if (getBarrier() == Barrier::Full) {
    if (!ring.getFillWarps() || getGroup())
      return emitOpError() << "T21: expected a ring with fill = arrive and no group to release full";
    return success();
  }
  if (!getGroup() && ring.getFree().size() != 1)
    return emitOpError() << "T21: expected a group, as the ring has " << ring.getFree().size();
  FreeAttr group = ring.getFree()[getGroup().value_or(0)];
  if (role && !llvm::any_of(group.getRoles(), [&](FlatSymbolRefAttr r) { return r.getValue() == role.getName(); }))
    return emitOpError() << "T21: expected a role that frees the group, got @" << role.getName();
  return success();
}

} // namespace dsv3::tile
