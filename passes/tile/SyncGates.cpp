// --dsv3-tile-sync-gates: signal -> meet.
#include "passes/tile/TilePasses.h"

#include "mlir/IR/Builders.h"

namespace dsv3 {

#define GEN_PASS_DEF_TILESYNCGATESPASS
#include "passes/tile/TilePasses.h.inc"

using namespace mlir;

namespace {
struct TileSyncGatesPass : impl::TileSyncGatesPassBase<TileSyncGatesPass> {
  void runOnOperation() override {
    getOperation()->walk([](tile::GateOp gate) { gate.setMutual(true); });
    getOperation()->walk([](tile::SignalOp signal) {
      OpBuilder b(signal);
      tile::MeetOp::create(b, signal.getLoc(), signal.getGate());
      signal.erase();
    });
  }
};
} // namespace
} // namespace dsv3
