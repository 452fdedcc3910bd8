// LLVM IR at O3 and PTX, in process.
#include "codegen/emit/Cubin.h"

#include "codegen/emit/LlvmModule.h"
#include "codegen/emit/Parallel.h"
#include "codegen/emit/Ptxas.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr llvm::StringLiteral kChip = "sm_90a", kFeatures = "+ptx87";

void initialiseTarget() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

/// A function that is called and not defined would have to come from a device library; there is none.
Status checkSelfContained(const llvm::Module &module, const std::string &kernel) {
  for (const llvm::Function &f : module)
    if (f.isDeclaration() && !f.isIntrinsic() && !f.use_empty())
      return internalError("kernel " + kernel + " calls '" + f.getName().str() + "', which nothing defines: device code has no libraries");
  return {};
}

bool isKernel(Operation *op) { return isa<LLVM::LLVMFuncOp>(op) && op->hasAttr("nvvm.kernel"); }

/// A module with one kernel, and all that is not a kernel.
OwningOpRef<ModuleOp> isolate(ModuleOp module, LLVM::LLVMFuncOp kernel) {
  OwningOpRef<ModuleOp> alone = ModuleOp::create(kernel.getLoc());
  OpBuilder builder = OpBuilder::atBlockBegin(alone->getBody());
  for (Operation &op : *module.getBody())
    if (&op == kernel || !isKernel(&op))
      builder.clone(op);
  return alone;
}

/// Helpers are inlined and dropped; what stays visible is the kernel.
void hideHelpers(llvm::Module &module, llvm::StringRef kernel) {
  for (llvm::Function &f : module) {
    if (f.isDeclaration())
      continue;
    f.addFnAttr("no-builtins");
    f.addFnAttr(llvm::Attribute::NoUnwind);
    if (f.getName() == kernel)
      continue;
    f.setLinkage(llvm::GlobalValue::InternalLinkage);
    f.addFnAttr(llvm::Attribute::AlwaysInline);
  }
}

Result<std::string> compileToPtx(ModuleOp alone, const std::string &kernel) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> module = translateModuleToLLVMIR(alone, context, "dsv3");
  if (!module)
    return internalError("kernel " + kernel + " does not translate to LLVM IR");
  initialiseTarget();
  Result<std::unique_ptr<llvm::TargetMachine>> machine = createMachine("nvptx64-nvidia-cuda", kChip, kFeatures);
  if (!machine)
    return machine.error();
  setMachine(*module, **machine);
  hideHelpers(*module, kernel);
  if (Status s = optimise(*module, **machine, "kernel " + kernel); !s)
    return s.error();
  if (Status s = checkSelfContained(*module, kernel); !s)
    return s.error();
  return writeCode(*module, **machine, llvm::CodeGenFileType::AssemblyFile);
}

std::vector<SharedAccess> accessesOf(ArrayAttr list) {
  std::vector<SharedAccess> out;
  for (auto entry : list.getAsRange<DictionaryAttr>()) {
    auto number = [&](StringRef name) { return entry.getAs<IntegerAttr>(name).getInt(); };
    out.push_back({entry.getAs<StringAttr>("op").str(), entry.getAs<StringAttr>("instruction").str(), number("count"), number("degree"), number("lost")});
  }
  return out;
}

DeviceKernel describe(LLVM::LLVMFuncOp kernel) {
  DeviceKernel result;
  result.symbol = kernel.getSymName().str();
  if (auto threads = kernel->getAttrOfType<DenseI32ArrayAttr>("nvvm.reqntid")) {
    result.threads = 1;
    for (int32_t n : threads.asArrayRef())
      result.threads *= n;
  }
  if (auto shared = kernel->getAttrOfType<IntegerAttr>("dsv3.smem"))
    result.dynamicShared = shared.getInt();
  if (auto stages = kernel->getAttrOfType<IntegerAttr>("dsv3.stages"))
    result.stages = stages.getInt();
  if (auto accesses = kernel->getAttrOfType<ArrayAttr>("dsv3.accesses"))
    result.accesses = accessesOf(accesses);
  return result;
}

Status compileKernel(ModuleOp alone, const std::optional<Assembler> &assembler, DeviceKernel &kernel) {
  Result<std::string> ptx = compileToPtx(alone, kernel.symbol);
  if (!ptx)
    return ptx.error();
  kernel.ptx = std::move(*ptx);
  return assembler ? assemble(*assembler, kernel) : Status();
}

} // namespace

Result<DeviceCode> emitDevice(Operation *module, const DeviceOptions &options) {
  Result<OwningOpRef<ModuleOp>> device = lowerDevice(module);
  if (!device)
    return device.error();
  Result<std::optional<Assembler>> assembler = findAssembler(options.ptxas);
  if (!assembler)
    return assembler.error();
  DeviceCode code;
  code.assembler = *assembler ? (*assembler)->version : "";
  std::vector<OwningOpRef<ModuleOp>> modules;
  for (auto kernel : (**device).getOps<LLVM::LLVMFuncOp>()) {
    if (!isKernel(kernel))
      continue;
    code.kernels.push_back(describe(kernel));
    modules.push_back(isolate(**device, kernel));
  }
  auto compile = [&](size_t i) { return compileKernel(*modules[i], *assembler, code.kernels[i]); };
  if (Status s = runAll(modules.size(), options.jobs, compile); !s)
    return s.error();
  return code;
}

} // namespace dsv3::codegen
