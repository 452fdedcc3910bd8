// Device code: the kernels of a gpu.module as PTX text and, where ptxas is found, as machine code with its resources.
//
// LLVM writes PTX in process; ptxas is a child. Kernels are compiled one by one, `jobs` at a time, because ptxas is
// superlinear in the size of its input; so each kernel has its own PTX and its own cubin.
#pragma once

#include "runtime/core/Result.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::codegen {

/// What `ptxas -v` says of one kernel.
struct KernelResources {
  int64_t registers = 0;      ///< per thread; with setmaxnreg, what the kernel starts with
  int64_t spillStores = 0;    ///< bytes a thread
  int64_t spillLoads = 0;     ///< bytes a thread
  int64_t stack = 0;          ///< bytes of local memory a thread
  int64_t staticShared = 0;   ///< bytes a block, beside the dynamic ones
  int64_t barriers = 0;       ///< named barriers; 16 when an id is not constant
};

/// Warp accesses of shared memory that are alike, from the bank conflict analysis.
struct SharedAccess {
  std::string op, instruction; ///< "store", "stmatrix.x4"
  int64_t count = 1;           ///< in the kernel's text
  int64_t degree = 1;          ///< 1: no conflict
  int64_t lost = 0;            ///< cycles each time
};

struct DeviceKernel {
  std::string symbol;                       ///< entry name, in both texts
  std::string ptx;                          ///< for another driver, or for JIT where there is no cubin; sm_90a only
  std::string cubin;                        ///< ELF bytes; empty when no ptxas was found ("unverified")
  std::optional<KernelResources> resources; ///< with the cubin only
  int64_t threads = 0;                      ///< nvvm.reqntid; 0 when the kernel does not fix it
  int64_t dynamicShared = 0;                ///< attribute dsv3.smem of the kernel, bytes; 0 without
  int64_t stages = 0;                       ///< attribute dsv3.stages: of its deepest ring; 0 without
  std::optional<std::vector<SharedAccess>> accesses; ///< attribute dsv3.accesses; nothing when not analysed
};

/// The kernels in the order of the module.
struct DeviceCode {
  std::vector<DeviceKernel> kernels;
  std::string assembler; ///< "ptxas 13.0.88", or empty: then nothing was assembled and the code is unverified
};

struct DeviceOptions {
  std::string ptxas; ///< program; empty: PATH, then $CUDA_HOME/bin, then /usr/local/cuda/bin
  int jobs = 1;      ///< kernels compiled at once; the result does not depend on it
};

/// Dialects and translations to LLVM IR that `emitDevice` needs in its context.
void registerDeviceDialects(mlir::DialectRegistry &registry);

/// A copy of `module` (a gpu.module or builtin module whose functions hold llvm, nvvm, scf, cf, arith, math and vector
/// ops) in the LLVM dialect. Internal error with MLIR's message, or naming a math op that would need a library.
Result<mlir::OwningOpRef<mlir::ModuleOp>> lowerDevice(mlir::Operation *module);

/// Compiles every `nvvm.kernel` of `module`, which stays as it is; what it may hold says `lowerDevice`. Kernels share
/// globals and helper functions of the module, not code. Internal error: as `lowerDevice`; a call into a library; ptxas refuses its input; a kernel that
/// spills or uses local memory, or whose wgmma ptxas serialised or whose setmaxnreg it ignored: names the kernel and quotes ptxas. Unsupported error: `options.ptxas` was given and
/// is not a program.
Result<DeviceCode> emitDevice(mlir::Operation *module, const DeviceOptions &options);

} // namespace dsv3::codegen
