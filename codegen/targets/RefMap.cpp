#include "codegen/targets/RefMap.h"

using namespace mlir;

namespace dsv3::codegen {

static unsigned references(Value operand, size_t stepFields) {
  if (isa<ir::SeqType>(operand.getType()))
    return unsigned(stepFields);
  auto tensor = dyn_cast<RankedTensorType>(operand.getType());
  bool packed = tensor && isa_and_nonnull<kernel::PackedAttr>(tensor.getEncoding());
  return packed ? unsigned(kernel::getPackedParts(tensor).size()) : 1;
}

RefMap::RefMap(Operation *op, size_t stepFields) {
  unsigned next = 0;
  for (Value operand : op->getOperands()) {
    first.push_back(next);
    next += references(operand, stepFields);
  }
  first.push_back(next);
}

} // namespace dsv3::codegen
