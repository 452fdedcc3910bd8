#include "codegen/emit/LlvmModule.h"

#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/TargetParser/Triple.h"

namespace dsv3::codegen {

Result<std::unique_ptr<llvm::TargetMachine>> createMachine(llvm::StringRef name, llvm::StringRef cpu, llvm::StringRef features) {
  llvm::Triple triple(name);
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return internalError("LLVM has no back end for " + name.str() + ": " + error);
  llvm::TargetOptions options;
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, cpu, features, options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return internalError("LLVM does not know the processor " + cpu.str());
  return machine;
}

void setMachine(llvm::Module &module, const llvm::TargetMachine &machine) {
  module.setSourceFileName("dsv3");
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
}

static llvm::TargetLibraryInfoImpl noLibrary(const llvm::Triple &triple) {
  llvm::TargetLibraryInfoImpl info(triple);
  info.disableAllFunctions();
  return info;
}

Status optimise(llvm::Module &module, llvm::TargetMachine &machine, const std::string &what) {
  std::string why;
  llvm::raw_string_ostream os(why);
  if (llvm::verifyModule(module, &os))
    return internalError(what + " is not valid LLVM IR: " + why);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  llvm::TargetLibraryInfoImpl library = noLibrary(module.getTargetTriple());
  functions.registerPass([&] { return llvm::TargetLibraryAnalysis(library); });
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O3).run(module, modules);
  return {};
}

Result<std::string> writeCode(llvm::Module &module, llvm::TargetMachine &machine, llvm::CodeGenFileType kind) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(noLibrary(module.getTargetTriple())));
  if (machine.addPassesToEmitFile(passes, os, nullptr, kind))
    return internalError("LLVM cannot write code for " + module.getTargetTriple().str());
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}

} // namespace dsv3::codegen
