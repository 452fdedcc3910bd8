// What the simulator's tests share: kernels from files, random operands, findings as text.
#pragma once

#include "passes/tile/Simulator.h"
#include "runtime/core/DType.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include <gtest/gtest.h>

#include <random>

namespace dsv3::tile {

/// A module with a tile.kernel, from a file of the source tree.
class TileModule {
public:
  explicit TileModule(const std::string &path);
  /// The first kernel, or null.
  KernelOp kernel();
  /// Inlines all calls.
  bool inlineCalls();
  mlir::ModuleOp module() { return *parsed; }

private:
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> parsed;
};

inline std::vector<uint16_t> randomBf16(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<uint16_t> out(n);
  for (uint16_t &x : out)
    x = floatToBf16(normal(random));
  return out;
}

/// "C4 message; C1 message", or "" if all is well.
std::string describe(const SimReport &report);

} // namespace dsv3::tile
