// Verifiers of structure: kernels, roles, work, loops; and what all verifiers share.
#include "dialects/tile/TileVerify.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace dsv3::tile {

//===-- Shared ------------------------------------------------------------===//

LogicalResult verifyCoords(Operation *op, ValueRange values, ArrayRef<int64_t> place, size_t most, bool star) {
  if (place.size() > most)
    return op->emitOpError() << "expected at most " << most << " coordinates, got " << place.size();
  if (size_t(llvm::count(place, ShapedType::kDynamic)) != values.size())
    return op->emitOpError() << "expected " << llvm::count(place, ShapedType::kDynamic) << " values in the list, got " << values.size();
  for (auto [i, c] : llvm::enumerate(place)) {
    if (c == kStar && !(star && i + 1 == place.size()))
      return op->emitOpError() << "expected '*' only as the last coordinate of a tensor map, got it in place " << i;
    if (c < 0 && c != kStar && c != ShapedType::kDynamic)
      return op->emitOpError() << "expected coordinates of 0 or more, got " << c;
  }
  return success();
}

LogicalResult verifyGroup(Operation *op, RingAttr ring, std::optional<uint64_t> group) {
  if (group && *group >= ring.getFree().size())
    return op->emitOpError() << "expected a group below " << ring.getFree().size() << " of the ring, got " << int64_t(*group);
  return success();
}

std::optional<int64_t> constantOf(OpFoldResult entry) {
  std::optional<int64_t> n = getConstantIntValue(entry);
  return n && *n == kStar ? std::nullopt : n;
}

//===-- kernel, role ------------------------------------------------------===//

constexpr int64_t kSmemBytes = 232448; // 227 KiB: what a block may have on sm_90

static bool hasAutoLayout(KernelOp kernel) {
  bool found = false;
  AttrTypeWalker walker;
  walker.addWalk([&](LayoutAttr layout) { found |= layout.getKind() == SmemKind::Auto; });
  for (Operation &op : kernel.getBody().front())
    if (isa<AllocOp, RingOp>(op))
      for (Type type : op.getResultTypes())
        walker.walk(type);
  return found;
}

/// T3, T4: registers after setmaxnreg.
static LogicalResult verifyRegisters(KernelOp kernel) {
  int64_t total = 0, consumers = 0;
  bool all = true;
  for (auto role : kernel.getBody().getOps<RoleOp>()) {
    int64_t warpgroups = role.getWarpgroups();
    consumers += role.getProducer() ? 0 : warpgroups;
    all &= bool(role.getRegs());
    total += 128 * warpgroups * role.getRegs().value_or(0);
  }
  // What a launch does not give cannot be taken: whoever asks for it waits for ever.
  const int64_t threads = kernel.getThreads(), atLaunch = threads ? 65536 / threads / 8 * 8 * threads : 0;
  if (all && total > atLaunch)
    return kernel.emitOpError() << "T3: expected at most the " << atLaunch << " registers of the launch in all roles, got " << total;
  int64_t least = kernel.getCluster() > 1 ? 56 : consumers > 2 ? 32 : 40;
  for (auto role : kernel.getBody().getOps<RoleOp>())
    if (role.getProducer() && role.getRegs() && int64_t(*role.getRegs()) < least)
      return role.emitOpError() << "T4: expected at least " << least << " registers in this producer, got " << *role.getRegs();
  return success();
}

LogicalResult KernelOp::verify() {
  if (getCluster() < 1 || getCluster() > 8)
    return emitOpError() << "expected a cluster of 1 to 8 blocks, got " << int64_t(getCluster());
  if (!getResultTypes().empty())
    return emitOpError() << "expected no results, got " << getResultTypes().size();
  for (auto [i, type] : llvm::enumerate(getArgumentTypes()))
    if (!isa<TmaType, GmemType>(type) && !isa<LLVM::LLVMPointerType>(type) && !type.isInteger(32) && !type.isInteger(64) && !type.isF32())
      return emitOpError() << "expected argument " << i << " of type !tile.tma, !tile.gmem, !llvm.ptr<1>, i32, i64 or f32, got " << type;
  return success();
}

