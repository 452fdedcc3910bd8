// --dsv3-outline-kernels
#include "codegen/targets/Targets.h"
#include "passes/Pipeline.h"
#include "passes/schedule/SchedulePasses.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_OUTLINEKERNELSPASS
#include "passes/schedule/SchedulePasses.h.inc"

namespace {

std::string typeName(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return StringRef(text).lower();
}

/// "gemm_bf16_f8e4m3fn_n256_k256": enough to recognise a kernel in a profile. Not unique.
std::string stemOf(kernel::KernelOp launch) {
  std::string stem = launch->getName().stripDialect().str();
  SmallVector<std::string> elems;
  RankedTensorType weight;
  auto addElem = [&](Type type) {
    std::string name = typeName(type);
    if (!llvm::is_contained(elems, name))
      elems.push_back(name);
  };
  for (Value v : launch->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type)
      continue;
    if (!v.getDefiningOp<kernel::UseOp>()) {
      addElem(type.getElementType());
      continue;
    }
    addElem(kernel::getPackedParts(type).front().elem);
    if (!weight || type.getNumElements() > weight.getNumElements())
      weight = type;
  }
  for (const std::string &e : elems)
    stem += "_" + e;
  if (weight && weight.getRank() >= 2)
    stem += "_n" + std::to_string(weight.getShape()[weight.getRank() - 2]) + "_k" + std::to_string(weight.getShape().back());
  return stem;
}

struct OutlineKernelsPass : impl::OutlineKernelsPassBase<OutlineKernelsPass> {
  using OutlineKernelsPassBase::OutlineKernelsPassBase;

  void runOnOperation() override {
    registry = codegen::findTarget(codegen::kDefaultTarget);
    if (!registry) {
      getOperation().emitError() << "expected a registered target " << codegen::kDefaultTarget << ", got " << codegen::targetNames();
      return signalPassFailure();
    }
    if (failed(makeVariantModules()))
      return signalPassFailure();
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      for (Operation &op : program.getBody().front())
        if (auto launch = dyn_cast<kernel::KernelOp>(op); launch && failed(outline(launch)))
          return signalPassFailure();
  }

private:
  LogicalResult makeVariantModules() {
    SmallVector<std::string> names(variants.begin(), variants.end());
    if (auto target = getOperation()->getAttrOfType<target::CpuAttr>(kTargetAttr); target && names.empty())
      for (StringAttr name : target.getVariants())
        names.push_back(name.str());
    if (names.empty())
      for (const codegen::CpuVariant &v : codegen::cpuVariants())
        names.push_back(v.name.str());
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    for (const std::string &name : names) {
      const codegen::CpuVariant *variant = codegen::findCpuVariant(name);
      if (!variant)
        return getOperation().emitError() << "expected the name of a code variant, got '" << name << "'";
      modules.push_back({variant, ModuleOp::create(builder, getOperation().getLoc(), name)});
    }
    return success();
  }

  LogicalResult outline(kernel::KernelOp launch) {
    // IR that skipped stages must not reach the emitters, which rely on what those guarantee.
    if (!launch.getKernelNumerics() || !launch.getKernelSchedule())
      return launch->emitOpError() << "expected numerics and a schedule (stage bind) before kernels are outlined";
    for (Value operand : launch->getOperands())
      if (auto use = operand.getDefiningOp<ir::UseOp>())
        return launch->emitOpError() << "expected packed weights (stage pack), got " << use.getWeightAttr();
    const codegen::KernelEmitter *emitter = registry->lookup(launch);
    const codegen::CpuEmitter *cpu = emitter ? emitter->asCpu() : nullptr;
    if (!cpu)
      return launch->emitOpError() << "has no emitter for target " << codegen::kDefaultTarget;
    if (std::string why = emitter->whyIllegal(launch); !why.empty())
      return launch->emitOpError() << "cannot be emitted by " << emitter->name() << ": " << why;
    auto [known, isNew] = symbols.try_emplace(codegen::kernelKey(launch));
    if (isNew) {
      std::string stem = stemOf(launch);
      known->second = StringAttr::get(&getContext(), stem + "_" + Twine(stems[stem]++));
      for (auto &[variant, module] : modules)
        if (failed(emit(launch, *cpu, *variant, module, known->second)))
          return failure();
    }
    launch->setAttr(kKernelSymbolAttr, FlatSymbolRefAttr::get(known->second));
    return success();
  }

  LogicalResult emit(kernel::KernelOp launch, const codegen::CpuEmitter &emitter, const codegen::CpuVariant &variant,
                     ModuleOp module, StringAttr symbol) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    Type ptr = LLVM::LLVMPointerType::get(&getContext()), i64 = builder.getI64Type();
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(&getContext()), {ptr, ptr, i64, i64, ptr});
    auto fn = LLVM::LLVMFuncOp::create(builder, launch.getLoc(), symbol, type);
    if (failed(emitter.emit(launch, fn, variant)))
      return launch->emitOpError() << "was not emitted by " << emitter.name() << " for " << variant.name;
    if (fn.isExternal())
      return launch->emitOpError() << "got no body from " << emitter.name() << " for " << variant.name;
    return success();
  }

  const codegen::KernelRegistry *registry = nullptr;
  SmallVector<std::pair<const codegen::CpuVariant *, ModuleOp>> modules;
  llvm::StringMap<StringAttr> symbols; // by key
  llvm::StringMap<int> stems;
};
} // namespace

LogicalResult verifyTile(ModuleOp module, const CompileOptions &) {
  SmallVector<ModuleOp> variants(module.getBody()->getOps<ModuleOp>());
  if (variants.empty())
    return module.emitError("expected a module per code variant, got none");
  auto walk = module.walk([&](kernel::KernelOp launch) {
    auto symbol = launch->getAttrOfType<FlatSymbolRefAttr>(kKernelSymbolAttr);
    for (ModuleOp variant : variants) {
      auto fn = symbol ? variant.lookupSymbol<LLVM::LLVMFuncOp>(symbol.getAttr()) : nullptr;
      if (fn && !fn.isExternal())
        continue;
      launch->emitOpError() << "expected a kernel of its own in module @" << variant.getSymName().value_or("?");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}

} // namespace dsv3
