#include "dialects/rt/RtDialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include "dialects/rt/RtDialect.cpp.inc"
#include "dialects/rt/RtEnums.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "dialects/rt/RtTypes.cpp.inc"
#define GET_OP_CLASSES
#include "dialects/rt/RtOps.cpp.inc"

using namespace mlir;

namespace dsv3::rt {

void RtDialect::initialize() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/rt/RtTypes.cpp.inc"
      >();
  registerAttributes();
  addOperations<
#define GET_OP_LIST
#include "dialects/rt/RtOps.cpp.inc"
      >();
}

int64_t ModuleOp::getKvPageBytes() {
  int64_t elem = getKvElem() == Elem::BF16 ? 2 : 4, codes = getKvLatent().value_or(0), plain = int64_t(getKvRow()) - codes;
  return int64_t(getKvPage()) * (codes + plain * elem + (codes ? int64_t(sizeof(float)) : 0));
}

LogicalResult PoolOp::verify() {
  if (int64_t(getBytes()) < 0)
    return emitOpError() << "expected a size of 0 or more, got " << getBytes();
  return success();
}

LogicalResult ViewOp::verify() {
  if (int64_t(getOffset()) < 0 || int64_t(getSize()) < 0)
    return emitOpError() << "expected offset and size of 0 or more, got " << getOffset() << " and " << getSize();
  if (getOffset() % 4)
    return emitOpError() << "expected an offset that is a multiple of 4, got " << getOffset();
  auto module = (*this)->getParentOfType<ModuleOp>();
  for (auto pool : module.getBody().getOps<PoolOp>())
    if (pool.getPool() == getPool() && getPool() != Pool::Kv && getOffset() + getSize() > pool.getBytes())
      return emitOpError() << "expected bytes [" << getOffset() << ", " << getOffset() + getSize() << ") inside pool "
                           << stringifyPool(getPool()) << " of " << pool.getBytes() << " bytes";
  return success();
}

LogicalResult LaunchRangeOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>((*this)->getParentOp(), getKernelAttr());
  if (!kernel)
    return emitOpError() << "expected an rt.kernel named " << getKernelAttr();
  if (kernel.getRefs() != getBufs().size())
    return emitOpError() << "expected " << kernel.getRefs() << " buffers for " << getKernelAttr() << ", got " << getBufs().size();
  if (kernel.getConsts() != getConsts().size())
    return emitOpError() << "expected " << kernel.getConsts() << " constants for " << getKernelAttr() << ", got " << getConsts().size();
  for (int64_t w : getWrites())
    if (w < 0 || w >= int64_t(getBufs().size()))
      return emitOpError() << "expected written buffers below " << getBufs().size() << ", got " << w;
  if (int64_t(getDiv()) <= 0 || int64_t(getMul()) < 0)
    return emitOpError() << "expected a positive divisor and a factor of 0 or more";
  return success();
}

//===-- Grids -------------------------------------------------------------===//

/// A parameter and the reference it names; number has none.
static std::optional<int64_t> refOf(Attribute param) {
  if (auto ptr = dyn_cast<PtrAttr>(param))
    return ptr.getRef();
  if (auto map = dyn_cast<TensorMapAttr>(param))
    return map.getRef();
  return std::nullopt;
}

LogicalResult LaunchGridOp::verify() {
  constexpr int64_t mostX = 0x7fffffff, mostYz = 65535, mostThreads = 1024, mostCluster = 8;
  ArrayRef<int64_t> g = getGrid();
  if (g.size() != 3)
    return emitOpError() << "expected a grid of 3 numbers, got " << g.size();
  if (g[0] < 1 || g[0] > mostX || g[1] < 1 || g[1] > mostYz || g[2] < 1 || g[2] > mostYz)
    return emitOpError() << "expected a grid of 1 to " << mostX << " by 1 to " << mostYz << " by 1 to " << mostYz << " blocks, got " << g[0]
                         << ", " << g[1] << ", " << g[2];
  if (int64_t(getBlock()) < 1 || int64_t(getBlock()) > mostThreads)
    return emitOpError() << "expected 1 to " << mostThreads << " threads, got " << getBlock();
  if (int64_t(getSmem()) < 0)
    return emitOpError() << "expected shared memory of 0 bytes or more, got " << getSmem();
  if (int64_t(getCluster()) < 1 || int64_t(getCluster()) > mostCluster || g[0] % int64_t(getCluster()))
    return emitOpError() << "expected a cluster of 1 to " << mostCluster << " blocks that divides " << g[0] << ", got " << getCluster();
  for (auto [i, param] : llvm::enumerate(getParams())) {
    if (!isa<PtrAttr, TensorMapAttr, NumberAttr>(param))
      return emitOpError() << "expected parameter " << i << " to be a ptr, a tensor_map or a number, got " << param;
    if (std::optional<int64_t> ref = refOf(param); ref && *ref >= int64_t(getBufs().size()))
      return emitOpError() << "expected parameter " << i << " to name a buffer below " << getBufs().size() << ", got " << *ref;
  }
  for (int64_t w : getWrites())
    if (w < 0 || w >= int64_t(getBufs().size()))
      return emitOpError() << "expected written buffers below " << getBufs().size() << ", got " << w;
  return success();
}

LogicalResult LaunchGridOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>((*this)->getParentOp(), getKernelAttr());
  if (!kernel)
    return emitOpError() << "expected an rt.kernel named " << getKernelAttr();
  if (kernel.getRefs() != getBufs().size())
    return emitOpError() << "expected " << kernel.getRefs() << " buffers for " << getKernelAttr() << ", got " << getBufs().size();
  return success();
}

} // namespace dsv3::rt
