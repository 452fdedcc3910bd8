// Emitters by op, targets by name.
#include "codegen/targets/KernelEmitter.h"
#include "codegen/targets/Targets.h"

#include "llvm/ADT/StringMap.h"

using namespace mlir;

namespace dsv3::codegen {

kernel::PackedAttr KernelEmitter::weightEncoding(Operation *, unsigned, RankedTensorType) const { return {}; }

void KernelRegistry::add(std::unique_ptr<KernelEmitter> emitter) { emitters.push_back(std::move(emitter)); }

const KernelEmitter *KernelRegistry::lookup(Operation *op) const {
  StringRef opName = op->getName().getStringRef();
  auto schedule = op->getAttrOfType<kernel::ScheduleAttr>("schedule");
  const KernelEmitter *first = nullptr;
  for (const std::unique_ptr<KernelEmitter> &emitter : emitters) {
    if (emitter->opName() != opName)
      continue;
    if (schedule ? emitter->name() == schedule.getEmitter() : emitter->whyIllegal(op).empty())
      return emitter.get();
    if (!schedule && !first)
      first = emitter.get(); // none may be legal: then its reason is reported
  }
  return first;
}

static llvm::StringMap<RegistryFn> &targets() {
  static llvm::StringMap<RegistryFn> table;
  return table;
}

void registerTarget(StringRef name, RegistryFn registry) { targets()[name] = registry; }

const KernelRegistry *findTarget(StringRef name) {
  auto found = targets().find(name);
  return found == targets().end() ? nullptr : &found->second();
}

std::string targetNames() {
  std::vector<std::string> names;
  for (const auto &entry : targets())
    names.push_back(entry.getKey().str());
  llvm::sort(names);
  return llvm::join(names, ", ");
}

} // namespace dsv3::codegen
