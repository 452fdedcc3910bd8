// --dsv3-fuse-moe
#include "passes/Passes.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_FUSEMOEPASS
#include "passes/Passes.h.inc"

namespace {
Type elementType(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

/// The ops of one routed layer, found from its last.
struct RoutedLayer {
  ir::RouteOp route;
  ir::DispatchOp dispatch;
  ir::GroupedLinearOp gate, up, down;
  ir::SwigluOp act;
  ir::QuantizeOp quantize; ///< of the activation; may be null
  ir::CombineOp combine;

  static std::optional<RoutedLayer> match(ir::CombineOp combine) {
    RoutedLayer l;
    l.combine = combine;
    l.down = combine.getRows().getDefiningOp<ir::GroupedLinearOp>();
    l.quantize = l.down ? l.down.getX().getDefiningOp<ir::QuantizeOp>() : ir::QuantizeOp();
    l.act = l.quantize ? l.quantize.getX().getDefiningOp<ir::SwigluOp>()
            : l.down   ? l.down.getX().getDefiningOp<ir::SwigluOp>()
                       : ir::SwigluOp();
    l.gate = l.act ? l.act.getGate().getDefiningOp<ir::GroupedLinearOp>() : ir::GroupedLinearOp();
    l.up = l.act ? l.act.getUp().getDefiningOp<ir::GroupedLinearOp>() : ir::GroupedLinearOp();
    l.dispatch = l.gate ? l.gate.getX().getDefiningOp<ir::DispatchOp>() : ir::DispatchOp();
    l.route = l.dispatch ? l.dispatch.getIds().getDefiningOp<ir::RouteOp>() : ir::RouteOp();
    if (!l.route || !l.up || !l.isConnected() || !l.isPrivate())
      return std::nullopt;
    return l;
  }

  /// Every edge goes where the fused op assumes it.
  bool isConnected() {
    return gate.getX() == dispatch.getRows() && up.getX() == dispatch.getRows() && combine.getRowOf() == dispatch.getRowOf() &&
           combine.getWeights() == route.getWeights() && elementType(gate.getY()) == elementType(up.getY()) &&
           gate.getW().getType() == up.getW().getType() && sameNumbers(dispatch.getX(), combine.getY()) &&
           (!quantize || isa<ir::BlockedAttr>(quantize.getType().getEncoding())) &&
           llvm::all_of(ArrayRef<ir::GroupedLinearOp>{gate, up, down},
                        [&](ir::GroupedLinearOp op) { return op.getOffsets() == dispatch.getOffsets(); });
  }

  /// Nobody outside reads an inner value. The routing itself may be read: the fused op can yield it.
  bool isPrivate() {
    Operation *const inner[] = {dispatch, gate, up, act, quantize, down, combine};
    for (Operation *op : insideOut())
      for (Operation *user : op->getUsers())
        if (!llvm::is_contained(inner, user))
          return false;
    return llvm::all_of(readersOfRouting(), [&](Operation *user) { return isa<ir::TapOp>(user) || combine->isBeforeInBlock(user); });
  }

  /// The ops that the fused one replaces, but for route and combine, each before those whose results it reads.
  SmallVector<Operation *> insideOut() {
    SmallVector<Operation *> ops{down, quantize, act, gate, up, dispatch};
    llvm::erase(ops, nullptr);
    return ops;
  }

  /// Equal up to the scheme, which x alone may have.
  static bool sameNumbers(Value x, Value y) {
    auto a = cast<RankedTensorType>(x.getType()), b = cast<RankedTensorType>(y.getType());
    return a.getShape() == b.getShape() && a.getElementType() == b.getElementType();
  }

  SmallVector<Operation *> readersOfRouting() {
    return llvm::filter_to_vector(route->getUsers(), [&](Operation *user) { return user != dispatch && user != combine; });
  }
};

struct FuseMoePass : impl::FuseMoePassBase<FuseMoePass> {
  void runOnOperation() override {
    SmallVector<ir::CombineOp> layers;
    getOperation().walk([&](ir::CombineOp op) { layers.push_back(op); });
    for (ir::CombineOp op : layers)
      if (std::optional<RoutedLayer> layer = RoutedLayer::match(op))
        fuse(*layer);
  }

private:
  void fuse(RoutedLayer &l) {
    OpBuilder b(l.combine);
    auto readBesides = [&](Value v, Operation *inside) {
      return llvm::any_of(v.getUsers(), [&](Operation *user) { return user != inside; });
    };
    Type ids = readBesides(l.route.getIds(), l.dispatch) ? l.route.getIds().getType() : Type();
    Type weights = readBesides(l.route.getWeights(), l.combine) ? l.route.getWeights().getType() : Type();
    Location loc = b.getFusedLoc({l.route.getLoc(), l.gate.getLoc(), l.up.getLoc(), l.down.getLoc(), l.combine.getLoc()});
    auto fused = ir::RoutedExpertsOp::create(
        b, loc, l.combine.getY().getType(), ids, weights, l.dispatch.getX(), l.route.getLogits(), l.route.getBias(), l.gate.getW(),
        l.up.getW(), l.down.getW(), l.combine.getPlus(), l.route.getGroupsAttr(), l.route.getKeepAttr(), l.route.getTopAttr(),
        l.route.getNormAttr(), l.route.getScaleAttr(), TypeAttr::get(elementType(l.gate.getY())),
        TypeAttr::get(elementType(l.act.getY())), l.quantize ? cast<ir::BlockedAttr>(l.quantize.getType().getEncoding()) : ir::BlockedAttr(), TypeAttr::get(elementType(l.down.getY())), l.combine.getSiteAttr());
    // Taps of the routing stood before the experts; they follow now, in their order.
    SmallVector<Operation *> taps = llvm::filter_to_vector(l.readersOfRouting(), llvm::IsaPred<ir::TapOp>);
    llvm::sort(taps, [](Operation *x, Operation *y) { return x->isBeforeInBlock(y); });
    for (Operation *tap : llvm::reverse(taps))
      if (tap->isBeforeInBlock(fused))
        tap->moveAfter(fused);
    l.combine.getY().replaceAllUsesWith(fused.getY());
    l.combine.erase();
    for (Operation *op : l.insideOut())
      op->erase();
    if (ids)
      l.route.getIds().replaceAllUsesWith(fused.getIds());
    if (weights)
      l.route.getWeights().replaceAllUsesWith(fused.getWeights());
    l.route.erase();
  }
};
} // namespace
} // namespace dsv3
