// Targets by name.
#include "codegen/targets/Targets.h"

#include "mlir/IR/Builders.h"

#include <map>

using namespace mlir;

namespace dsv3::codegen {

const GpuTarget kSm90a{"sm_90a", 132, 232448, {"tma", "wgmma", "setmaxnreg", "cluster", "fp8"}};

namespace {
struct Entry {
  RegistryFn registry = nullptr;
  const GpuTarget *gpu = nullptr;
  DialectsFn dialects = nullptr;
  LowerFn lower = nullptr;
};

std::map<std::string, Entry> &targets() {
  static std::map<std::string, Entry> table;
  return table;
}
} // namespace

void registerTarget(StringRef name, RegistryFn registry) { targets()[name.str()] = {registry}; }
void registerTarget(const GpuTarget &gpu, RegistryFn registry, DialectsFn dialects, LowerFn lower) {
  targets()[gpu.name.str()] = {registry, &gpu, dialects, lower};
}

bool isTarget(StringRef name) { return targets().count(name.str()); }

void insertTargetDialects(DialectRegistry &dialects) {
  for (const auto &entry : targets())
    if (entry.second.dialects)
      entry.second.dialects(dialects);
}

std::string targetNames() {
  std::string names;
  for (const auto &entry : targets())
    names += (names.empty() ? "" : ", ") + entry.first;
  return names;
}

const GpuTarget *findGpu(StringRef name) {
  auto found = targets().find(name.str());
  return found == targets().end() ? nullptr : found->second.gpu;
}

Attribute targetAttr(MLIRContext *context, StringRef name, ArrayRef<std::string> variants) {
  Builder builder(context);
  SmallVector<StringAttr> names;
  if (const GpuTarget *gpu = findGpu(name)) {
    for (StringRef capability : gpu->has)
      names.push_back(builder.getStringAttr(capability));
    return target::GpuAttr::get(context, name, gpu->smCount, gpu->smem, names);
  }
  for (const std::string &variant : variants)
    names.push_back(builder.getStringAttr(variant));
  for (const CpuVariant &variant : cpuVariants())
    if (variants.empty())
      names.push_back(builder.getStringAttr(variant.name));
  return target::CpuAttr::get(context, name, names);
}

FailureOr<TargetChoice> chooseTarget(ModuleOp module, StringRef option) {
  Attribute attr = module->getAttr(kTargetAttr);
  TargetChoice choice;
  if (auto cpu = dyn_cast_or_null<target::CpuAttr>(attr))
    choice.name = cpu.getArch().str();
  else if (auto gpu = dyn_cast_or_null<target::GpuAttr>(attr))
    choice.name = gpu.getArch().str();
  else
    choice.name = kDefaultTarget.str();
  if (!option.empty() && option != choice.name) {
    choice.name = option.str();
    attr = {};
  }
  auto found = targets().find(choice.name);
  if (found == targets().end())
    return module.emitError() << "expected a target (" << targetNames() << "), got '" << choice.name << "'";
  choice.registry = &found->second.registry();
  choice.lower = found->second.lower;
  choice.attr = attr ? attr : targetAttr(module.getContext(), choice.name);
  choice.gpu = dyn_cast<target::GpuAttr>(choice.attr);
  return choice;
}

} // namespace dsv3::codegen
