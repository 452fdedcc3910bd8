#include "codegen/emit/Object.h"

#include "codegen/emit/FirstError.h"
#include "codegen/emit/LlvmModule.h"
#include "codegen/emit/RtToLlvm.h"

#include "mlir/Conversion/Passes.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/TargetSelect.h"

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
  FirstError error(module.getContext());
  if (failed(pm.run(module)))
    return internalError("kernels do not lower to the LLVM dialect: " + error.message());
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

} // namespace

/// Adds the host program to what is in `module`, and makes an object of both.
static Result<std::string> compileWith(llvm::Module &module, rt::ModuleOp host, const CpuVariant &variant, KernelsIn kernels) {
  initialiseTarget();
  Result<std::unique_ptr<llvm::TargetMachine>> machine = createMachine("x86_64-unknown-linux-gnu", variant.cpu, variant.features);
  if (!machine)
    return machine.error();
  setMachine(module, **machine);
  module.setPICLevel(llvm::PICLevel::BigPIC);
  if (Status s = addHostProgram(host, variant.name, kernels, module); !s)
    return s.error();
  setAttributes(module, variant);
  if (Status s = optimise(module, **machine, "code of variant " + variant.name.str()); !s)
    return s.error();
  return writeCode(module, **machine, llvm::CodeGenFileType::ObjectFile);
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
