#include "codegen/emit/Object.h"

#include "codegen/emit/RtToLlvm.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <mutex>

using namespace mlir;

namespace dsv3::codegen {

Status lowerKernels(ModuleOp module) {
  PassManager pm(module.getContext());
  OpPassManager &kernels = pm.nest<ModuleOp>();
  kernels.addPass(createCanonicalizerPass());
  kernels.addPass(createCSEPass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createConvertVectorToLLVMPass());
  kernels.addPass(createConvertMathToLLVMPass());
  kernels.addPass(createArithToLLVMConversionPass());
  kernels.addPass(createConvertControlFlowToLLVMPass());
  kernels.addPass(createReconcileUnrealizedCastsPass());
  std::string first;
  std::mutex mutex; // nested pipelines run on several threads
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &d) -> LogicalResult {
    std::lock_guard<std::mutex> lock(mutex);
    if (d.getSeverity() != DiagnosticSeverity::Error)
      return failure();
    if (first.empty())
      first = d.str();
    return success();
  });
  if (failed(pm.run(module)))
    return internalError("kernels do not lower to the LLVM dialect: " + (first.empty() ? "no message" : first));
  return {};
}

namespace {

void initialiseTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
  });
}

Result<std::unique_ptr<llvm::TargetMachine>> createMachine(const CpuVariant &variant) {
  initialiseTarget();
  llvm::Triple triple("x86_64-unknown-linux-gnu");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return internalError("LLVM has no x86-64 back end: " + error);
  llvm::TargetOptions options;
  // Fusing a multiply and an add where the kernel asked for two roundings would change bits between variants.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(target->createTargetMachine(triple, variant.cpu, variant.features, options, llvm::Reloc::PIC_,
                                                                          std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return internalError("LLVM does not know the processor " + variant.cpu.str());
  return machine;
}

/// No library stands behind the code, so no pass may introduce a call to one.
llvm::TargetLibraryInfoImpl noLibrary(const llvm::Triple &triple) {
  llvm::TargetLibraryInfoImpl info(triple);
  info.disableAllFunctions();
  return info;
}

void setAttributes(llvm::Module &module, const CpuVariant &variant) {
  for (llvm::Function &f : module) {
    if (f.isDeclaration())
      continue;
    f.addFnAttr("no-builtins");
    f.addFnAttr("target-cpu", variant.cpu);
    f.addFnAttr("target-features", variant.features);
    f.addFnAttr("prefer-vector-width", std::to_string(variant.vectorBits));
    f.addFnAttr("min-legal-vector-width", std::to_string(variant.vectorBits));
    f.addFnAttr(llvm::Attribute::NoUnwind);
  }
}

void optimise(llvm::Module &module, llvm::TargetMachine &machine) {
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
}

Result<std::string> assemble(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(noLibrary(module.getTargetTriple())));
  if (machine.addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::ObjectFile))
    return internalError("LLVM cannot write x86-64 objects");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
}
} // namespace

/// Adds the host program to what is in `module`, and makes an object of both.
static Result<std::string> compileWith(llvm::Module &module, rt::ModuleOp host, const CpuVariant &variant, KernelsIn kernels) {
  Result<std::unique_ptr<llvm::TargetMachine>> machine = createMachine(variant);
  if (!machine)
    return machine.error();
  module.setSourceFileName("dsv3"); // stands in the object: no paths, so that rebuilds are byte-identical
  module.setTargetTriple((*machine)->getTargetTriple());
  module.setDataLayout((*machine)->createDataLayout());
  module.setPICLevel(llvm::PICLevel::BigPIC);
  if (Status s = addHostProgram(host, variant.name, kernels, module); !s)
    return s.error();
  setAttributes(module, variant);
  std::string why;
  llvm::raw_string_ostream os(why);
  if (llvm::verifyModule(module, &os))
    return internalError("code of variant " + variant.name.str() + " is not valid LLVM IR: " + why);
  optimise(module, **machine);
  return assemble(module, **machine);
}

Result<std::string> compileVariant(ModuleOp variantModule, rt::ModuleOp host, const CpuVariant &variant) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(variantModule, context, "dsv3");
  if (!module)
    return internalError("kernels of variant " + variant.name.str() + " do not translate to LLVM IR");
  return compileWith(*module, host, variant, KernelsIn::Module);
}

Result<std::string> compileHost(rt::ModuleOp host) {
  static constexpr CpuVariant baseline{"host", "x86-64", "", 128, 16, /*bf16Dot=*/false, /*int8Dot=*/false, /*bf16Tile=*/false};
  llvm::LLVMContext context;
  llvm::Module module("dsv3", context);
  return compileWith(module, host, baseline, KernelsIn::DeviceCode);
}

} // namespace dsv3::codegen
