// --dsv3-insert-taps
#include "passes/Passes.h"
#include "passes/specialize/Taps.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_INSERTTAPSPASS
#include "passes/Passes.h.inc"

namespace {
/// Keys and values of this step's tokens, which an attention expands but does not yield.
FailureOr<Value> expandKv(OpBuilder &builder, ir::MlaAttentionOp attention, StringRef site) {
  auto append = attention.getKv().getDefiningOp<ir::KvAppendOp>();
  if (!append || append.getLayer() != attention.getLayer())
    return attention.emitOpError() << "expected its cache from a kv_append to layer " << attention.getLayer() << " to tap " << site;
  auto latent = cast<RankedTensorType>(append.getLatent().getType());
  auto weight = cast<RankedTensorType>(attention.getWKvb().getType());
  Type elem = cast<RankedTensorType>(attention.getQ().getType()).getElementType();
  auto type = RankedTensorType::get({latent.getDimSize(0), weight.getDimSize(0)}, elem);
  builder.setInsertionPoint(attention);
  return Value(ir::LinearOp::create(builder, attention.getLoc(), type, append.getLatent(), attention.getWKvb(), site));
}

struct InsertTapsPass : impl::InsertTapsPassBase<InsertTapsPass> {
  using InsertTapsPassBase::InsertTapsPassBase;

  void runOnOperation() override {
    auto points = matchTaps(getOperation(), regex.getValue());
    if (!points) {
      getOperation().emitError() << points.error().message;
      return signalPassFailure();
    }
    OpBuilder builder(&getContext());
    for (const TapPoint &point : llvm::reverse(*points)) { // so that taps of one op keep their order
      Value value;
      if (point.kind == TapPoint::Kind::ExpandedKv) {
        FailureOr<Value> expanded = expandKv(builder, cast<ir::MlaAttentionOp>(point.op), point.name);
        if (failed(expanded))
          return signalPassFailure();
        value = *expanded;
      } else {
        value = point.op->getResult(point.result);
      }
      builder.setInsertionPointAfterValue(value);
      ir::TapOp::create(builder, point.op->getLoc(), point.name, value);
    }
  }
};
} // namespace
} // namespace dsv3
