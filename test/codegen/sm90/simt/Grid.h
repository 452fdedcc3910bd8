// A launch of a thread-level GPU kernel, bound and emitted as the product does, on the emulator.
#pragma once

#include "test/codegen/sm90/simt/Emulator.h"

namespace dsv3::codegen::test {

class Grid {
public:
  /// Binds `op`, an unbound launch, to sm_90a. Null, with a test failure, when that fails. The context needs
  /// `registerDeviceDialects`.
  static std::shared_ptr<const Grid> create(mlir::Operation *op);
  /// Whether the target's emitter of `op` makes a kernel of plain threads.
  static bool canRun(mlir::Operation *op);

  /// `references` are the addresses of the launch's references in order, `scalars` DSV3_SCALAR_COUNT numbers.
  void run(const std::vector<const void *> &references, const std::vector<int64_t> &scalars, bool backwards) const;

private:
  DeviceLaunch launch;
  std::unique_ptr<Emulator> emulator;
};

} // namespace dsv3::codegen::test
