// LLVM IR to text or machine code, in process: what the x86-64 and the NVPTX back end share.
#pragma once

#include "runtime/core/Result.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/CodeGen.h"
#include "llvm/Target/TargetMachine.h"

#include <memory>
#include <string>

namespace dsv3::codegen {

/// A back end of LLVM, which the caller has initialised. Multiplies and adds are fused only where the IR says so: the same
/// source gives the same roundings everywhere. Internal error: LLVM lacks the back end or the processor.
Result<std::unique_ptr<llvm::TargetMachine>> createMachine(llvm::StringRef triple, llvm::StringRef cpu, llvm::StringRef features);

/// Gives `module` the machine's triple and layout, and a source name without paths, so that rebuilds are byte-identical.
void setMachine(llvm::Module &module, const llvm::TargetMachine &machine);

/// Verifies `module`, runs O3 on it. No library stands behind the code, so no pass may introduce a call to one.
/// Internal error: `what` "is not valid LLVM IR", with LLVM's message.
Status optimise(llvm::Module &module, llvm::TargetMachine &machine, const std::string &what);

/// Assembly or an object. Internal error: the back end cannot write the kind.
Result<std::string> writeCode(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind);

} // namespace dsv3::codegen
