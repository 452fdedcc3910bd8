#include "codegen/sm90/EmitterBase.h"

using namespace mlir;

namespace dsv3::codegen {

kernel::NumericsAttr Sm90Emitter::numerics(Operation *op) const {
  Type f32 = Float32Type::get(op->getContext());
  return kernel::NumericsAttr::get(op->getContext(), f32, f32, "k_ascending", 0);
}

kernel::ScheduleAttr Sm90Emitter::schedule(Operation *op) const {
  return kernel::ScheduleAttr::get(op->getContext(), emitterName, config(op));
}

DictionaryAttr Sm90Emitter::config(Operation *op) const { return DictionaryAttr::get(op->getContext()); }

DeviceCost Sm90Emitter::cost(Operation *op) const {
  DeviceCost cost;
  for (Value v : op->getOperands())
    if (auto type = dyn_cast<RankedTensorType>(v.getType()))
      cost.bytes += tensorBytes(type);
  return cost;
}

double Sm90Emitter::tensorBytes(RankedTensorType type) {
  if (isa_and_nonnull<kernel::PackedAttr>(type.getEncoding()))
    return double(kernel::getPackedBytes(type));
  return double(kernel::getValueBytes(type));
}

DeviceParam Sm90Emitter::address(Operation *op, unsigned operand) const {
  kernel::RowAccess access = kernel::getRowAccess(op->getOperand(operand));
  int64_t bytes = elemBytes(tensorType(op->getOperand(operand)).getElementType());
  return {DeviceParam::Pointer{refs(op).of(operand), access.offset * bytes}};
}

int64_t Sm90Emitter::param(Operation *op, StringRef name) {
  auto schedule = op->getAttrOfType<kernel::ScheduleAttr>("schedule");
  return schedule.getConfig().getAs<IntegerAttr>(name).getInt();
}

DictionaryAttr Sm90Emitter::dictionary(Operation *op, ArrayRef<std::pair<StringRef, int64_t>> entries) {
  Builder b(op->getContext());
  SmallVector<NamedAttribute> attrs;
  for (auto [name, value] : entries)
    attrs.push_back(b.getNamedAttr(name, b.getI64IntegerAttr(value)));
  return b.getDictionaryAttr(attrs);
}

} // namespace dsv3::codegen
