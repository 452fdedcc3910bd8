// --dsv3-dequantize-weights
#include "passes/Passes.h"
#include "passes/bind/Products.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_DEQUANTIZEWEIGHTSPASS
#include "passes/Passes.h.inc"

namespace {
/// Weights of one scheme that are dequantised for one reason.
struct Tally {
  Attribute scheme;
  std::string why;
  int64_t weights = 0, storedBits = 0, plainBits = 0;
};

int64_t bitsOf(ArrayRef<int64_t> shape, Type elem) {
  int64_t bits = elem.getIntOrFloatBitWidth();
  for (int64_t d : shape)
    bits *= d;
  return bits;
}

struct DequantizeWeightsPass : impl::DequantizeWeightsPassBase<DequantizeWeightsPass> {
  using DequantizeWeightsPassBase::DequantizeWeightsPassBase;

  void runOnOperation() override {
    FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(getOperation(), target);
    if (failed(choice))
      return signalPassFailure();
    llvm::StringMap<SmallVector<ir::UseOp>> uses;
    getOperation().walk([&](ir::UseOp use) { uses[use.getWeight()].push_back(use); });
    SymbolTable symbols(getOperation());
    SmallVector<Tally> tallies; // few, in the order of weights
    for (auto weight : llvm::to_vector(getOperation().getOps<ir::WeightOp>())) {
      auto readers = uses.find(weight.getSymName());
      ir::QuantScheme scheme = ir::getScheme(weight.getTensorType());
      std::string why = scheme && readers != uses.end() ? whyNotStored(weight, readers->second, *choice->registry) : std::string();
      if (why.empty())
        continue;
      RankedTensorType plain = dequantize(weight, readers->second, symbols);
      Tally *known = llvm::find_if(tallies, [&](const Tally &t) { return t.scheme == Attribute(scheme) && t.why == why; });
      Tally &tally = known != tallies.end() ? *known : (tallies.push_back({scheme, why}), tallies.back());
      ++tally.weights;
      tally.plainBits += bitsOf(plain.getShape(), plain.getElementType());
      for (const ir::Part &part : scheme.getParts(plain.getShape()))
        tally.storedBits += bitsOf(part.shape, part.elem);
    }
    for (const Tally &tally : tallies)
      report(tally, choice->name);
  }

private:
  /// Why not all readers can have the weight as it is stored; empty if they can. The registry speaks for the scheme alone; a product
  /// with it may exist for quantised rows only, or for plain ones only, which --dsv3-dequantize-activations makes of quantised ones.
  static std::string whyNotStored(ir::WeightOp weight, ArrayRef<ir::UseOp> readers, const codegen::KernelRegistry &registry) {
    if (std::string why = registry.whyNotStored(weight.getTensorType()); !why.empty())
      return why;
    for (ir::UseOp use : readers)
      for (Operation *user : use->getUsers()) {
        std::optional<bind::Product> product = bind::Product::of(user);
        std::string why = product ? bind::whyNoKernel(user, registry) : std::string();
        if (why.empty())
          continue;
        Type plainRows = product->rowsAreQuantised() ? bind::plainType(product->rows().getType()) : RankedTensorType();
        if (plainRows && bind::whyNoKernel(*product, plainRows, /*plainWeights=*/false, registry).empty())
          continue;
        if (bind::whyNoKernel(*product, plainRows, /*plainWeights=*/true, registry).empty()) // else the weight is not to blame
          return why;
      }
    return {};
  }

  RankedTensorType dequantize(ir::WeightOp weight, ArrayRef<ir::UseOp> readers, SymbolTable &symbols) {
    RankedTensorType plain = bind::plainType(weight.getTensorType());
    OpBuilder builder(&getContext());
    auto copy = ir::WeightOp::create(builder, weight.getLoc(), (weight.getSymName() + ".plain").str(), plain,
                                     ir::RefSourceAttr::get(&getContext(), FlatSymbolRefAttr::get(weight)));
    symbols.insert(copy, std::next(Block::iterator(weight)));
    for (ir::UseOp use : readers) {
      use.setWeight(copy.getSymName());
      use.getResult().setType(plain);
    }
    return plain;
  }

  void report(const Tally &tally, StringRef targetName) {
    auto mib = [](int64_t bits) { return llvm::formatv("{0:F1} MiB", double(bits) / 8 / (1 << 20)).str(); };
    emitWarning(getOperation().getLoc()) << tally.weights << (tally.weights == 1 ? " weight" : " weights") << " in " << tally.scheme
                                 << (tally.weights == 1 ? " is" : " are") << " dequantised for " << targetName << ", " << mib(tally.storedBits) << " to "
                                 << mib(tally.plainBits) << ": " << tally.why;
  }
};
} // namespace
} // namespace dsv3
