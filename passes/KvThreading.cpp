#include "passes/Verifiers.h"

#include "dialects/dsv3/Dsv3Dialect.h"

#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace dsv3 {

/// Handle and layer that an op reads or appends to, or a null handle.
static std::pair<Value, int64_t> cacheAccess(Operation *op) {
  if (auto append = dyn_cast<ir::KvAppendOp>(op))
    return {append.getKv(), append.getLayer()};
  if (auto attention = dyn_cast<ir::MlaAttentionOp>(op))
    return {attention.getKv(), attention.getLayer()};
  if (auto attention = dyn_cast<ir::LatentAttentionOp>(op))
    return {attention.getKv(), attention.getLayer()};
  return {};
}

LogicalResult verifyKvThreading(Operation *op) {
  auto program = cast<ir::ProgramOp>(op);
  Value newest;
  for (BlockArgument arg : program.getBody().getArguments())
    if (isa<ir::KvType>(arg.getType())) {
      if (newest)
        return program.emitOpError() << "expected one cache handle among the arguments, got two";
      newest = arg;
    }
  llvm::DenseSet<int64_t> appended;
  for (Operation &inner : program.getBody().front()) {
    auto [handle, layer] = cacheAccess(&inner);
    if (!handle)
      continue;
    if (handle != newest)
      return inner.emitOpError() << "expected the newest cache handle, got an older one";
    if (auto append = dyn_cast<ir::KvAppendOp>(inner)) {
      if (!appended.insert(layer).second)
        return inner.emitOpError() << "expected one kv_append to layer " << layer << ", got a second one";
      newest = append.getResult();
    } else if (!appended.contains(layer)) {
      return inner.emitOpError() << "expected a kv_append to layer " << layer << " before its readers";
    }
  }
  for (Value result : program.getBody().front().getTerminator()->getOperands())
    if (isa<ir::KvType>(result.getType()) && result != newest)
      return program.emitOpError() << "expected the newest cache handle to be returned, got an older one";
  return success();
}

} // namespace dsv3
