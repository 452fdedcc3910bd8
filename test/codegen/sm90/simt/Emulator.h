// Runs thread-level GPU kernels on the host, so that their values can be tested where there is no GPU.
//
// The kernel's own LLVM IR is compiled for this processor. Each thread of a block is a coroutine that runs until it
// needs others: a barrier, a shuffle, a vote. What this cannot show: memory order weaker than that, speed, and the last
// bits of approximate instructions.
#pragma once

#include "codegen/targets/DeviceEmitter.h"

#include <memory>
#include <vector>

namespace dsv3::codegen::test {

class Emulator {
public:
  /// Kernel `symbol` of `module`, a gpu.module in a context with `registerDeviceDialects`. Null, with a test failure, when
  /// it does not compile or needs an instruction that is not emulated.
  static std::unique_ptr<Emulator> create(mlir::Operation *module, llvm::StringRef symbol);
  ~Emulator();

  /// Runs clusters of blocks one after the other, threads between two meeting points one after the other; `backwards` turns
  /// both orders round. Shared memory, which each block has its own of, is poisoned before. `params`: addresses and numbers, the step's scalars first.
  /// A test failure when threads meet at different places.
  void run(int64_t blocks, int64_t threads, int64_t cluster, const std::vector<int64_t> &params, bool backwards) const;

private:
  struct Impl;
  explicit Emulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace dsv3::codegen::test
