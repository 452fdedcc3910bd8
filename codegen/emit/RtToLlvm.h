// From an rt.module to LLVM IR: the tables of runtime/core/Abi.h and one function per program.
#pragma once

#include "dialects/rt/RtDialect.h"
#include "runtime/core/Result.h"

#include "llvm/IR/Module.h"

namespace dsv3::codegen {

/// The structs of Abi.h. A unit test compares sizes and offsets with the C header.
struct AbiTypes {
  llvm::StructType *ref, *launch, *tensorMap, *param, *gridLaunch, *hostApi, *kernelDesc, *outputDesc, *programDesc, *fieldDesc, *tapDesc,
      *moduleDesc;
  static AbiTypes get(llvm::LLVMContext &context);
};

/// Where a host program's kernels are: in the same module, or in device code that the runtime loads by name.
enum class KernelsIn { Module, DeviceCode };

/// Adds tables, programs and `dsv3_module` to `module`. Only `dsv3_module` stays visible outside: everything else becomes
/// internal. Internal error when a kernel that should be in `module` has no function there.
Status addHostProgram(rt::ModuleOp host, llvm::StringRef variant, KernelsIn kernels, llvm::Module &module);

} // namespace dsv3::codegen
