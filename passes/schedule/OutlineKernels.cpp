// --dsv3-outline-kernels
#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/Targets.h"
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

/// Where bodies go: a module per code variant of a CPU, or one module for a device.
class Bodies {
public:
  virtual ~Bodies() = default;
  /// Writes the body of `launch` under `symbol` wherever the target wants one.
  virtual LogicalResult add(kernel::KernelOp launch, const codegen::KernelEmitter &emitter, StringAttr symbol) = 0;
};

class CpuBodies : public Bodies {
public:
  /// Null with a diagnostic on the module when a name is no variant's.
  static std::unique_ptr<Bodies> create(ModuleOp module, target::CpuAttr cpu, ArrayRef<std::string> only) {
    SmallVector<std::string> names(only);
    for (StringAttr name : cpu.getVariants())
      if (only.empty())
        names.push_back(name.str());
    auto bodies = std::make_unique<CpuBodies>();
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    for (const std::string &name : names) {
      const codegen::CpuVariant *variant = codegen::findCpuVariant(name);
      if (!variant) {
        module.emitError() << "expected the name of a code variant, got '" << name << "'";
        return {};
      }
      bodies->modules.push_back({variant, ModuleOp::create(builder, module.getLoc(), name)});
    }
    return bodies;
  }

  LogicalResult add(kernel::KernelOp launch, const codegen::KernelEmitter &emitter, StringAttr symbol) override {
    for (auto &[variant, module] : modules)
      if (failed(emit(launch, *emitter.asCpu(), *variant, module, symbol)))
        return failure();
    return success();
  }

private:
  static LogicalResult emit(kernel::KernelOp launch, const codegen::CpuEmitter &emitter, const codegen::CpuVariant &variant,
                            ModuleOp module, StringAttr symbol) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    MLIRContext *context = launch->getContext();
    Type ptr = LLVM::LLVMPointerType::get(context), i64 = builder.getI64Type();
    auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), {ptr, ptr, i64, i64, ptr});
    auto fn = LLVM::LLVMFuncOp::create(builder, launch.getLoc(), symbol, type);
    if (failed(emitter.emit(launch, fn, variant)))
      return launch->emitOpError() << "was not emitted by " << emitter.name() << " for " << variant.name;
    if (fn.isExternal())
      return launch->emitOpError() << "got no body from " << emitter.name() << " for " << variant.name;
    return success();
  }

  SmallVector<std::pair<const codegen::CpuVariant *, ModuleOp>> modules;
};

class DeviceBodies : public Bodies {
public:
  DeviceBodies(ModuleOp module, StringRef target) {
    OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
    bodies = gpu::GPUModuleOp::create(builder, module.getLoc(), symbolOf(target));
  }

  LogicalResult add(kernel::KernelOp launch, const codegen::KernelEmitter &emitter, StringAttr symbol) override {
    OpBuilder builder = OpBuilder::atBlockEnd(bodies.getBody());
    if (failed(emitter.asDevice()->emit(launch, symbol, builder)))
      return launch->emitOpError() << "was not emitted by " << emitter.name();
    if (!hasDeviceKernel(bodies, symbol))
      return launch->emitOpError() << "got no kernel @" << symbol.getValue() << " from " << emitter.name();
    return success();
  }

private:
  gpu::GPUModuleOp bodies;
};

struct OutlineKernelsPass : impl::OutlineKernelsPassBase<OutlineKernelsPass> {
  using OutlineKernelsPassBase::OutlineKernelsPassBase;

  void getDependentDialects(DialectRegistry &dialects) const override {
    OutlineKernelsPassBase::getDependentDialects(dialects);
    codegen::insertTargetDialects(dialects);
  }

