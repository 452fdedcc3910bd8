// The walk: control flow, scalars, and which file lowers which op.
#include "codegen/sm90/lower/Lowering.h"
#include "codegen/sm90/lower/TilePasses.h"
#include "passes/tile/TilePasses.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace dsv3::codegen {

FragmentRegs::FragmentRegs(Type fragment)
    : map(tile::getFrag(fragment).fragmentOf(cast<RankedTensorType>(fragment).getShape())),
      element(cast<RankedTensorType>(fragment).getElementType()), bits(element.getIntOrFloatBitWidth()) {}

KernelLowering::KernelLowering(tile::KernelOp kernel) : kernel(kernel), b(kernel), ptx(b, kernel.getLoc()) {
  for (auto ring : kernel.getBody().getOps<tile::RingOp>())
    rings[ring.getRing()] = ring;
}

LogicalResult KernelLowering::run() {
  if (failed(createFunction()))
    return failure();
  for (Operation &op : kernel.getBody().front())
    if (!isa<tile::RoleOp>(op) && failed(lowerOp(&op)))
      return failure();
  if (failed(lowerRoles()))
    return failure();
  ptx.setLoc(kernel.getLoc());
  if (llvm::any_of(rings, [&](auto &entry) { return isRemote(cast<tile::RingAttr>(entry.first)); }))
    ptx.clusterSync(); // a block must not end while another may still arrive at its barriers
  LLVM::ReturnOp::create(b, kernel.getLoc(), ValueRange());
  return success();
}

//===-- Values ------------------------------------------------------------===//

std::optional<int64_t> KernelLowering::constant(Value v) const {
  APInt value;
  if (v && matchPattern(v, m_ConstantInt(&value)))
    return value.getSExtValue();
  return std::nullopt;
}

Value KernelLowering::scalar(OpFoldResult v) {
  if (auto value = dyn_cast<Value>(v))
    return scalar(value);
  return ptx.i32(cast<IntegerAttr>(cast<Attribute>(v)).getInt());
}

Value KernelLowering::uniform(Value v) {
  if (constant(v) || isLone())
    return v; // a shuffle with a full mask hangs in a lone thread
  Type type = v.getType(), i32 = b.getI32Type();
  if (type == i32)
    return ptx.uniform(v);
  if (type.isF32())
    return ptx.bitcast(ptx.uniform(ptx.bitcast(v, i32)), type);
  if (type.isInteger(1))
    return ptx.equal(ptx.uniform(arith::ExtUIOp::create(b, v.getLoc(), i32, v)), 1);
  return v;
}

SmallVector<Type> KernelLowering::machineTypes(Value v) const {
  Type type = v.getType(), i32 = IntegerType::get(v.getContext(), 32);
  SmallVector<Type> out;
  if (auto acc = dyn_cast<tile::AccType>(type)) {
    out.assign(acc.getCols() / 2, acc.getElement());
  } else if (auto slot = dyn_cast<tile::SlotType>(type)) {
    tile::RingAttr ring = slot.getRing();
    out.assign(1 + (ring.getStages() > 1) + (ring.getLanes() > 1), i32);
  } else if (tile::isFragment(type)) {
    FragmentRegs frag(type);
    out.assign(frag.words(), frag.machineType());
  } else if (isa<tile::BufType>(type)) {
    out.push_back(i32);
  } else if (!isa<tile::TokenType>(type)) {
    out.push_back(type);
  }
  if (presence(v) == Presence::Maybe && isa<tile::AccType, tile::SlotType>(type))
    out.push_back(IntegerType::get(v.getContext(), 1));
  return out;
}

Regs KernelLowering::regsAs(Value v, Value like) {
  SmallVector<Type> types = machineTypes(like);
  Regs out = values.lookup(v);
  if (isa<tile::TokenType>(v.getType()) || out.size() == types.size())
    return out;
  bool there = presence(v) != Presence::None;
  if (!there) {
    out.clear();
    // Poison, not zeros: clearing an accumulator costs a copy of it behind the fence.
    while (out.size() + 1 < types.size() || (out.size() < types.size() && !types[out.size()].isInteger(1)))
      out.push_back(LLVM::PoisonOp::create(b, v.getLoc(), types[out.size()]));
  }
  if (out.size() < types.size())
    out.push_back(ptx.i1(there));
  return out;
}

void KernelLowering::setFrom(Value v, ValueRange flat, size_t &at) {
  size_t n = machineTypes(v).size();
  set(v, Regs(flat.slice(at, n)));
  at += n;
}

KernelLowering::Flight KernelLowering::Flight::meet(const Flight &a, const Flight &b) const {
  Flight out;
  out.groups = std::min(a.groups, b.groups);
  // What was in flight before and was not waited for on both paths. Register operands from inside do not dominate what
  // follows; T29 says that they were waited for.
  for (const PendingA &p : pending)
    if (a.has(p.group) || b.has(p.group))
      out.pending.push_back(p);
  return out;
}

