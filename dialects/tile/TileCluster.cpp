// Verifier of what the blocks of a cluster do together.
#include "dialects/tile/TileDialect.h"

using namespace mlir;

namespace dsv3::tile {

LogicalResult ClusterSumOp::verify() {
  auto from = cast<RankedTensorType>(getValue().getType()), to = cast<RankedTensorType>(getResult().getType());
  BufType via = getVia().getType();
  auto isSum = [](RankedTensorType t) { return getFrag(t).getKind() == FragKind::Acc && t.getElementType().isF32(); };
  if (!isSum(from) || !isSum(to))
    return emitOpError() << "T38: expected f32 fragments of kind acc, got " << from << " and " << to;
  if (via.getShape() != from.getShape() || !via.getElement().isF32() || via.getLayout().getKind() != SmemKind::Frag ||
      FragKind(via.getLayout().getA()) != FragKind::Acc)
    return emitOpError() << "T38: expected a buffer of f32 in the register order of " << from << ", got " << via;
  auto kernel = (*this)->getParentOfType<KernelOp>();
  int64_t cluster = kernel ? kernel.getCluster() : 1;
  if (cluster < 2)
    return emitOpError() << "T38: expected a kernel with a cluster of 2 or more, got " << cluster;
  if (to.getDimSize(1) * cluster < from.getDimSize(1))
    return emitOpError() << "T38: expected columns for " << cluster << " blocks that cover " << from.getDimSize(1) << ", got " << to.getDimSize(1);
  return success();
}

} // namespace dsv3::tile
