// Which number of the step counts the rows of a value.
#include "codegen/targets/RowClass.h"

using namespace mlir;

namespace dsv3::codegen {

bool isWeight(Value value) { return isa_and_nonnull<kernel::UseOp, ir::UseOp>(value.getDefiningOp()); }

bool hasCapacityRows(OpOperand &operand) {
  Value value = operand.get();
  if (!isa<RankedTensorType>(value.getType()) || isWeight(value))
    return false;
  // offsets [E + 1]: the first destination and result of dispatch
  if (isa<kernel::DispatchOp>(operand.getOwner()) && operand.getOperandNumber() == 1)
    return false;
  auto dispatch = value.getDefiningOp<kernel::DispatchOp>();
  return !dispatch || value != dispatch.getOffsets();
}

/// The launch that writes a destination, or null.
static kernel::KernelOp writer(Value destination) {
  for (Operation *user : destination.getUsers())
    if (auto launch = dyn_cast<kernel::KernelOp>(user); launch && llvm::is_contained(launch.getOuts(), destination))
      return launch;
  return {};
}

/// The input that gives a launch its rows: the first tensor that is not a weight. An empty one has no rows to give:
/// reading it is an error that `schedule` reports, and following it would go round in circles.
static Value rowInput(kernel::KernelOp launch) {
  for (Value in : launch.getIns())
    if (isa<RankedTensorType>(in.getType()) && !isWeight(in) && !in.getDefiningOp<kernel::EmptyOp>())
      return in;
  return {};
}

int rowScalar(Value value) {
  // A loop, not a recursion: the chain of residuals is as long as the model is deep.
  while (value) {
    Operation *op = value.getDefiningOp();
    if (auto view = dyn_cast_or_null<kernel::ViewOp>(op)) {
      value = view.getSource();
      continue;
    }
    kernel::KernelOp launch = isa_and_nonnull<kernel::EmptyOp>(op) ? writer(value) : dyn_cast_or_null<kernel::KernelOp>(op);
    if (isa_and_nonnull<kernel::SelectRowsOp>(launch.getOperation()))
      return DSV3_SCALAR_SEQS;
    value = launch ? rowInput(launch) : Value();
  }
  return DSV3_SCALAR_TOKENS;
}

/// Work lists and partial results of attention: their rows are counted by nothing that a body may read from its types.
static bool isPlanned(Value value) {
  Operation *op = value.getDefiningOp();
  kernel::KernelOp launch = isa_and_nonnull<kernel::EmptyOp>(op) ? writer(value) : dyn_cast_or_null<kernel::KernelOp>(op);
  return isa_and_nonnull<kernel::AttnPlanOp, kernel::AttnSplitOp>(launch.getOperation());
}

int64_t rowFactor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  Operation *at = value.getDefiningOp() ? value.getDefiningOp() : value.getParentBlock()->getParentOp();
  auto program = isa<ir::ProgramOp>(at) ? cast<ir::ProgramOp>(at) : at->getParentOfType<ir::ProgramOp>();
  if (!type || type.getRank() > 2 || !program || !program.getTokens() || isPlanned(value) || rowScalar(value) == DSV3_SCALAR_SEQS)
    return 1;
  int64_t rows = type.getDimSize(0), tokens = *program.getTokens();
  return rows > tokens && rows % tokens == 0 ? rows / tokens : 1;
}

} // namespace dsv3::codegen
