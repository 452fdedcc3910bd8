// Emitters by op.
#include "codegen/targets/KernelEmitter.h"

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

} // namespace dsv3::codegen
