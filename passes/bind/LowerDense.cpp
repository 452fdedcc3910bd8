// Dense ops: one launch each. Cuts are views.
#include "passes/bind/Lowering.h"

using namespace mlir;

namespace dsv3::bind {

LogicalResult lower(ir::EmbedOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::EmbedOp::create(l.b, op.getLoc(), op.getType(), op.getIds(), op.getTable(), out, unbound, unscheduled,
                                        op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::RmsNormOp op, Lowering &l) {
  Location loc = op.getLoc();
  if (!op.getResidual()) {
    Value out = l.empty(loc, op.getY().getType());
    l.replace(op, kernel::NormOp::create(l.b, loc, out.getType(), op.getX(), op.getGamma(), out, op.getEpsAttr(), unbound, unscheduled,
                                         op.getSiteAttr())
                      ->getResults());
    return success();
  }
  Value sum = l.empty(loc, op.getSum().getType()), out = l.empty(loc, op.getY().getType());
  l.replace(op, kernel::AddNormOp::create(l.b, loc, sum.getType(), out.getType(), op.getX(), op.getResidual(), op.getGamma(), sum, out,
                                          op.getEpsAttr(), unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::LinearOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::GemmOp::create(l.b, op.getLoc(), op.getType(), op.getX(), op.getW(), out, unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::QuantizeOp op, Lowering &l) {
  auto type = cast<RankedTensorType>(op.getType());
  Value x = op.getX(), out = l.empty(op.getLoc(), type);
  if (tensorType(x).getRank() > 2) // kernels see rows
    x = l.view(op.getLoc(), x, 0, RankedTensorType::get(type.getShape(), type.getElementType()));
  l.replace(op, kernel::QuantizeOp::create(l.b, op.getLoc(), op.getType(), x, out, unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::GatedLinearOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::GatedGemmOp::create(l.b, op.getLoc(), op.getType(), op.getX(), op.getWGate(), op.getWUp(), out, op.getViaAttr(),
                                            unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::BatchedLinearOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::BatchedGemmOp::create(l.b, op.getLoc(), op.getType(), op.getX(), op.getW(), out, unbound, unscheduled,
                                              op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::SwigluOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::SwigluOp::create(l.b, op.getLoc(), op.getType(), op.getGate(), op.getUp(), out, unbound, unscheduled,
                                         op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::AddOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::AddOp::create(l.b, op.getLoc(), op.getType(), op.getX(), op.getY(), out, unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::SelectRowsOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::SelectRowsOp::create(l.b, op.getLoc(), op.getType(), op.getX(), op.getSeq(), out, unbound, unscheduled,
                                             op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::SplitOp op, Lowering &l) {
  int64_t offset = 0;
  for (Value part : op.getParts()) {
    RankedTensorType type = tensorType(part);
    if (!part.use_empty())
      part.replaceAllUsesWith(l.view(op.getLoc(), op.getX(), offset, type));
    offset += type.getShape().back();
  }
  op.erase();
  return success();
}

LogicalResult lower(ir::ConcatOp op, Lowering &l) {
  if (op.getParts().size() != 2)
    return op.emitOpError() << "expected two parts, got " << op.getParts().size();
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::ConcatOp::create(l.b, op.getLoc(), op.getType(), op.getParts()[0], op.getParts()[1], out, unbound, unscheduled,
                                         op.getSiteAttr())
                    ->getResults());
  return success();
}

/// A tap copies whole rows, which a view does not have: its two halves are joined in a buffer of their own.
static FailureOr<Value> ownRows(ir::TapOp op, Lowering &l) {
  Value value = op.getValue();
  if (!value.getDefiningOp<kernel::ViewOp>())
    return value;
  RankedTensorType type = tensorType(value);
  if (type.getRank() != 2 || type.getDimSize(1) < 2)
    return op.emitOpError() << "expected rows of two lanes or more to tap a part of a value, got " << type;
  int64_t lanes = type.getDimSize(1), half = lanes / 2;
  auto part = [&](int64_t offset, int64_t size) {
    return l.view(op.getLoc(), value, offset, RankedTensorType::get({type.getDimSize(0), size}, type.getElementType()));
  };
  Value low = part(0, half), high = part(half, lanes - half), out = l.empty(op.getLoc(), type);
  return Value(kernel::ConcatOp::create(l.b, op.getLoc(), type, low, high, out, unbound, unscheduled, op.getNameAttr()).getResult());
}

LogicalResult lower(ir::TapOp op, Lowering &l) {
  FailureOr<Value> value = ownRows(op, l);
  if (failed(value))
    return failure();
  kernel::TapOp::create(l.b, op.getLoc(), op.getNameAttr(), *value);
  op.erase();
  return success();
}

} // namespace dsv3::bind
