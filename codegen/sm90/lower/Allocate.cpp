// Shared memory and named barriers of a kernel.
#include "codegen/sm90/lower/Lowering.h"
#include "codegen/sm90/lower/TilePasses.h"

using namespace mlir;

namespace dsv3::codegen {

#define GEN_PASS_DEF_TILEALLOCATEPASS
#include "codegen/sm90/lower/TilePasses.h.inc"

namespace {

constexpr int64_t kMaxBytes = 232448;   ///< dynamic shared memory of a block
constexpr int64_t kMaxNamedBarriers = 15;

/// Something that needs bytes: a buffer of a ring (all stages and lanes), an alloc, or the tile list of `groups`.
struct Request {
  Operation *op;
  unsigned buffer; ///< of a ring
  int64_t bytes, alignment, offset = 0;
};

std::vector<Request> requestsOf(tile::KernelOp kernel) {
  std::vector<Request> out;
  for (Operation &op : kernel.getBody().front()) {
    if (auto alloc = dyn_cast<tile::AllocOp>(op)) {
      tile::BufType buf = alloc.getBuf().getType();
      out.push_back({&op, 0, buf.getBytes(), buf.getSmem().alignment()});
    } else if (auto ring = dyn_cast<tile::RingOp>(op)) {
      for (unsigned i = 0; i < ring.getRing().getBufs().size(); ++i) {
        tile::BufType buf = ring.getRing().getBuf(i);
        int64_t alignment = buf.getSmem().alignment();
        out.push_back({&op, i, static_cast<int64_t>(llvm::alignTo(buf.getBytes(), alignment)) * ring.getRing().getStages() * ring.getRing().getLanes(), alignment});
      }
    } else if (auto groups = dyn_cast<tile::GroupsOp>(op)) {
      out.push_back({&op, 0, 16 + 16 * static_cast<int64_t>(groups.getMax()), 16});
    }
  }
  return out;
}

std::string describe(const std::vector<Request> &requests) {
  std::string out;
  for (const Request &r : requests)
    out += (out.empty() ? "" : ", ") + r.op->getName().stripDialect().str() + " " + std::to_string(r.bytes);
  return out;
}

int64_t barriersOf(tile::RingAttr ring) { return ring.getStages() * ring.getLanes() * (ring.getParts() + static_cast<int64_t>(ring.getFree().size())); }

/// A buffer whose layout is still open, or a null type.
tile::BufType openLayout(tile::KernelOp kernel) {
  auto open = [](Type type) { return cast<tile::BufType>(type).getLayout().getKind() == tile::SmemKind::Auto; };
  for (Operation &op : kernel.getBody().front()) {
    if (auto alloc = dyn_cast<tile::AllocOp>(op); alloc && open(alloc.getBuf().getType()))
      return alloc.getBuf().getType();
    if (auto ring = dyn_cast<tile::RingOp>(op))
      for (Type type : ring.getRing().getBufs())
        if (open(type))
          return cast<tile::BufType>(type);
  }
  return {};
}

LogicalResult placeBytes(tile::KernelOp kernel) {
  Builder b(kernel.getContext());
  if (tile::BufType open = openLayout(kernel))
    return kernel.emitOpError("expected layouts from --dsv3-tile-choose-layouts, got ") << open;
  std::vector<Request> requests = requestsOf(kernel);
  // The strictest alignment first: no bytes are lost between buffers of one alignment.
  std::vector<Request *> order;
  for (Request &r : requests)
    order.push_back(&r);
  llvm::stable_sort(order, [](Request *x, Request *y) { return x->alignment > y->alignment; });
  int64_t at = 0;
  for (Request *r : order) {
    r->offset = llvm::alignTo(at, r->alignment);
    at = r->offset + r->bytes;
  }
  llvm::DenseMap<Operation *, SmallVector<int64_t>> offsets;
  for (const Request &r : requests) {
    offsets[r.op].push_back(r.offset);
    if (!isa<tile::RingOp>(r.op))
      r.op->setAttr(plan::kOffset, b.getI64IntegerAttr(r.offset));
  }
  at = llvm::alignTo(at, 8);
  for (auto ring : kernel.getBody().getOps<tile::RingOp>()) {
    ring->setAttr(plan::kOffsets, b.getDenseI64ArrayAttr(offsets[ring]));
    ring->setAttr(plan::kBarriers, b.getI64IntegerAttr(at));
    at += 8 * barriersOf(ring.getRing());
  }
  for (auto gate : kernel.getBody().getOps<tile::GateOp>())
    if (gate->hasAttr(plan::kMemory)) {
      gate->setAttr(plan::kOffset, b.getI64IntegerAttr(at));
      at += 8;
    }
  for (auto role : kernel.getBody().getOps<tile::RoleOp>())
    role.walk([&](tile::ClusterSumOp sum) {
      sum->setAttr(plan::kCluster, b.getI64IntegerAttr(at));
      at = static_cast<int64_t>(llvm::alignTo(at + clusterBytes(role.getWarpgroups()), 8));
    });
  if (at > kMaxBytes)
    return kernel.emitOpError("T1: expected at most ") << kMaxBytes << " bytes of shared memory, got " << at << ": " << describe(requests);
  kernel->setAttr(plan::kBytes, b.getI64IntegerAttr(at));
  return success();
}

LogicalResult numberBarriers(tile::KernelOp kernel) {
  Builder b(kernel.getContext());
  int64_t next = 1; // 0 is the block's
  for (auto gate : kernel.getBody().getOps<tile::GateOp>())
    if (!gate->hasAttr(plan::kMemory))
      gate->setAttr(plan::kId, b.getI64IntegerAttr(next++));
  for (auto role : kernel.getBody().getOps<tile::RoleOp>()) {
    bool syncs = role.walk([](tile::SyncOp sync) {
      return sync.getScope() == tile::Scope::Warpgroup ? WalkResult::interrupt() : WalkResult::advance();
    }).wasInterrupted();
    role.walk([&](tile::ReduceRowsOp op) {
      op->setAttr(plan::kId, b.getI64IntegerAttr(next));
      next += role.getWarpgroups() / op.getOver();
    });
    if (!syncs)
      continue;
    role->setAttr(plan::kId, b.getI64IntegerAttr(next));
    next += role.getWarpgroups();
  }
  if (next - 1 > kMaxNamedBarriers)
    return kernel.emitOpError("T14: expected at most ") << kMaxNamedBarriers << " named barriers, got " << next - 1;
  return success();
}

struct TileAllocatePass : impl::TileAllocatePassBase<TileAllocatePass> {
  void runOnOperation() override {
    WalkResult done = getOperation()->walk([&](tile::KernelOp kernel) {
      return succeeded(placeBytes(kernel)) && succeeded(numberBarriers(kernel)) ? WalkResult::advance() : WalkResult::interrupt();
    });
    if (done.wasInterrupted())
      signalPassFailure();
  }
};
} // namespace

} // namespace dsv3::codegen
