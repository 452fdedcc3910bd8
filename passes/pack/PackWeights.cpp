// --dsv3-pack-weights
#include "codegen/targets/Targets.h"
#include "passes/Passes.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_PACKWEIGHTSPASS
#include "passes/Passes.h.inc"

namespace {
constexpr int64_t pageBytes = 4096; // weights are mapped: every one starts on a page

/// An operand that reads a weight, and the encoding its kernel wants there.
struct Wish {
  ir::UseOp use;
  kernel::KernelOp reader;
  kernel::PackedAttr encoding;
};

/// Rows as they are, and one scale per block in row-major order: for readers without a wish.
kernel::PackedAttr rowMajor(RankedTensorType type) {
  MLIRContext *ctx = type.getContext();
  auto layout = [&](const std::string &map) { return kernel::LayoutAttr::get(ctx, map); };
  if (type.getRank() == 1)
    return kernel::PackedAttr::get(ctx, type.getEncoding(), layout("(n) -> [n]"), {});
  kernel::LayoutAttr scale;
  if (auto blocked = dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding())) {
    auto size = [&](size_t fromEnd) {
      if (blocked.getBlock().size() < fromEnd)
        return int64_t(1);
      int64_t b = blocked.getBlock()[blocked.getBlock().size() - fromEnd];
      return ShapedType::isDynamic(b) ? type.getDimSize(type.getRank() - fromEnd) : b;
    };
    scale = layout("(n, k) -> [n/" + std::to_string(size(2)) + ", k/" + std::to_string(size(1)) + "]");
  }
  return kernel::PackedAttr::get(ctx, type.getEncoding(), layout("(n, k) -> [n, k]"), scale);
}

struct PackWeightsPass : impl::PackWeightsPassBase<PackWeightsPass> {
  using PackWeightsPassBase::PackWeightsPassBase;

  void runOnOperation() override {
    FailureOr<codegen::TargetChoice> choice = codegen::chooseTarget(getOperation(), target);
    if (failed(choice))
      return signalPassFailure();
    registry = choice->registry;
    targetName = choice->name;
    SymbolTable table(getOperation());
    symbols = &table;
    llvm::MapVector<StringRef, SmallVector<Wish>> wishes;
    if (failed(collect(wishes)))
      return signalPassFailure();
    stored.clear();
    end = 0;
    // In the order of the recipes, so that the file does not depend on the order of readers.
    for (auto weight : llvm::to_vector(getOperation().getOps<ir::WeightOp>()))
      if (auto entry = wishes.find(weight.getSymName()); entry != wishes.end())
        if (failed(pack(weight, entry->second)))
          return signalPassFailure();
  }

private:
  LogicalResult collect(llvm::MapVector<StringRef, SmallVector<Wish>> &wishes) {
    WalkResult walked = getOperation().walk([&](ir::UseOp use) -> WalkResult {
      for (OpOperand &operand : use->getUses()) {
        auto reader = dyn_cast<kernel::KernelOp>(operand.getOwner());
        if (!reader)
          return use.emitOpError() << "expected weight " << use.getWeightAttr() << " to be read by launches, got "
                                   << operand.getOwner()->getName();
        const codegen::KernelEmitter *emitter = registry->lookup(reader);
        if (!reader.getKernelSchedule() || !emitter)
          return reader->emitOpError() << "expected a schedule of " << targetName << " at \"" << reader.getSiteName() << "\"";
        auto type = cast<RankedTensorType>(use.getType());
        kernel::PackedAttr wish = emitter->weightEncoding(reader, operand.getOperandNumber(), type);
        wishes[use.getWeight()].push_back({use, reader, wish ? wish : rowMajor(type)});
      }
      return WalkResult::advance();
    });
    return failure(walked.wasInterrupted());
  }

  /// The encoding all readers agree on. There is one copy of a weight, so two wishes are an error that lists them.
  FailureOr<kernel::PackedAttr> agree(ir::WeightOp weight, ArrayRef<Wish> wishes) {
    kernel::PackedAttr first = wishes.front().encoding;
    if (llvm::all_of(wishes, [&](const Wish &w) { return w.encoding == first; })) {
      if (first.getScheme() == weight.getTensorType().getEncoding())
        return first;
      return weight.emitOpError() << "expected a packing of scheme " << weight.getTensorType().getEncoding() << ", got " << first;
    }
    InFlightDiagnostic diagnostic = weight.emitOpError() << "expected all readers of @" << weight.getSymName() << " to want one packing";
    llvm::SmallPtrSet<Attribute, 4> told;
    for (Wish wish : wishes)
      if (told.insert(wish.encoding).second)
        diagnostic << (told.size() == 1 ? ", got " : "; ") << wish.encoding << " for \"" << wish.reader.getSiteName() << "\" in @"
                   << wish.use->getParentOfType<ir::ProgramOp>().getSymName();
    return diagnostic;
  }

  LogicalResult pack(ir::WeightOp weight, ArrayRef<Wish> wishes) {
    FailureOr<kernel::PackedAttr> encoding = agree(weight, wishes);
    if (failed(encoding))
      return failure();
    RankedTensorType logical = weight.getTensorType();
    auto type = RankedTensorType::getChecked([&] { return weight.emitOpError(); }, logical.getShape(), logical.getElementType(), *encoding);
    if (!type)
      return failure();
    // Two symbols of one recipe (tied embeddings) share a place when their readers want the same.
    kernel::WeightOp &packed = stored[{weight.getSource(), type}];
    if (!packed)
      packed = place(weight, type);
    llvm::SmallPtrSet<Operation *, 4> replaced;
    for (Wish wish : wishes)
      if (replaced.insert(wish.use).second) {
        OpBuilder b(wish.use);
        wish.use.replaceAllUsesWith(kernel::UseOp::create(b, wish.use.getLoc(), type, packed.getSymName()).getResult());
        wish.use.erase();
      }
    return success();
  }

  /// A packed weight behind all others. It stands after its recipe; both are symbols, so the name gets a suffix.
  kernel::WeightOp place(ir::WeightOp weight, RankedTensorType type) {
    OpBuilder b(&getContext());
    int64_t bytes = kernel::getPackedBytes(type);
    auto packed = kernel::WeightOp::create(b, weight.getLoc(), (weight.getSymName() + ".packed").str(), type, weight.getSymName(), end, bytes);
    symbols->insert(packed, std::next(Block::iterator(weight)));
    end = llvm::alignTo(end + bytes, pageBytes);
    return packed;
  }

  const codegen::KernelRegistry *registry = nullptr;
  std::string targetName;
  SymbolTable *symbols = nullptr;
  llvm::DenseMap<std::pair<Attribute, Type>, kernel::WeightOp> stored;
  int64_t end = 0; ///< first free byte of the weights file
};
} // namespace
} // namespace dsv3
