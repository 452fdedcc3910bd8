// What the blocks of a cluster do together: sums over distributed shared memory.
//
// Every warp pushes the columns of each rank into that rank's buffer, and the hardware counts the bytes on the receiver's
// barrier as they arrive. Nothing is fetched, so nobody waits for another block's writes with a release at cluster scope,
// which would be a full memory barrier of half a microsecond; and a block may end as soon as it has received its own.
#include "codegen/sm90/lower/Lowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;

namespace dsv3::codegen {

static SmallVector<tile::ClusterSumOp> sumsOf(tile::RoleOp role) {
  SmallVector<tile::ClusterSumOp> out;
  role.walk([&](tile::ClusterSumOp op) { out.push_back(op); });
  return out;
}

void KernelLowering::initialiseCluster() {
  for (auto r : kernel.getBody().getOps<tile::RoleOp>())
    for (tile::ClusterSumOp op : sumsOf(r)) {
      auto offset = op->getAttrOfType<IntegerAttr>(plan::kCluster);
      if (!offset)
        continue; // said by lowerClusterSum
      const int64_t warps = 4 * r.getWarpgroups();
      for (int64_t i = 0; i < warps; ++i) {
        ptx.mbarrierInit(ptx.add(smem, offset.getInt() + 8 * i), 1);
        ptx.mbarrierInit(ptx.add(smem, offset.getInt() + 8 * (warps + i)), kernel.getCluster());
        ptx.stShared(smem, offset.getInt() + 16 * warps + 4 * i, {ptx.i32(0)});
      }
    }
}

LogicalResult KernelLowering::lowerClusterSum(tile::ClusterSumOp op) {
  FragmentRegs from(op.getValue().getType()), to(op.getResult().getType());
  auto offset = op->getAttrOfType<IntegerAttr>(plan::kCluster);
  if (!role || !offset)
    return op.emitOpError("expected a place for barriers from --dsv3-tile-allocate");
  Location loc = op.getLoc();
  // In register order, 16 bytes are a thread's four registers of 8 columns; those of a warpgroup lie side by side.
  constexpr int64_t kWord = 16 * 128, kWarpWord = 16 * 32;
  const int64_t blocks = kernel.getCluster(), warps = 4 * role.getWarpgroups();
  const int64_t columns = to.map.registers() / 4, all = from.map.registers() / 4;
  Value g = scalar(role.getIndex()), rank = ptx.special("cluster.ctarank"), warp = ptx.add(ptx.mul(g, 4), ptx.shr(thread, 5));
  Value received = ptx.add(ptx.add(smem, offset.getInt()), ptx.mul(warp, 8)), read = ptx.add(received, 8 * warps);
  Value countAt = ptx.add(ptx.add(smem, offset.getInt() + 16 * warps), ptx.mul(warp, 4));
  Value count = ptx.ldShared(countAt, 0, 1)[0], phase = ptx.bitAnd(count, 1);

  // From the second use on: this warp of every block has read the sum before. The first time the wait passes.
  ptx.warpSync();
  Value again = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, count, ptx.i32(0));
  ptx.mbarrierArriveRemote(read, lane, both(below(lane, ptx.i32(blocks)), again)); // lane r arrives for its warp in block r
  ptx.mbarrierWait(read, ptx.bitXor(phase, ptx.i32(1)));

  // The buffer: per sender its word for every 8 columns of the receiver.
  const Regs words = values.lookup(op.getValue());
  Value mine = ptx.add(scalar(op.getVia()), ptx.mul(thread, 16)), sent = ptx.add(mine, ptx.mul(rank, columns * kWord));
  for (int64_t r = 0; r < blocks && r * columns < all; ++r) {
    Value place = ptx.mapRemote(sent, r), bar = ptx.mapRemote(received, r);
    for (int64_t c = 0; c < columns && r * columns + c < all; ++c) {
      Regs four;
      for (Value v : ValueRange(words).slice(4 * (r * columns + c), 4))
        four.push_back(ptx.bitcast(v, b.getI32Type()));
      ptx.stAsync(place, c * kWord, four, bar);
    }
  }
  Value mineCount = ptx.i32(columns);
  if (columns * blocks > all) { // the last ranks' columns may not exist
    Value left = arith::MaxSIOp::create(b, loc, arith::SubIOp::create(b, loc, ptx.i32(all), ptx.mul(rank, columns)), ptx.i32(0));
    mineCount = arith::MinSIOp::create(b, loc, mineCount, left);
  }
  ptx.mbarrierExpect(received, ptx.mul(mineCount, blocks * kWarpWord), ptx.equal(lane, 0));
  ptx.mbarrierWaitCluster(received, phase);

  Regs sums;
  for (int64_t c = 0; c < columns; ++c) {
    Regs sum;
    for (int64_t r = 0; r < blocks; ++r)
      for (auto [i, word] : llvm::enumerate(ptx.ldShared(mine, (r * columns + c) * kWord, 4))) {
        Value x = ptx.bitcast(word, to.machineType());
        if (r == 0)
          sum.push_back(x);
        else
          sum[i] = isa<FloatType>(to.element) ? Value(arith::AddFOp::create(b, loc, sum[i], x)) : Value(arith::AddIOp::create(b, loc, sum[i], x));
      }
    llvm::append_range(sums, sum);
  }
  ptx.stShared(countAt, 0, {ptx.add(count, 1)}, ptx.equal(lane, 0));
  ptx.warpSync();
  set(op.getResult(), sums);
  return success();
}

} // namespace dsv3::codegen
