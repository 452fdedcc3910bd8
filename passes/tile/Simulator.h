// Runs a tile.kernel on the host: values, and the rules of its barrier protocol.
//
// Every warpgroup of every role runs its IR by itself; copies, matrix products and bulk stores finish late. A seed picks
// the schedule. Numbers are computed for real, so that a kernel's output can be compared with the reference before a GPU
// sees it; shared memory is bytes, addressed by the layouts, so that a wrong layout gives wrong numbers here too. Vector
// clocks find races that this schedule did not show. What is checked: sim/Findings.h.
//
// Where the model is kinder than the hardware may be: an mma is one operation of the warpgroup, so that one warp's await
// is as good as that of all (one arrival per warpgroup at a free barrier rests on the same). Where it is stricter: granules
// of 16 bytes. `any` is true for the whole warpgroup if it is for one warp: what it guards must not change other rows.
#pragma once

#include "dialects/tile/TileDialect.h"
#include "passes/tile/sim/Findings.h"
#include "runtime/core/Result.h"

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <vector>

namespace dsv3::tile {

/// An argument of a kernel: a number, or global memory (for a pointer as for a tensor map).
struct SimArgument {
  double number = 0;
  uint8_t *data = nullptr;      ///< row-major, elements packed
  std::vector<int64_t> shape;   ///< outermost first; as many dims as the argument's type

  static SimArgument scalar(double value) { return {value, nullptr, {}}; }
  static SimArgument memory(void *data, std::vector<int64_t> shape) {
    return {0, static_cast<uint8_t *>(data), std::move(shape)};
  }
};

struct SimOptions {
  uint64_t seed = 1;               ///< even: one participant is slow; 0: everybody in turn
  int64_t ctas = 1;                ///< the grid; CTAs run one after the other
  uint64_t maxSteps = 50000000;    ///< per CTA
  size_t maxFindings = 20;         ///< stop after so many
  bool fp8SumsAreCut = false;      ///< sums of FP8 products lose bits as on hardware (sim::addFp8Products); else they are rounded to f32
};

struct SimReport {
  std::vector<sim::Finding> findings;
  uint64_t steps = 0;
};

/// `args` in the order of the kernel's arguments; outputs are written in place. Refused with an error: arguments that do
/// not fit the types, and ops that are not simulated.
Result<SimReport> simulate(KernelOp kernel, llvm::MutableArrayRef<SimArgument> args, const SimOptions &options = {});

} // namespace dsv3::tile
