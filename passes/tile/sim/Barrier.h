// mbarriers and named barriers, with what the hardware does not keep: the true number of the phase.
#pragma once

#include "passes/tile/sim/Clock.h"

#include "mlir/IR/Operation.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::tile::sim {

/// A phase ends when `count` arrivals are in and as many bytes have landed as were announced.
class Mbarrier {
public:
  Mbarrier(std::string name, unsigned count) : name(std::move(name)), count(count) {}

  /// What try_wait.parity asks: is the phase of this parity over? It cannot tell a phase from the one two before.
  bool passes(unsigned parity) const { return (done & 1) != parity; }
  uint64_t phasesDone() const { return done; }
  unsigned arrivals() const { return arrived; }
  unsigned expectedArrivals() const { return count; }
  bool idle() const { return arrived == 0 && bytes == 0; }
  const VectorClock &clock() const { return visible; }

  void arrive(unsigned n, const VectorClock &when, mlir::Operation *by);
  void expect(int64_t n) { bytes += n; }
  void land(int64_t n, const VectorClock &when);
  /// More arrivals than the phase takes: the surplus counts for the next one, as on the hardware.
  bool overrun() const { return tooMany; }

  const std::string name;
  mlir::Operation *lastArrival = nullptr;

private:
  void endPhaseIfComplete();

  unsigned count, arrived = 0;
  int64_t bytes = 0;
  uint64_t done = 0;
  bool tooMany = false;
  VectorClock gathering, visible;
};

} // namespace dsv3::tile::sim
