// The kernel's frame: parameters, barriers, roles.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

constexpr llvm::StringLiteral kSharedSymbol = "dsv3_smem";

/// All dynamic shared memory of a kernel. Declared with its alignment, so that LLVM folds the arithmetic of aligning away.
static void declareSharedMemory(Operation *kernel) {
  Operation *module = kernel->getParentOp();
  if (SymbolTable::lookupSymbolIn(module, kSharedSymbol))
    return;
  OpBuilder b(kernel->getContext());
  b.setInsertionPointToStart(&module->getRegion(0).front());
  LLVM::GlobalOp::create(b, kernel->getLoc(), LLVM::LLVMArrayType::get(b.getI8Type(), 0), /*isConstant=*/false, LLVM::Linkage::External, kSharedSymbol,
                         Attribute(), /*alignment=*/1024, /*addrSpace=*/3);
}

/// Parameters of an argument, in order.
static SmallVector<Type> parametersOf(Type type) {
  MLIRContext *context = type.getContext();
  if (isa<tile::TmaType>(type))
    return {LLVM::LLVMPointerType::get(context)};
  if (auto gmem = dyn_cast<tile::GmemType>(type)) {
    SmallVector<Type> out = {LLVM::LLVMPointerType::get(context, 1)};
    for (int64_t dim : gmem.getShape().drop_front())
      if (ShapedType::isDynamic(dim))
        out.push_back(IntegerType::get(context, 32));
    return out;
  }
  return {type};
}

static void setMapAttributes(LLVM::LLVMFuncOp func, unsigned index) {
  Builder b(func.getContext());
  func.setArgAttr(index, "llvm.align", b.getI64IntegerAttr(64));
  func.setArgAttr(index, "llvm.byval", TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), 128)));
  func.setArgAttr(index, "nvvm.grid_constant", b.getUnitAttr());
}

LogicalResult KernelLowering::createFunction() {
  auto bytes = kernel->getAttrOfType<IntegerAttr>(plan::kBytes);
  if (!bytes)
    return kernel.emitOpError("expected a memory plan from --dsv3-tile-allocate");
  declareSharedMemory(kernel);
  SmallVector<Type> parameters;
  for (Type type : kernel.getArgumentTypes())
    llvm::append_range(parameters, parametersOf(type));
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), parameters);
  func = LLVM::LLVMFuncOp::create(b, kernel.getLoc(), kernel.getSymName(), type);
  func->setAttr("nvvm.kernel", b.getUnitAttr());
  func->setAttr("nvvm.reqntid", b.getDenseI32ArrayAttr({static_cast<int32_t>(kernel.getThreads()), 1, 1}));
  func->setAttr("nvvm.minctasm", b.getI32IntegerAttr(1)); // setmaxnreg is ignored without it and reqntid
  if (kernel.getCluster() > 1)
    func->setAttr("nvvm.cluster_dim", b.getDenseI32ArrayAttr({static_cast<int32_t>(kernel.getCluster()), 1, 1}));
  func->setAttr("dsv3.smem", b.getI64IntegerAttr(bytes.getInt()));
  int64_t stages = 0;
  for (auto ring : kernel.getBody().getOps<tile::RingOp>())
    stages = std::max<int64_t>(stages, ring.getRing().getStages());
  if (stages)
    func->setAttr("dsv3.stages", b.getI64IntegerAttr(stages));
  if (Attribute accesses = kernel->getAttr("tile.accesses"))
    func->setAttr("dsv3.accesses", accesses);
  Block *entry = func.addEntryBlock(b);
  b.setInsertionPointToEnd(entry);
  size_t at = 0;
  for (BlockArgument arg : kernel.getBody().getArguments()) {
    size_t n = parametersOf(arg.getType()).size();
    set(arg, Regs(ValueRange(entry->getArguments()).slice(at, n)));
    if (isa<tile::TmaType>(arg.getType()))
      setMapAttributes(func, at);
    at += n;
  }
  tid = ptx.special("tid.x");
  warpgroup = ptx.uniform(ptx.shr(tid, 7));
  Type pointer = LLVM::LLVMPointerType::get(b.getContext(), 3);
  Value base = LLVM::AddressOfOp::create(b, kernel.getLoc(), pointer, kSharedSymbol);
  smem = LLVM::PtrToIntOp::create(b, kernel.getLoc(), b.getI32Type(), base);
  // On their way while barriers are made ready: nearly everything that follows waits for them.
  for (auto op : kernel.getBody().getOps<tile::CountOp>())
    if (isa<BlockArgument>(op.getScalars()))
      counts[op] = ptx.ldGlobal(scalar(op.getScalars()), 8 * op.getIndex(), 1)[0];
  initialiseBarriers();
  return success();
}

