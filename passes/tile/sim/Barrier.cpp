#include "passes/tile/sim/Barrier.h"

namespace dsv3::tile::sim {

void Mbarrier::arrive(unsigned n, const VectorClock &when, mlir::Operation *by) {
  gathering.join(when);
  lastArrival = by;
  arrived += n;
  endPhaseIfComplete();
}

void Mbarrier::land(int64_t n, const VectorClock &when) {
  gathering.join(when);
  bytes -= n;
  endPhaseIfComplete();
}

void Mbarrier::endPhaseIfComplete() {
  if (arrived < count || bytes != 0)
    return;
  tooMany |= arrived > count;
  arrived -= count;
  ++done;
  visible.join(gathering);
}

} // namespace dsv3::tile::sim
