// LLVM IR at O3 and PTX, in process.
#include "codegen/emit/Cubin.h"

#include "codegen/emit/Ptxas.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Triple.h"

#include <atomic>
#include <mutex>
#include <thread>

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr llvm::StringLiteral kChip = "sm_90a", kFeatures = "+ptx87";

Result<std::unique_ptr<llvm::TargetMachine>> createMachine() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return internalError("LLVM has no NVPTX back end: " + error);
  llvm::TargetOptions options;
  // A kernel says fma where it means fma: the same source gives the same roundings in every kernel.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  std::unique_ptr<llvm::TargetMachine> machine(
      target->createTargetMachine(triple, kChip, kFeatures, options, llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
  if (!machine)
    return internalError("LLVM does not know the processor " + kChip.str());
  return machine;
}

llvm::TargetLibraryInfoImpl noLibrary(const llvm::Triple &triple) {
  llvm::TargetLibraryInfoImpl info(triple);
  info.disableAllFunctions();
  return info;
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

/// A function that is called and not defined would have to come from a device library; there is none.
Status checkSelfContained(const llvm::Module &module, const std::string &kernel) {
  for (const llvm::Function &f : module)
    if (f.isDeclaration() && !f.isIntrinsic() && !f.use_empty())
      return internalError("kernel " + kernel + " calls '" + f.getName().str() + "', which nothing defines: device code has no libraries");
  return {};
}

Result<std::string> writePtx(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream os(bytes);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(noLibrary(module.getTargetTriple())));
  if (machine.addPassesToEmitFile(passes, os, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return internalError("LLVM cannot write PTX");
  passes.run(module);
  return std::string(bytes.data(), bytes.size());
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
  Result<std::unique_ptr<llvm::TargetMachine>> machine = createMachine();
  if (!machine)
    return machine.error();
  module->setSourceFileName("dsv3"); // no paths, so that rebuilds are byte-identical
  module->setTargetTriple((*machine)->getTargetTriple());
  module->setDataLayout((*machine)->createDataLayout());
  hideHelpers(*module, kernel);
  std::string why;
  llvm::raw_string_ostream os(why);
  if (llvm::verifyModule(*module, &os))
    return internalError("kernel " + kernel + " is not valid LLVM IR: " + why);
  optimise(*module, **machine);
  if (Status s = checkSelfContained(*module, kernel); !s)
    return s.error();
  return writePtx(*module, **machine);
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

Status compileKernel(ModuleOp alone, const std::optional<Assembler> &assembler, bool hot, DeviceKernel &kernel) {
  Result<std::string> ptx = compileToPtx(alone, kernel.symbol);
  if (!ptx)
    return ptx.error();
  kernel.ptx = std::move(*ptx);
  return assembler ? assemble(*assembler, kernel, hot) : Status();
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
  std::vector<bool> hot;
  for (auto kernel : (**device).getOps<LLVM::LLVMFuncOp>()) {
    if (!isKernel(kernel))
      continue;
    code.kernels.push_back(describe(kernel));
    modules.push_back(isolate(**device, kernel));
    hot.push_back(!kernel->hasAttr("dsv3.may_spill"));
  }
  std::vector<Status> results(modules.size());
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < modules.size();)
      results[i] = compileKernel(*modules[i], *assembler, hot[i], code.kernels[i]);
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < options.jobs; ++t)
    threads.emplace_back(work);
  work();
  for (std::thread &t : threads)
    t.join();
  for (Status &s : results)
    if (!s)
      return s.error();
  return code;
}

} // namespace dsv3::codegen
