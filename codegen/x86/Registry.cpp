// The x86-64 emitters, and what they share.
#include "codegen/x86/EmitterBase.h"
#include "codegen/x86/PanelGemm.h"

using namespace mlir;

namespace dsv3::codegen {

const KernelRegistry &x86Registry() {
  static const KernelRegistry registry = [] {
    KernelRegistry r;
    addGemmEmitters(r);
    addRowEmitters(r);
    addCacheEmitters(r);
    addAttentionEmitters(r);
    addExpertEmitters(r);
    addQuantEmitters(r);
    r.checkStored(whyNotPanels);
    return r;
  }();
  return registry;
}

kernel::NumericsAttr X86Emitter::numerics(Operation *op) const {
  Type f32 = Float32Type::get(op->getContext());
  return kernel::NumericsAttr::get(op->getContext(), f32, f32, "k_ascending", 0);
}

kernel::ScheduleAttr X86Emitter::schedule(Operation *op) const {
  return kernel::ScheduleAttr::get(op->getContext(), emitterName, config(op));
}

DictionaryAttr X86Emitter::config(Operation *op) const { return DictionaryAttr::get(op->getContext()); }

int64_t X86Emitter::param(Operation *op, StringRef name) {
  auto schedule = op->getAttrOfType<kernel::ScheduleAttr>("schedule");
  return schedule.getConfig().getAs<IntegerAttr>(name).getInt();
}

LogicalResult X86Emitter::emit(Operation *op, Operation *fn, const CpuVariant &variant) const {
  KernelBuilder k(cast<LLVM::LLVMFuncOp>(fn), variant);
  if (failed(body(op, k, RefMap(op, signature(op).stepFields.size()))))
    return failure();
  k.finish();
  return success();
}

RowOperand X86Emitter::rows(KernelBuilder &k, const RefMap &refs, Operation *op, unsigned operand) {
  kernel::RowAccess access = kernel::getRowAccess(op->getOperand(operand));
  RankedTensorType type = tensorType(op->getOperand(operand));
  int64_t bytes = elemBytes(type.getElementType()), last = access.stride * bytes;
  RowOperand r;
  r.base = k.at(k.buf(refs.of(operand)), access.offset * bytes);
  r.elem = type.getElementType();
  r.inner = type.getRank() == 3 ? last : 0;
  r.stride = last * innerRows(type);
  return r;
}

Value X86Emitter::rowCount(KernelBuilder &k, Value tensor) { return k.scalar(unsigned(rowScalar(tensor))); }

} // namespace dsv3::codegen