//===-- Control flow ------------------------------------------------------===//

LogicalResult KernelLowering::lowerBlock(Block &block) {
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>() && failed(lowerOp(&op)))
      return failure();
  return success();
}

static bool has(Region &region, llvm::function_ref<bool(Operation *)> what) {
  return region.walk([&](Operation *op) { return what(op) ? WalkResult::interrupt() : WalkResult::advance(); }).wasInterrupted();
}

LogicalResult KernelLowering::lowerIf(scf::IfOp op) {
  SmallVector<Type> types;
  for (Value result : op.getResults())
    llvm::append_range(types, machineTypes(result));
  auto isMma = [](Operation *inner) { return isa<tile::MmaOp>(inner); };
  bool products = has(op.getThenRegion(), isMma) || has(op.getElseRegion(), isMma);
  bool voted = op.getCondition().getDefiningOp<tile::AnyOp>() != nullptr;
  bool hasElse = !op.getElseRegion().empty();
  auto newIf = scf::IfOp::create(b, op.getLoc(), types, scalar(op.getCondition()), hasElse);
  OpBuilder::InsertionGuard guard(b);
  const Flight before = flight;
  SmallVector<Flight> after;
  for (auto [from, to] : {std::pair(&op.getThenRegion(), &newIf.getThenRegion()), std::pair(&op.getElseRegion(), &newIf.getElseRegion())}) {
    flight = before;
    if (from->empty()) {
      after.push_back(flight);
      continue;
    }
    Block &target = to->front();
    if (types.empty())
      b.setInsertionPoint(target.getTerminator());
    else
      b.setInsertionPointToEnd(&target);
    if (failed(lowerBlock(from->front())))
      return failure();
    // Else LLVM merges the ends of paths with products through the accumulators, and makes selects of a voted branch.
    after.push_back(flight);
    if (products || (voted && from == &op.getThenRegion()))
      ptx.marker("path " + std::to_string(++markers));
    if (types.empty())
      continue;
    Regs yielded;
    for (auto [value, result] : llvm::zip(from->front().getTerminator()->getOperands(), op.getResults()))
      llvm::append_range(yielded, regsAs(value, result));
    scf::YieldOp::create(b, op.getLoc(), yielded);
  }
  flight = before.meet(after[0], after[1]);
  size_t at = 0;
  for (Value result : op.getResults())
    setFrom(result, newIf.getResults(), at);
  return success();
}

FailureOr<scf::ForOp> KernelLowering::lowerLoop(Operation *op, Value lower, Value upper, Value step, ValueRange inits, ValueRange args, Block &body,
                                                ValueRange extras, llvm::function_ref<Regs(Value, ValueRange)> enter) {
  Regs flat(extras.begin(), extras.end());
  for (auto [init, arg] : llvm::zip(inits, args))
    llvm::append_range(flat, regsAs(init, arg));
  auto loop = scf::ForOp::create(b, op->getLoc(), lower, upper, step, flat);
  OpBuilder::InsertionGuard guard(b);
  Block *target = loop.getBody();
  if (target->mightHaveTerminator())
    target->getTerminator()->erase();
  b.setInsertionPointToEnd(target);
  size_t at = extras.size();
  for (Value arg : args)
    setFrom(arg, loop.getRegionIterArgs(), at);
  Regs next = enter(loop.getInductionVar(), ValueRange(loop.getRegionIterArgs()).take_front(extras.size()));
  const Flight before = flight;
  if (failed(lowerBlock(body)))
    return failure();
  flight = before; // the loop may run no trip
  for (auto [value, arg] : llvm::zip(body.getTerminator()->getOperands(), args))
    llvm::append_range(next, regsAs(value, arg));
  scf::YieldOp::create(b, op->getLoc(), next);
  at = extras.size();
  for (auto [result, arg] : llvm::zip(op->getResults(), args)) {
    size_t n = machineTypes(arg).size();
    set(result, Regs(loop.getResults().slice(at, n)));
    at += n;
  }
  return loop;
}

LogicalResult KernelLowering::lowerFor(scf::ForOp op) {
  Value lower = uniform(scalar(op.getLowerBound())), upper = uniform(scalar(op.getUpperBound())), step = scalar(op.getStep());
  return lowerLoop(op, lower, upper, step, op.getInitArgs(), op.getRegionIterArgs(), *op.getBody(), {}, [&](Value index, ValueRange) {
    set(op.getInductionVar(), {index});
    return Regs();
  });
}

LogicalResult KernelLowering::lowerScalar(Operation *op) {
  IRMapping map;
  for (Value operand : op->getOperands())
    map.map(operand, scalar(operand));
  Operation *clone = b.clone(*op, map);
  for (auto [from, to] : llvm::zip(op->getResults(), clone->getResults()))
    set(from, {to});
  return success();
}

static bool isLeaf(Operation *op) {
  StringRef dialect = op->getName().getDialectNamespace();
  return dialect == "arith" || dialect == "math";
}

