// Targets by name, so that passes need not link every family of emitters.
#pragma once

#include "codegen/targets/KernelEmitter.h"

#include "dialects/target/TargetDialect.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir {
class OpPassManager;
}

namespace dsv3::codegen {

using RegistryFn = const KernelRegistry &(*)();

/// Module attribute that says what is compiled for: `#target.cpu<...>` or `#target.gpu<...>`. Set before the first stage, read
/// by every pass that depends on a target.
inline constexpr llvm::StringLiteral kTargetAttr = "dsv3.target";

/// The target of a module without that attribute.
inline constexpr llvm::StringLiteral kDefaultTarget = "x86-64";

/// Makes a target known to the passes of stages bind to schedule. Called by tools once, before passes run:
/// `registerTarget("x86-64", x86Registry)`. A family that runs grids on a device gives its description.
void registerTarget(llvm::StringRef name, RegistryFn registry);
struct GpuTarget;
using DialectsFn = void (*)(mlir::DialectRegistry &);
using LowerFn = void (*)(mlir::OpPassManager &);
/// `dialects` inserts those whose ops its emitters write. `lower` adds the passes on a gpu.module that bring these ops to what
/// codegen/emit/Cubin.h takes; null: they are that already.
void registerTarget(const GpuTarget &gpu, RegistryFn registry, DialectsFn dialects, LowerFn lower = nullptr);

/// Registered names in order, for messages; whether there is one.
std::string targetNames();
bool isTarget(llvm::StringRef name);
/// The description of a registered device, or null: a CPU, or no target.
const GpuTarget *findGpu(llvm::StringRef name);
/// Inserts the dialects of all registered targets: what a pass that calls emitters depends on.
void insertTargetDialects(mlir::DialectRegistry &dialects);

/// A device that grids run on: what `#target.gpu` says about it.
struct GpuTarget {
  llvm::StringLiteral name; ///< "sm_90a": also the architecture of PTX and machine code
  int64_t smCount;
  int64_t smem; ///< bytes of shared memory that a block may use
  std::array<llvm::StringLiteral, 5> has;
};
/// H100 and H200.
extern const GpuTarget kSm90a;

/// The attribute of a registered target; `variants` are the code variants of a CPU, empty: all of the table.
mlir::Attribute targetAttr(mlir::MLIRContext *context, llvm::StringRef name, llvm::ArrayRef<std::string> variants = {});

/// What a pass compiles for.
struct TargetChoice {
  std::string name;
  const KernelRegistry *registry = nullptr;
  mlir::Attribute attr;                ///< the module's, or the target's own when the module has none
  target::GpuAttr gpu;                 ///< null for a CPU
  LowerFn lower = nullptr;             ///< of a GPU, may be null
};

/// The target that `option` names; if that is empty, the module's; if it has none, the default. A diagnostic on the module
/// that lists the targets there are, when it is none of them.
mlir::FailureOr<TargetChoice> chooseTarget(mlir::ModuleOp module, llvm::StringRef option);

} // namespace dsv3::codegen