  void runOnOperation() override {
    FailureOr<codegen::TargetChoice> found = codegen::chooseTarget(getOperation(), target);
    if (failed(found))
      return signalPassFailure();
    choice = *found;
    if (choice.gpu)
      bodies = std::make_shared<DeviceBodies>(getOperation(), choice.name);
    else
      bodies = CpuBodies::create(getOperation(), cast<target::CpuAttr>(choice.attr), SmallVector<std::string>(variants.begin(), variants.end()));
    if (!bodies)
      return signalPassFailure();
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      for (Operation &op : program.getBody().front())
        if (auto launch = dyn_cast<kernel::KernelOp>(op); launch && failed(outline(launch)))
          return signalPassFailure();
  }

private:
  LogicalResult outline(kernel::KernelOp launch) {
    // IR that skipped stages must not reach the emitters, which rely on what those guarantee.
    if (!launch.getKernelNumerics() || !launch.getKernelSchedule())
      return launch->emitOpError() << "expected numerics and a schedule (stage bind) before kernels are outlined";
    for (Value operand : launch->getOperands())
      if (auto use = operand.getDefiningOp<ir::UseOp>())
        return launch->emitOpError() << "expected packed weights (stage pack), got " << use.getWeightAttr();
    const codegen::KernelEmitter *emitter = choice.registry->lookup(launch);
    if (!emitter || bool(emitter->asDevice()) != bool(choice.gpu))
      return launch->emitOpError() << "has no emitter for target " << choice.name;
    if (std::string why = emitter->whyIllegal(launch); !why.empty())
      return launch->emitOpError() << "cannot be emitted by " << emitter->name() << ": " << why;
    auto [known, isNew] = symbols.try_emplace(codegen::kernelKey(launch));
    if (isNew) {
      std::string stem = stemOf(launch);
      known->second = StringAttr::get(&getContext(), stem + "_" + Twine(stems[stem]++));
      if (failed(bodies->add(launch, *emitter, known->second)))
        return failure();
    }
    launch->setAttr(kKernelSymbolAttr, FlatSymbolRefAttr::get(known->second));
    return success();
  }

  codegen::TargetChoice choice;
  std::shared_ptr<Bodies> bodies; // shared, because passes are copied
  llvm::StringMap<StringAttr> symbols; // by key
  llvm::StringMap<int> stems;
};
} // namespace

std::string symbolOf(StringRef target) {
  std::string symbol = target.str();
  std::replace(symbol.begin(), symbol.end(), '-', '_');
  return symbol;
}

bool hasDeviceKernel(gpu::GPUModuleOp module, StringAttr symbol) {
  Operation *body = SymbolTable::lookupSymbolIn(module, symbol);
  if (auto fn = dyn_cast_or_null<LLVM::LLVMFuncOp>(body))
    return !fn.isExternal() && fn->hasAttr("nvvm.kernel");
  return body && llvm::any_of(body->getRegions(), [](Region &r) { return !r.empty(); }); // a tile.kernel
}

/// The modules that must hold every kernel: their names and whether they have one.
static LogicalResult verifyBodies(ModuleOp module, kernel::KernelOp launch, StringAttr symbol) {
  for (ModuleOp variant : module.getBody()->getOps<ModuleOp>()) {
    auto fn = symbol ? variant.lookupSymbol<LLVM::LLVMFuncOp>(symbol) : nullptr;
    if (!fn || fn.isExternal())
      return launch->emitOpError() << "expected a kernel of its own in module @" << variant.getSymName().value_or("?");
  }
  for (auto device : module.getBody()->getOps<gpu::GPUModuleOp>())
    if (!symbol || !hasDeviceKernel(device, symbol))
      return launch->emitOpError() << "expected a kernel of its own in gpu.module @" << device.getName();
  return success();
}

LogicalResult verifyTile(ModuleOp module, const CompileOptions &) {
  if (module.getBody()->getOps<ModuleOp>().empty() && module.getBody()->getOps<gpu::GPUModuleOp>().empty())
    return module.emitError("expected a module per code variant or a gpu.module, got none");
  auto walk = module.walk([&](kernel::KernelOp launch) {
    auto symbol = launch->getAttrOfType<FlatSymbolRefAttr>(kKernelSymbolAttr);
    return WalkResult(verifyBodies(module, launch, symbol ? symbol.getAttr() : StringAttr()));
  });
  return failure(walk.wasInterrupted());
}

} // namespace dsv3
