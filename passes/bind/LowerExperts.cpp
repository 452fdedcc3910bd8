// Routing and the routed experts.
#include "passes/bind/Lowering.h"
#include "passes/specialize/Taps.h"

using namespace mlir;

namespace dsv3::bind {

/// `dsv3.route` and the routing of `dsv3.routed_experts` name their operands and attributes alike.
template <typename Op> static kernel::RouteOp route(Op op, StringAttr site, Lowering &l) {
  SmallVector<int64_t> shape{tensorType(op.getLogits()).getDimSize(0), int64_t(op.getTop())};
  Value ids = l.empty(op.getLoc(), shape, l.b.getI32Type()), weights = l.empty(op.getLoc(), shape, l.b.getF32Type());
  return kernel::RouteOp::create(l.b, op.getLoc(), ids.getType(), weights.getType(), op.getLogits(), op.getBias(), ids, weights,
                                 op.getGroupsAttr(), op.getKeepAttr(), op.getTopAttr(), op.getNormAttr(), op.getScaleAttr(), unbound,
                                 unscheduled, site);
}

LogicalResult lower(ir::RouteOp op, Lowering &l) {
  l.replace(op, route(op, op.getSiteAttr(), l)->getResults());
  return success();
}

LogicalResult lower(ir::RoutedExpertsOp op, Lowering &l) {
  OpBuilder &b = l.b;
  Location loc = op.getLoc();
  auto site = [&](StringRef name) { return b.getStringAttr(siblingSite(op.getSite(), name)); };
  RankedTensorType gate = tensorType(op.getWGate()), y = tensorType(op.getY());
  int64_t tokens = y.getDimSize(0), rows = tokens * int64_t(op.getTop());

  kernel::RouteOp routing = route(op, site("route"), l);
  Value offsets = l.empty(loc, {gate.getDimSize(0) + 1}, b.getI32Type()), tokenOf = l.empty(loc, {rows}, b.getI32Type());
  Value rowOf = l.empty(loc, routing.getIds().getType());
  auto dispatch = kernel::DispatchOp::create(b, loc, offsets.getType(), tokenOf.getType(), rowOf.getType(), routing.getIds(), offsets, tokenOf,
                                             rowOf, unbound, unscheduled, site("dispatch"));
  Value act = l.empty(loc, {rows, gate.getDimSize(1)}, op.getViaAct());
  act = kernel::GroupedGatedGemmOp::create(b, loc, act.getType(), op.getX(), op.getWGate(), op.getWUp(), dispatch.getOffsets(),
                                           dispatch.getTokenOf(), act, op.getViaGateUpAttr(), unbound, unscheduled, site("act"));
  if (ir::BlockedAttr scheme = op.getActSchemeAttr()) {
    Value codes = l.empty(loc, RankedTensorType::get({rows, gate.getDimSize(1)}, op.getViaAct(), scheme));
    act = kernel::QuantizeOp::create(b, loc, codes.getType(), act, codes, unbound, unscheduled, site("act.quant"));
  }
  Value down = l.empty(loc, {rows, y.getDimSize(1)}, op.getViaDown());
  down = kernel::GroupedGemmOp::create(b, loc, down.getType(), act, op.getWDown(), dispatch.getOffsets(), down, unbound, unscheduled,
                                       site("down"));
  Value out = l.empty(loc, y);
  out = kernel::CombineOp::create(b, loc, y, down, dispatch.getRowOf(), routing.getWeights(), op.getPlus(), out, unbound, unscheduled,
                                  op.getSiteAttr());
  op.getY().replaceAllUsesWith(out);
  if (op.getIds())
    op.getIds().replaceAllUsesWith(routing.getIds());
  if (op.getWeights())
    op.getWeights().replaceAllUsesWith(routing.getWeights());
  op.erase();
  return success();
}

//===-- Layers that fusion left in pieces ---------------------------------===//

LogicalResult lower(ir::DispatchOp op, Lowering &l) {
  OpBuilder &b = l.b;
  Location loc = op.getLoc();
  RankedTensorType ids = tensorType(op.getIds());
  Value offsets = l.empty(loc, {int64_t(op.getExperts()) + 1}, b.getI32Type()), rowOf = l.empty(loc, ids);
  Value tokenOf = l.empty(loc, {ids.getNumElements()}, b.getI32Type());
  auto dispatch = kernel::DispatchOp::create(b, loc, offsets.getType(), tokenOf.getType(), rowOf.getType(), op.getIds(), offsets, tokenOf,
                                             rowOf, unbound, unscheduled, op.getSiteAttr());
  Value rows = l.empty(loc, op.getRows().getType());
  rows = kernel::GatherOp::create(b, loc, rows.getType(), op.getX(), dispatch.getTokenOf(), rows, unbound, unscheduled,
                                  b.getStringAttr(siblingSite(op.getSite(), "gather")));
  l.replace(op, {rows, dispatch.getOffsets(), dispatch.getRowOf()});
  return success();
}

LogicalResult lower(ir::GroupedLinearOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::GroupedGemmOp::create(l.b, op.getLoc(), op.getType(), op.getX(), op.getW(), op.getOffsets(), out, unbound,
                                              unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::CombineOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::CombineOp::create(l.b, op.getLoc(), op.getType(), op.getRows(), op.getRowOf(), op.getWeights(), op.getPlus(), out,
                                          unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

} // namespace dsv3::bind
