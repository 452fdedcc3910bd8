// --dsv3-quantize-weights
#include "frontends/quantize/Algorithm.h"
#include "passes/Passes.h"
#include "passes/quantize/Decisions.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_QUANTIZEWEIGHTSPASS
#include "passes/Passes.h.inc"

namespace {
struct QuantizeWeightsPass : impl::QuantizeWeightsPassBase<QuantizeWeightsPass> {
  using QuantizeWeightsPassBase::QuantizeWeightsPassBase;

  void runOnOperation() override {
    Result<std::vector<WeightDecision>> decisions = decideWeights(getOperation(), policy, config);
    Result<quantize::Algorithm> how = quantize::parseAlgorithm(algorithm);
    if (!decisions || !how) {
      emitError(getOperation().getLoc()) << (decisions ? how.error() : decisions.error()).message;
      return signalPassFailure();
    }
    llvm::StringMap<SmallVector<ir::UseOp>> uses;
    getOperation().walk([&](ir::UseOp use) { uses[use.getWeight()].push_back(use); });
    SymbolTable symbols(getOperation());
    for (WeightDecision &d : *decisions) {
      d.weight.removeActivationAttr();
      if (d.activation)
        d.weight.setActivationAttr(d.activation);
      if (!d.changed)
        continue;
      quantise(d.weight, d.scheme, clipOf(*how, d.scheme), symbols);
      for (ir::UseOp use : uses[d.weight.getSymName()])
        use.getResult().setType(d.weight.getTensorType());
    }
  }

private:
  static ir::Clip clipOf(quantize::Algorithm algorithm, ir::BlockedAttr scheme) {
    quantize::Code code = scheme.getStorage().isInteger(4) ? quantize::Code::I4 : scheme.getStorage().isInteger(8) ? quantize::Code::I8 : quantize::Code::F8E4M3;
    return quantize::clipOf(algorithm, code) == quantize::Clip::Mse ? ir::Clip::Mse : ir::Clip::Absmax;
  }

  /// `NAME.stored` takes the weight's recipe and scheme, NAME becomes its numbers in the new one.
  static void quantise(ir::WeightOp weight, ir::BlockedAttr scheme, ir::Clip clip, SymbolTable &symbols) {
    RankedTensorType type = weight.getTensorType();
    OpBuilder b(weight.getContext());
    // f32: what is dequantised is not rounded once more before it is quantised again.
    auto exact = RankedTensorType::get(type.getShape(), b.getF32Type(), type.getEncoding());
    auto stored = ir::WeightOp::create(b, weight.getLoc(), (weight.getSymName() + ".stored").str(), exact, weight.getSource());
    symbols.insert(stored, Block::iterator(weight));
    weight.setType(RankedTensorType::get(type.getShape(), type.getElementType(), scheme));
    weight.setSourceAttr(ir::QuantizedSourceAttr::get(weight.getContext(), FlatSymbolRefAttr::get(stored), clip));
  }
};
} // namespace
} // namespace dsv3