LogicalResult KernelLowering::lowerOp(Operation *op) {
  ptx.setLoc(op->getLoc());
  if (isLeaf(op)) {
    bool fragments = llvm::any_of(op->getResultTypes(), tile::isFragment);
    return !fragments ? lowerScalar(op) : isa<arith::ConstantOp>(op) ? lowerConstant(op) : lowerElementwise(op);
  }
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](scf::IfOp o) { return lowerIf(o); })
      .Case([&](scf::ForOp o) { return lowerFor(o); })
      .Case([&](tile::ForeachOp o) { return lowerForeach(o); })
      .Case([&](tile::RasterOp o) { return lowerRaster(o); })
      .Case([&](tile::ListOp o) { return lowerList(o); })
      .Case([&](tile::GroupsOp o) { return lowerGroups(o); })
      .Case([&](tile::NextOp o) { return lowerNext(o); })
      .Case([&](tile::WaitOp o) { return lowerWait(o); })
      .Case([&](tile::PeekOp o) { return lowerPeek(o); })
      .Case([&](tile::ReleaseOp o) { return lowerRelease(o); })
      .Case([&](tile::FillOp o) { return lowerFill(o); })
      .Case([&](tile::SyncOp o) { return lowerSync(o); })
      .Case([&](tile::SignalOp o) { return lowerGate(o.getGate(), false); })
      .Case([&](tile::MeetOp o) { return lowerGate(o.getGate(), true); })
      .Case([&](tile::PdlOp o) { return lowerPdl(o); })
      .Case([&](tile::CopyOp o) { return lowerCopy(o); })
      .Case([&](tile::GatherOp o) { return lowerGather(o); })
      .Case([&](tile::PutOp o) { return lowerPut(o); })
      .Case([&](tile::AllocOp o) { return lowerAlloc(o); })
      .Case([&](tile::ViewOp o) { return lowerView(o); })
      .Case([&](tile::LoadOp o) { return lowerLoad(o); })
      .Case([&](tile::StoreOp o) { return lowerStore(o); })
      .Case([&](tile::ZeroOp o) { return lowerZero(o); })
      .Case([&](tile::ReadOp o) { return lowerRead(o); })
      .Case([&](tile::LookupOp o) { return lowerLookup(o); })
      .Case([&](tile::WriteOp o) { return lowerWrite(o); })
      .Case([&](tile::CountOp o) { return lowerCount(o); })
      .Case([&](tile::MmaOp o) { return lowerMma(o); })
      .Case([&](tile::AwaitOp o) { return lowerAwait(o); })
      .Case([&](tile::ReduceOp o) { return lowerReduce(o); })
      .Case([&](tile::ReduceRowsOp o) { return lowerReduceRows(o); })
      .Case([&](tile::BcastOp o) { return lowerBcast(o); })
      .Case([&](tile::IotaOp o) { return lowerIota(o); })
      .Case([&](tile::SliceOp o) { return lowerSlice(o); })
      .Case([&](tile::ExpandOp o) { return lowerExpand(o); })
      .Case([&](tile::AnyOp o) { return lowerAny(o); })
      .Case([&](tile::ClusterSumOp o) { return lowerClusterSum(o); })
      .Case<tile::NoneOp, tile::RingOp>([&](Operation *o) { return success(); })
      .Case([&](tile::GateOp o) { return defineGate(o); })
      .Case([&](func::CallOp o) { return LogicalResult(o.emitOpError("expected calls to be inlined before a kernel is lowered")); })
      .Case([&](tile::LoopOp o) { return LogicalResult(o.emitOpError("expected --dsv3-tile-peel to have run before a kernel is lowered")); })
      .Default([&](Operation *o) { return LogicalResult(o->emitOpError("has no lowering inside a tile.kernel")); });
}

#define GEN_PASS_DEF_TILETONVVMPASS
#include "codegen/sm90/lower/TilePasses.h.inc"

namespace {

struct TileToNvvmPass : impl::TileToNvvmPassBase<TileToNvvmPass> {
  void runOnOperation() override {
    SmallVector<tile::KernelOp> kernels;
    getOperation()->walk([&](tile::KernelOp kernel) { kernels.push_back(kernel); });
    for (tile::KernelOp kernel : kernels) {
      if (failed(KernelLowering(kernel).run()))
        return signalPassFailure();
      kernel.erase();
    }
  }
};
} // namespace

/// Without merging of blocks, which would undo what kernels keep apart on purpose.
static void addCleanup(OpPassManager &pm) {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
  pm.addPass(createCSEPass());
}

void addTileLowering(OpPassManager &pm) {
  pm.addPass(createInlinerPass());
  pm.addPass(createSymbolDCEPass());
  addCleanup(pm);
  pm.addPass(createTilePeelPass());
  addCleanup(pm);
  pm.addPass(createTileAllocatePass());
  pm.addPass(createTileToNvvmPass());
}

} // namespace dsv3::codegen
