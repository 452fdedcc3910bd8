// Verifier of what the blocks of a cluster do together.
#include "dialects/tile/TileDialect.h"

using namespace mlir;

namespace dsv3::tile {

LogicalResult ClusterSumOp::verify() {
  auto from = cast<RankedTensorType>(getValue().getType()), to = cast<RankedTensorType>(getResult().getType());
  BufType via = getVia().getType();
  Type element = from.getElementType();
  auto isSum = [&](RankedTensorType t) { return getFrag(t).getKind() == FragKind::Acc && t.getElementType() == element; };
  if (!isSum(from) || !isSum(to) || (!element.isF32() && !element.isInteger(32)))
    return emitOpError() << "T38: expected fragments of kind acc, both of f32 or of i32, got " << from << " and " << to;
  auto kernel = (*this)->getParentOfType<KernelOp>();
  int64_t cluster = kernel ? kernel.getCluster() : 1;
  if (cluster < 2)
    return emitOpError() << "T38: expected a kernel with a cluster of 2 or more, got " << cluster;
  if (to.getDimSize(1) * cluster < from.getDimSize(1))
    return emitOpError() << "T38: expected columns for " << cluster << " blocks that cover " << from.getDimSize(1) << ", got " << to.getDimSize(1);
  const int64_t rows = from.getDimSize(0), cols = to.getDimSize(1) * cluster;
  if (via.getShape() != ArrayRef<int64_t>{rows, cols} || via.getElement() != element || via.getLayout().getKind() != SmemKind::Frag ||
      FragKind(via.getLayout().getA()) != FragKind::Acc)
    return emitOpError() << "T38: expected a buffer of " << rows << "x" << cols << " " << element << " in the register order of an accumulator, got " << via;
  WalkResult shared = kernel.walk([&](ClusterSumOp other) {
    auto storage = [](Value v) {
      while (auto view = v.getDefiningOp<ViewOp>())
        v = view.getSource();
      return v;
    };
    return other != *this && storage(other.getVia()) == storage(getVia()) ? WalkResult::interrupt() : WalkResult::advance();
  });
  if (shared.wasInterrupted())
    return emitOpError() << "T38: expected a buffer of its own: another sum may still be read when this one arrives";
  return success();
}

} // namespace dsv3::tile