/// Arrivals that complete a free barrier of a group.
static int64_t freeArrivals(tile::KernelOp kernel, tile::RingAttr ring, tile::FreeAttr group) {
  const bool perThread = ring.getFillWarps(); // KernelLowering::lowerRelease
  if (group.getCount())
    return group.getCount() * (perThread ? 32 : 1);
  int64_t warpgroups = 0;
  for (FlatSymbolRefAttr name : group.getRoles())
    if (tile::RoleOp role = kernel.getRole(name.getValue()))
      warpgroups += role.getWarpgroups();
  return warpgroups * (perThread ? 128 : ring.getArrive() == tile::Arrive::Warp ? 4 : 1);
}

void KernelLowering::initialiseBarriers() {
  Location loc = kernel.getLoc();
  auto first = scf::IfOp::create(b, loc, ptx.equal(tid, 0), /*withElseRegion=*/false);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(first.thenBlock()->getTerminator());
    for (auto op : kernel.getBody().getOps<tile::RingOp>()) {
      tile::RingAttr ring = op.getRing();
      const int64_t copies = ring.getStages() * ring.getLanes();
      int64_t at = op->getAttrOfType<IntegerAttr>(plan::kBarriers).getInt();
      auto init = [&](int64_t arrivals) {
        ptx.mbarrierInit(ptx.add(smem, at), arrivals);
        at += 8;
      };
      for (int64_t i = 0; i < copies * ring.getParts(); ++i)
        init(std::max<int64_t>(1, 32 * ring.getFillWarps()) + (isGathered(ring) ? 128 : 0));
      for (int64_t i = 0; i < copies; ++i)
        for (tile::FreeAttr group : ring.getFree())
          init(freeArrivals(kernel, ring, group) * (isRemote(ring) ? kernel.getCluster() : 1));
    }
    for (auto gate : kernel.getBody().getOps<tile::GateOp>())
      if (gate->hasAttr(plan::kMemory))
        ptx.mbarrierInit(ptx.add(smem, gate->getAttrOfType<IntegerAttr>(plan::kOffset).getInt()), 128 * warpgroupsAt(gate));
    initialiseCluster();
    ptx.mbarrierInitFence();
    for (BlockArgument arg : kernel.getBody().getArguments())
      if (isa<tile::TmaType>(arg.getType()))
        ptx.prefetchMap(scalar(arg));
  }
  ptx.barrierAll();
  if (kernel.getCluster() > 1)
    ptx.clusterSyncRelaxed(); // other blocks' barriers too: the fence above is all that these need
}

LogicalResult KernelLowering::lowerRoles() {
  SmallVector<tile::RoleOp> roles(kernel.getBody().getOps<tile::RoleOp>());
  llvm::stable_sort(roles, [](tile::RoleOp x, tile::RoleOp y) { return x.getProducer() && !y.getProducer(); });
  OpBuilder::InsertionGuard guard(b);
  int64_t at = 0;
  for (auto [i, r] : llvm::enumerate(roles)) {
    int64_t count = r.getProducer() ? 1 : r.getWarpgroups();
    if (i + 1 < roles.size()) {
      Value mine = arith::CmpIOp::create(b, r.getLoc(), arith::CmpIPredicate::ult, warpgroup, ptx.i32(at + count));
      auto branch = scf::IfOp::create(b, r.getLoc(), mine, /*withElseRegion=*/true);
      b.setInsertionPoint(branch.thenBlock()->getTerminator());
      if (failed(lowerRole(r, at)))
        return failure();
      b.setInsertionPoint(branch.elseBlock()->getTerminator());
    } else if (failed(lowerRole(r, at))) {
      return failure();
    }
    at += count;
  }
  return success();
}

LogicalResult KernelLowering::lowerRole(tile::RoleOp r, int64_t firstWarpgroup) {
  OpBuilder::InsertionGuard guard(b);
  role = r;
  gathering = r.getProducer() && r.gathers();
  ptx.setLoc(r.getLoc());
  async.emplace(r.getBody().front());
  flight = Flight();
  if (std::optional<int64_t> wanted = r.getRegs()) {
    int64_t atLaunch = 65536 / kernel.getThreads() / 8 * 8;
    ptx.setMaxRegisters(*wanted, *wanted > atLaunch);
  }
  thread = ptx.bitAnd(tid, 127);
  lane = ptx.bitAnd(tid, 31);
  if (!isLone()) {
    if (Value index = r.getIndex())
      set(index, {ptx.add(warpgroup, -firstWarpgroup)});
    LogicalResult done = lowerBlock(r.getBody().front());
    role = {};
    return done;
  }
  Value warp = ptx.uniform(ptx.bitAnd(ptx.shr(tid, 5), 3));
  auto firstWarp = scf::IfOp::create(b, r.getLoc(), ptx.equal(warp, 0), /*withElseRegion=*/false);
  b.setInsertionPoint(firstWarp.thenBlock()->getTerminator());
  auto one = scf::IfOp::create(b, r.getLoc(), ptx.elect(), /*withElseRegion=*/false);
  b.setInsertionPoint(one.thenBlock()->getTerminator());
  LogicalResult done = lowerBlock(r.getBody().front());
  role = {};
  return done;
}

} // namespace dsv3::codegen
