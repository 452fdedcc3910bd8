// --dsv3-quantize-activations
#include "passes/Passes.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_QUANTIZEACTIVATIONSPASS
#include "passes/Passes.h.inc"

namespace {
RankedTensorType tensorType(Value v) { return cast<RankedTensorType>(v.getType()); }

/// Writes the quantised copies, one per value and scheme, right after the value. Heads are joined, so that a scale may span them.
class Quantizer {
public:
  Value copyOf(Value x, ir::BlockedAttr scheme) {
    Value &copy = copies[{x, scheme}];
    if (copy)
      return copy;
    RankedTensorType type = tensorType(x);
    int64_t columns = 1;
    for (int64_t d : type.getShape().drop_front())
      columns *= d;
    OpBuilder b(x.getContext());
    b.setInsertionPointAfterValue(x);
    auto rows = RankedTensorType::get({type.getDimSize(0), columns}, type.getElementType(), scheme);
    int schemesBefore = schemes[x]++; // a site names one op
    copy = ir::QuantizeOp::create(b, x.getLoc(), rows, x, siteOf(x) + (schemesBefore ? ".scheme" + std::to_string(schemesBefore) : ""));
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
  DenseMap<Value, int> schemes;
};

struct QuantizeActivationsPass : impl::QuantizeActivationsPassBase<QuantizeActivationsPass> {
  void runOnOperation() override {
    SymbolTable table(getOperation());
    symbols = &table;
    Quantizer quantizer;
    getOperation().walk([&](Operation *op) {
      if (auto linear = dyn_cast<ir::LinearOp>(op))
        quantise(linear, linear.getX(), linear.getW(), quantizer);
      if (auto grouped = dyn_cast<ir::GroupedLinearOp>(op))
        quantise(grouped, grouped.getX(), grouped.getW(), quantizer);
    });
    for (auto weight : getOperation().getOps<ir::WeightOp>())
      weight.removeActivationAttr();
  }

private:
  /// The scheme of the activations that meet weight `w`, or null if they stay plain.
  ir::BlockedAttr activationOf(Value w) const {
    auto use = w.getDefiningOp<ir::UseOp>();
    auto weight = use ? symbols->lookup<ir::WeightOp>(use.getWeight()) : ir::WeightOp();
    return weight ? weight.getActivationAttr() : ir::BlockedAttr();
  }

  /// Whether all that read the rows of experts want them in this scheme.
  bool allWant(ir::DispatchOp dispatch, ir::BlockedAttr scheme) const {
    return llvm::all_of(dispatch.getRows().getUsers(), [&](Operation *user) {
      auto grouped = dyn_cast<ir::GroupedLinearOp>(user);
      return grouped && activationOf(grouped.getW()) == scheme;
    });
  }

  void quantise(Operation *reader, Value x, Value w, Quantizer &quantizer) {
    ir::BlockedAttr scheme = activationOf(w);
    if (!scheme || tensorType(x).getEncoding())
      return;
    // Rows of experts are copies of token rows: the tokens are quantised, once.
    auto dispatch = x.getDefiningOp<ir::DispatchOp>();
    if (!dispatch || !allWant(dispatch, scheme)) {
      reader->setOperand(0, quantizer.copyOf(x, scheme));
      return;
    }
    RankedTensorType rows = tensorType(x);
    dispatch->setOperand(0, quantizer.copyOf(dispatch.getX(), scheme));
    x.setType(RankedTensorType::get(rows.getShape(), rows.getElementType(), scheme));
  }

  SymbolTable *symbols = nullptr;
};
} // namespace
} // namespace dsv3
