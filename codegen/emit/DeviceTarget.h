// The code of a device target: a host program, and per kernel PTX and machine code.
#pragma once

#include "codegen/emit/Report.h"
#include "dialects/rt/RtDialect.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace dsv3::codegen {

/// What `emitDeviceTarget` has written.
struct DeviceFiles {
  struct Kernel {
    std::string symbol;
    bool assembled; ///< there is machine code beside the PTX
  };
  target::GpuAttr gpu;
  std::string assembler; ///< "ptxas 13.0.88"; empty: none was found, nothing is verified
  std::vector<Kernel> kernels;
  std::vector<KernelReport> report;

  bool verified() const { return !assembler.empty(); }
};

/// Brings the kernels of every gpu.module of `module` from what emitters write to what `emitDevice` takes, by the passes of the
/// module's target. Internal error with MLIR's message.
Status lowerDeviceKernels(mlir::ModuleOp module);

/// Compiles the gpu.module and the host program of a scheduled module: `folder`/host.so, `folder`/kernels/SYMBOL.ptx and, where
/// ptxas is found, SYMBOL.cubin. Launches are compared with the kernels' signatures. Internal error naming the kernel;
/// DoesNotFit when the disk is full. Equal input gives equal bytes.
Result<DeviceFiles> emitDeviceTarget(mlir::ModuleOp module, rt::ModuleOp host, const std::string &folder, int jobs);

/// Internal error unless each grid of `host` passes what its kernel in `kernels` (lowered: llvm.func) takes: as many
/// parameters, of the same kinds, as many threads and blocks of a cluster as the kernel fixes, and enough shared memory.
Status checkLaunches(rt::ModuleOp host, mlir::Operation *kernels);

} // namespace dsv3::codegen
