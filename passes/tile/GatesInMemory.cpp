// --dsv3-tile-gates-in-memory
#include "passes/tile/TilePasses.h"

#include "mlir/IR/Builders.h"

namespace dsv3 {

#define GEN_PASS_DEF_TILEGATESINMEMORYPASS
#include "passes/tile/TilePasses.h.inc"

using namespace mlir;

namespace {
struct TileGatesInMemoryPass : impl::TileGatesInMemoryPassBase<TileGatesInMemoryPass> {
  void runOnOperation() override {
    getOperation()->walk([](tile::GateOp gate) { gate->setAttr("tile.memory", UnitAttr::get(gate.getContext())); });
  }
};
} // namespace
} // namespace dsv3