LogicalResult KernelOp::verifyRegions() {
  llvm::StringSet<> names;
  int64_t producers = 0, ids = 0;
  for (auto role : getBody().getOps<RoleOp>()) {
    if (!names.insert(role.getName()).second)
      return role.emitOpError() << "expected a name that no other role has, got @" << role.getName();
    producers += role.getProducer();
    ids += role.getProducer() ? 0 : role.getWarpgroups();
  }
  if (names.empty() || producers > 1)
    return emitOpError() << "T2: expected one or more roles with at most one producer, got " << names.size() << " with " << producers;
  if (getThreads() > 1024)
    return emitOpError() << "T2: expected at most 1024 threads, got " << getThreads();
  llvm::DenseMap<Attribute, Operation *> rings;
  for (auto ring : getBody().getOps<RingOp>())
    if (auto [it, fresh] = rings.try_emplace(ring.getRing(), ring); !fresh)
      return (ring.emitOpError() << "expected one op per ring attribute: name the rings that look alike").attachNote(it->second->getLoc()) << "the other one";
  ids += llvm::range_size(getBody().getOps<GateOp>());
  if (ids > 15)
    return emitOpError() << "T14: expected at most 15 named barriers (gates, and one per consumer warpgroup), got " << ids;
  if (failed(verifyRegisters(*this)))
    return failure();
  if (!hasAutoLayout(*this) && getBufferBytes() > kSmemBytes)
    return emitOpError() << "T1: expected at most " << kSmemBytes << " bytes of shared memory, got " << getBufferBytes();
  return success();
}

LogicalResult RoleOp::verify() {
  if (getWarpgroups() < 1 || getWarpgroups() > 8 || (getProducer() && getWarpgroups() != 1))
    return emitOpError() << "T2: expected 1 to 8 warpgroups, one for a producer, got " << int64_t(getWarpgroups());
  if (getBody().getNumArguments() != (getProducer() ? 0 : 1) || (!getProducer() && !getBody().getArgument(0).getType().isInteger(32)))
    return emitOpError() << "expected the warpgroup's index (i32) as the region's argument, none in a producer";
  if (getRegs() && (*getRegs() % 8 || *getRegs() < 24 || *getRegs() > 256))
    return emitOpError() << "T3: expected a multiple of 8 registers from 24 to 256, got " << int64_t(*getRegs());
  return success();
}

//===-- Work --------------------------------------------------------------===//

LogicalResult RasterOp::verify() {
  if (failed(verifyCoords(*this, getExtents(), getPlace(), getPlace().size())))
    return failure();
  if (getPlace().empty() || getPlace().size() != getTile().size() || getPlace().size() != getFields().size())
    return emitOpError() << "T5: expected as many tile sizes and fields as extents (" << getPlace().size() << "), got " << getTile().size() << " and " << getFields().size();
  if (llvm::any_of(getTile(), [](int64_t t) { return t < 1; }) || int64_t(getGroup()) < 1)
    return emitOpError() << "expected tile sizes and a group of 1 or more";
  return success();
}

static LogicalResult expectI32(Operation *op, StringRef name, GmemType type, int64_t rank) {
  if (type.getRank() != rank || !type.getElement().isInteger(32))
    return op->emitOpError() << "expected " << name << " of rank " << rank << " and element i32, got " << type;
  return success();
}

LogicalResult ListOp::verify() {
  if (failed(expectI32(*this, "items", getItems().getType(), 2)) || failed(expectI32(*this, "parts", getParts().getType(), 1)))
    return failure();
  int64_t columns = getItems().getType().getShape()[1];
  if (ShapedType::isDynamic(columns) || int64_t(getFields().size()) != columns + 1)
    return emitOpError() << "T5: expected the lane and a field per column of " << getItems().getType() << ", got " << getFields().size() << " fields";
  return success();
}

LogicalResult GroupsOp::verify() {
  if (failed(expectI32(*this, "offsets", getOffsets().getType(), 1)))
    return failure();
  auto kernel = (*this)->getParentOfType<KernelOp>();
  if (getFields().size() != 4 && !(getFields().size() == 5 && kernel && kernel.getCluster() > 1))
    return emitOpError() << "T5: expected 4 fields (group, rows, first row, first column; in a cluster also the rank), got " << getFields().size();
  if (int64_t(getRows()) < 1 || int64_t(getTile()) < 1 || int64_t(getMax()) < 1)
    return emitOpError() << "expected rows, tile and max of 1 or more";
  return success();
}

