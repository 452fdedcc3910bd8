// What the blocks of a cluster do together: sums over distributed shared memory.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

void KernelLowering::initialiseCluster() {
  for (auto r : kernel.getBody().getOps<tile::RoleOp>()) {
    auto offset = r->getAttrOfType<IntegerAttr>(plan::kCluster);
    if (!offset)
      continue;
    const int64_t warpgroups = r.getWarpgroups();
    for (int64_t i = 0; i < 2 * warpgroups; ++i) // every warp of this warpgroup in every block
      ptx.mbarrierInit(ptx.add(smem, offset.getInt() + 8 * i), 4 * kernel.getCluster());
    for (int64_t i = 0; i < 4 * warpgroups; ++i)
      ptx.stShared(smem, offset.getInt() + 16 * warpgroups + 4 * i, {ptx.i32(0)});
  }
}

LogicalResult KernelLowering::lowerClusterSum(tile::ClusterSumOp op) {
  FragmentRegs from(op.getValue().getType()), to(op.getResult().getType());
  auto offset = role ? role->getAttrOfType<IntegerAttr>(plan::kCluster) : IntegerAttr();
  if (!offset)
    return op.emitOpError("expected barriers from --dsv3-tile-allocate on the role");
  Location loc = op.getLoc();
  const int64_t blocks = kernel.getCluster();
  Value g = scalar(role.getIndex()), buffer = scalar(op.getVia()), rank = ptx.special("cluster.ctarank");
  Value stored = ptx.add(ptx.add(smem, offset.getInt()), ptx.mul(g, 16)), read = ptx.add(stored, 8);
  // How often this warp came here, modulo 2. A word per warp, as a shared one could be read before its owner wrote it.
  Value warp = ptx.add(ptx.mul(g, 4), ptx.shr(thread, 5));
  Value phaseAt = ptx.add(ptx.add(smem, offset.getInt() + 16 * role.getWarpgroups()), ptx.mul(warp, 4));
  Value phase = ptx.ldShared(phaseAt, 0, 1)[0];
  auto meet = [&](Value barrier) {
    ptx.warpSync();
    Value arrives = below(lane, ptx.i32(blocks)); // lane r arrives for its warp in block r
    ptx.mbarrierReleaseRemote(barrier, lane, arrives);
    ptx.mbarrierWaitCluster(barrier, phase);
  };

  // In register order, 16 bytes are the four registers of 8 columns; those of all threads lie side by side.
  constexpr int64_t kWord = 16 * 128;
  const Regs words = values.lookup(op.getValue());
  Value mine = ptx.add(buffer, ptx.mul(thread, 16));
  for (int64_t j = 0; j < from.map.registers() / 4; ++j) {
    Regs four;
    for (Value v : ValueRange(words).slice(4 * j, 4))
      four.push_back(ptx.bitcast(v, b.getI32Type()));
    ptx.stShared(mine, j * kWord, four);
  }
  meet(stored);
  const int64_t columns = to.map.registers() / 4, all = from.map.registers() / 4;
  Regs sums;
  for (int64_t j = 0; j < columns; ++j) {
    Value index = ptx.add(ptx.mul(rank, columns), j);
    if (columns * blocks > all) // the last block's columns may not exist; it reads some that do
      index = arith::MinSIOp::create(b, loc, index, ptx.i32(all - 1));
    Value at = ptx.add(mine, ptx.mul(index, kWord));
    Regs sum;
    for (int64_t r = 0; r < blocks; ++r) {
      Regs part = ptx.ldSharedRemote(at, ptx.i32(r), 0, 4);
      for (auto [i, word] : llvm::enumerate(part)) {
        Value x = ptx.bitcast(word, b.getF32Type());
        if (r == 0)
          sum.push_back(x);
        else
          sum[i] = arith::AddFOp::create(b, loc, sum[i], x);
      }
    }
    llvm::append_range(sums, sum);
  }
  meet(read);
  ptx.stShared(phaseAt, 0, {ptx.bitXor(phase, ptx.i32(1))}, ptx.equal(lane, 0));
  ptx.warpSync();
  set(op.getResult(), sums);
  return success();
}

} // namespace dsv3::codegen
