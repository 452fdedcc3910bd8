// When two launches may share one body.
#include "codegen/targets/RowClass.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3::codegen {

static void printOperand(llvm::raw_ostream &os, OpOperand &operand) {
  Value value = operand.get();
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  if (!tensor) {
    os << value.getType();
    return;
  }
  SmallVector<int64_t> shape(tensor.getShape());
  bool capacity = !shape.empty() && hasCapacityRows(operand);
  if (capacity)
    shape[0] = ShapedType::kDynamic;
  os << RankedTensorType::get(shape, tensor.getElementType(), tensor.getEncoding());
  // A body reads the number of its rows from the step, so the head over selected rows is not the head over all.
  if (capacity && rowScalar(value) == DSV3_SCALAR_SEQS)
    os << " rows seqs";
  if (int64_t factor = capacity ? rowFactor(value) : 1; factor != 1)
    os << " rows tokens * " << factor;
  if (value.getDefiningOp<kernel::ViewOp>()) {
    kernel::RowAccess access = kernel::getRowAccess(value);
    os << " lanes " << access.offset << " of " << access.stride;
  }
}

/// A body that may assume that source and destination are one buffer must not serve a launch with two.
static void printInPlace(llvm::raw_ostream &os, Operation *op) {
  auto launch = dyn_cast<kernel::KernelOp>(op);
  if (!launch)
    return;
  for (auto [o, out] : llvm::enumerate(launch.getOuts()))
    for (auto [i, in] : llvm::enumerate(launch.getIns()))
      if (isa<RankedTensorType>(in.getType()) && isa<RankedTensorType>(out.getType()) &&
          kernel::getRowAccess(in).base == kernel::getRowAccess(out).base)
        os << " out " << o << " in place of " << i;
}

std::string kernelKey(Operation *op) {
  std::string key;
  llvm::raw_string_ostream os(key);
  os << op->getName() << "(";
  llvm::interleaveComma(op->getOpOperands(), os, [&](OpOperand &operand) { printOperand(os, operand); });
  printInPlace(os, op);
  os << ")";
  // Both are launch data: the site is a name, the layer a constant behind the step's scalars.
  for (NamedAttribute attr : op->getAttrs())
    if (attr.getName() != "site" && attr.getName() != "layer")
      os << " " << attr.getName().getValue() << " = " << attr.getValue();
  return key;
}

} // namespace dsv3::codegen