//===-- foreach, loop, none -----------------------------------------------===//

static LogicalResult verifyCarried(Operation *op, ValueRange inits, Block::BlockArgListType args, YieldOp yield) {
  if (inits.getTypes() != op->getResultTypes() || yield.getValues().getTypes() != op->getResultTypes())
    return op->emitOpError() << "expected `yield` of what is carried (" << inits.getTypes() << "), got " << yield.getValues().getTypes();
  for (auto [arg, init] : llvm::zip_equal(args, inits))
    if (arg.getType() != init.getType())
      return op->emitOpError() << "expected a region argument of type " << init.getType() << ", got " << arg.getType();
  return success();
}

LogicalResult ForeachOp::verify() {
  if (getBody().getNumArguments() < getInits().size() + 1)
    return emitOpError() << "expected region arguments: fields, ordinal, what is carried";
  if (!getWork().getDefiningOp())
    return emitOpError() << "expected work from `raster`, `list` or `groups`";
  unsigned fields = getFields(getWork()).size();
  if (getNumFields() != fields)
    return emitOpError() << "T5: expected " << fields << " fields, got " << getNumFields();
  if (!llvm::all_of(getBody().getArguments().take_front(fields + 1), [](Value v) { return v.getType().isInteger(32); }))
    return emitOpError() << "expected fields and ordinal of type i32";
  return verifyCarried(*this, getInits(), getIterArgs(), getYield());
}

LogicalResult LoopOp::verify() {
  if (getPlace().size() != 3 || failed(verifyCoords(*this, getBounds(), getPlace(), 3)))
    return failure();
  unsigned own = getPeel() == Peel::None ? 1 : 2;
  if (getBody().getNumArguments() != own + getInits().size() || !getIndex().getType().isInteger(32) || (own == 2 && !getFin().getType().isInteger(1)))
    return emitOpError() << "expected region arguments: index (i32), `fin` (i1) if peeled, what is carried";
  std::optional<int64_t> lower = constantOf(getLower()), upper = constantOf(getUpper()), step = constantOf(getStep());
  if (step && *step < 1)
    return emitOpError() << "expected a step of 1 or more, got " << *step;
  bool known = lower && upper && step;
  int64_t trips = known ? std::max<int64_t>(0, llvm::divideCeilSigned(*upper - *lower, *step)) : 0;
  if (getPeel() != Peel::None && known && !trips)
    return emitOpError() << "T6: expected at least one trip of a peeled loop, got none";
  if (getUnroll() && (!known || trips > 8))
    return emitOpError() << "T7: expected constant bounds and at most 8 trips to unroll" << (known ? ", got " + std::to_string(trips) : "");
  return verifyCarried(*this, getInits(), getIterArgs(), getYield());
}

LogicalResult NoneOp::verify() {
  if (!isa<AccType, SlotType, TokenType>(getType()))
    return emitOpError() << "T8: expected an accumulator, slot or token, got " << getType();
  return success();
}

//===-- any ---------------------------------------------------------------===//

LogicalResult AnyOp::verify() {
  if (!cast<RankedTensorType>(getMask().getType()).getElementType().isInteger(1))
    return emitOpError() << "expected a mask of i1, got " << getMask().getType();
  for (Operation *user : getResult().getUsers()) {
    auto guarded = dyn_cast<scf::IfOp>(user);
    if (!guarded)
      continue;
    WalkResult walk = guarded.walk([&](Operation *op) {
      if (!isa<SyncOp, SignalOp, MeetOp, WaitOp, ReleaseOp, MmaOp, AwaitOp, FillOp, PutOp, ZeroOp>(op))
        return WalkResult::advance();
      (op->emitOpError() << "T36: expected none of its kind where only some warps pass").attachNote(getLoc()) << "the vote";
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      return failure();
  }
  return success();
}

} // namespace dsv3::tile
