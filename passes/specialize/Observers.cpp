#include "passes/specialize/Observers.h"

#include "dialects/dsv3/Dsv3Dialect.h"

using namespace mlir;

namespace dsv3 {

static std::string weightOf(Value use) {
  auto op = use.getDefiningOp<ir::UseOp>();
  return op ? op.getWeight().str() : std::string();
}

static std::string siteOf(Value value) {
  Operation *op = value.getDefiningOp();
  auto site = op ? op->getAttrOfType<StringAttr>("site") : StringAttr();
  return site ? site.str() : std::string();
}

/// The rows before they were quantised: what is observed is what an algorithm may quantise in its own way.
static Value plain(Value value) {
  auto quantize = value.getDefiningOp<ir::QuantizeOp>();
  return quantize ? Value(quantize.getX()) : value;
}

static std::string producerWeight(Value rows) {
  Operation *op = rows.getDefiningOp();
  if (auto linear = dyn_cast_or_null<ir::LinearOp>(op))
    return weightOf(linear.getW());
  if (auto grouped = dyn_cast_or_null<ir::GroupedLinearOp>(op))
    return weightOf(grouped.getW());
  return {};
}

static ObservedLinear observe(Value x, Value w, ir::DispatchOp dispatch) {
  ObservedLinear out;
  out.weight = weightOf(w);
  Value rows = plain(x);
  if (dispatch && rows == dispatch.getRows())
    rows = plain(dispatch.getX());
  if (auto norm = rows.getDefiningOp<ir::RmsNormOp>())
    out.gamma = weightOf(norm.getGamma());
  if (auto swiglu = rows.getDefiningOp<ir::SwigluOp>())
    out.gate = producerWeight(swiglu.getGate()), out.up = producerWeight(swiglu.getUp());
  bool inside = dispatch && rows.getDefiningOp<ir::SwigluOp>();
  out.input = inside ? std::string() : siteOf(rows);
  if (dispatch)
    out.routing = siteOf(dispatch.getIds()) + ".ids";
  return out;
}

SmallVector<ObservedLinear> observedLinears(ModuleOp module) {
  SmallVector<ObservedLinear> out;
  module.walk([&](Operation *op) {
    if (auto linear = dyn_cast<ir::LinearOp>(op))
      out.push_back(observe(linear.getX(), linear.getW(), {}));
    if (auto grouped = dyn_cast<ir::GroupedLinearOp>(op))
      out.push_back(observe(grouped.getX(), grouped.getW(), grouped.getOffsets().getDefiningOp<ir::DispatchOp>()));
    if (auto attention = dyn_cast<ir::MlaAttentionOp>(op))
      if (auto append = attention.getKv().getDefiningOp<ir::KvAppendOp>())
        out.push_back(observe(append.getLatent(), attention.getWKvb(), {}));
  });
  llvm::erase_if(out, [](const ObservedLinear &l) { return l.weight.empty() || (l.input.empty() && l.routing.empty()); });
  return out;
}

} // namespace dsv3
