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
  addOperations<
#define GET_OP_LIST
#include "dialects/rt/RtOps.cpp.inc"
      >();
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

} // namespace dsv3::rt
