// From kernels in MLIR to a shared object, in process but for the linker.
#pragma once

#include "codegen/targets/KernelEmitter.h"
#include "dialects/rt/RtDialect.h"
#include "runtime/core/Result.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace dsv3::codegen {

/// Lowers the kernels of all variant modules (`module @avx512`) inside `module` to the LLVM dialect, in place.
/// Internal error with MLIR's message.
Status lowerKernels(mlir::ModuleOp module);

/// LLVM IR at O3 for the variant, with the host program's tables; then machine code: the bytes of an ELF object.
/// `variantModule` was lowered before. Thread-safe for different variants of one context.
Result<std::string> compileVariant(mlir::ModuleOp variantModule, rt::ModuleOp host, const CpuVariant &variant);

/// The host program of a device, whose kernels are device code: tables and programs only, for any x86-64 processor.
/// Its variant is called "host".
Result<std::string> compileHost(rt::ModuleOp host);

/// Links one object to the shared object `path`. The linker is ld.lld: the one found when this was configured, else in PATH;
/// Internal error naming both when there is none.
Status linkShared(const std::string &object, const std::string &path);

/// Reads a shared object: Internal error unless `dsv3_module` is the one symbol it defines for others, nothing is
/// undefined and no library is needed. Lists the names.
Status checkShared(const std::string &path);

struct SharedObject {
  std::string variant, path;
};

/// All variants of `module`, `jobs` at a time, to `folder`/VARIANT.so. Equal input gives equal bytes.
Result<std::vector<SharedObject>> emitVariants(mlir::ModuleOp module, rt::ModuleOp host, const std::string &folder, int jobs);

} // namespace dsv3::codegen
