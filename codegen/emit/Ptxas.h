// The assembler of PTX as a child process, and what it says about a kernel.
#pragma once

#include "codegen/emit/Cubin.h"

#include "llvm/ADT/StringRef.h"

namespace dsv3::codegen {

/// An assembler that was found, and its version.
struct Assembler {
  std::string path, version;
};

/// The program `wanted`, or the first of PATH, $CUDA_HOME/bin, /usr/local/cuda/bin; no value when there is none.
/// Unsupported error when `wanted` is given and does not answer as ptxas.
Result<std::optional<Assembler>> findAssembler(const std::string &wanted);

/// What ptxas wrote about one kernel.
struct AssemblerLog {
  KernelResources resources;
  std::string complaint; ///< line that says wgmma was serialised or setmaxnreg ignored; empty: none
};

/// Reads the output of `ptxas -v` for kernel `symbol`. Internal error when the kernel's register count is not in it.
Result<AssemblerLog> parseAssemblerLog(llvm::StringRef log, llvm::StringRef symbol);

/// The cubin of one kernel; fills its `resources`. Spills, local memory and complaints are errors.
Status assemble(const Assembler &assembler, DeviceKernel &kernel);

} // namespace dsv3::codegen
