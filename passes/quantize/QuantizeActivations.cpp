// --dsv3-quantize-activations
#include "passes/Passes.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_QUANTIZEACTIVATIONSPASS
#include "passes/Passes.h.inc"

namespace {
constexpr int64_t kGroup = 128; // channels that share a scale, as the native FP8 format has them

RankedTensorType tensorType(Value v) { return cast<RankedTensorType>(v.getType()); }

/// The scheme of the activations that meet weight `w`, or null if `w` stays in plain arithmetic.
ir::BlockedAttr activationScheme(Value w) {
  auto weight = dyn_cast_or_null<ir::BlockedAttr>(tensorType(w).getEncoding());
  if (!weight || !isa<Float8E4M3FNType>(weight.getStorage()) || ShapedType::isDynamic(weight.getBlock().back()))
    return {};
  return ir::BlockedAttr::get(w.getContext(), weight.getStorage(), {1, kGroup}, weight.getScale(), weight.getPow2Scale());
}

/// Writes the quantised copies, one per value and scheme, right after the value.
class Quantizer {
public:
  /// Null, after a diagnostic, if groups would straddle rows.
  Value copyOf(Operation *reader, Value x, ir::BlockedAttr scheme) {
    Value &copy = copies[{x, scheme}];
    if (copy)
      return copy;
    RankedTensorType type = tensorType(x);
    if (type.getRank() > 2 && type.getShape().back() % kGroup) {
      reader->emitOpError() << "expected heads of a multiple of " << kGroup << " channels to quantise per token, got " << type;
      return {};
    }
    OpBuilder b(reader->getContext());
    b.setInsertionPointAfterValue(x);
    copy = ir::QuantizeOp::create(b, x.getLoc(), RankedTensorType::get(type.getShape(), type.getElementType(), scheme), x, siteOf(x));
    return copy;
  }

private:
  static std::string siteOf(Value x) {
    Operation *op = x.getDefiningOp();
    auto site = op ? op->getAttrOfType<StringAttr>("site") : StringAttr();
    if (!site)
      return "arg" + std::to_string(cast<BlockArgument>(x).getArgNumber()) + ".quant";
    std::string suffix = op->getNumResults() > 1 ? std::to_string(cast<OpResult>(x).getResultNumber()) : "";
    return site.str() + ".quant" + suffix;
  }

  DenseMap<std::pair<Value, Attribute>, Value> copies;
};

struct QuantizeActivationsPass : impl::QuantizeActivationsPassBase<QuantizeActivationsPass> {
  void runOnOperation() override {
    Quantizer quantizer;
    WalkResult walked = getOperation().walk([&](Operation *op) -> WalkResult {
      if (auto linear = dyn_cast<ir::LinearOp>(op))
        return quantise(linear, linear.getX(), linear.getW(), quantizer);
      if (auto grouped = dyn_cast<ir::GroupedLinearOp>(op))
        return quantise(grouped, grouped.getX(), grouped.getW(), quantizer);
      return WalkResult::advance();
    });
    if (walked.wasInterrupted())
      signalPassFailure();
  }

private:
  WalkResult quantise(Operation *reader, Value x, Value w, Quantizer &quantizer) {
    ir::BlockedAttr scheme = activationScheme(w);
    if (!scheme || tensorType(x).getEncoding())
      return WalkResult::advance();
    // Rows of experts are copies of token rows: the tokens are quantised, once.
    auto dispatch = x.getDefiningOp<ir::DispatchOp>();
    Value copy = quantizer.copyOf(reader, dispatch ? dispatch.getX() : x, scheme);
    if (!copy)
      return WalkResult::interrupt();
    if (!dispatch) {
      reader->setOperand(0, copy);
      return WalkResult::advance();
    }
    RankedTensorType rows = tensorType(x);
    dispatch->setOperand(0, copy);
    x.setType(RankedTensorType::get(rows.getShape(), rows.getElementType(), scheme));
    return WalkResult::advance();
  }
};
} // namespace
} // namespace dsv3
