// What pack promises.
#include "passes/bind/VerifyBind.h"

#include "dialects/kernel/KernelDialect.h"
#include "dialects/kernel/Layout.h"

#include "llvm/ADT/DenseSet.h"

#include <map>

using namespace mlir;

namespace dsv3 {

namespace {
enum class Cover { Bijective, Onto };
using Shape = std::vector<int64_t>;

/// Layouts are periodic in powers of two, so a dim may be cut to two periods (blocks of one must differ) and its
/// remainder.
Shape shrink(ArrayRef<int64_t> shape) {
  constexpr int64_t period = 128;
  Shape small;
  for (int64_t d : shape)
    small.push_back(d > 2 * period ? 2 * period + d % period : d);
  return small;
}

/// Whether every place is hit: once (data), or once and more (one scale serves a block).
bool covers(const Layout &layout, const Shape &shape, Cover cover) {
  if (cover == Cover::Bijective)
    return layout.isBijective(shape);
  Shape index(shape.size(), 0), padded = layout.paddedShape(shape);
  int64_t total = 1, places = layout.elements(shape);
  for (int64_t d : padded)
    total *= d;
  llvm::DenseSet<int64_t> hit;
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = i;
    for (size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % padded[d];
      rest /= padded[d];
    }
    int64_t at = layout.offset(index, shape);
    if (at < 0 || at >= places)
      return false;
    hit.insert(at);
  }
  return int64_t(hit.size()) == places;
}

/// Checks layouts, each once per small shape.
class LayoutChecker {
public:
  LogicalResult check(kernel::WeightOp weight, kernel::LayoutAttr attr, Cover cover) {
    std::string_view text(attr.getMap().data(), attr.getMap().size());
    Layout layout = *Layout::parse(text); // the attribute's verifier has parsed it
    ArrayRef<int64_t> inner = weight.getTensorType().getShape().take_back(layout.rank());
    if (cover == Cover::Bijective && failed(checkSize(weight, layout, inner)))
      return failure();
    Shape small = shrink(inner);
    auto [entry, isNew] = known.try_emplace({std::string(text), small}, false);
    if (isNew)
      entry->second = covers(layout, small, cover);
    if (entry->second)
      return success();
    return weight.emitOpError() << "expected a layout that fills memory without overlap, got '" << attr.getMap() << "'";
  }

private:
  /// Of the true shape: as many places as padded elements.
  LogicalResult checkSize(kernel::WeightOp weight, const Layout &layout, ArrayRef<int64_t> inner) {
    Shape shape(inner.begin(), inner.end());
    int64_t padded = 1;
    for (int64_t d : layout.paddedShape(shape))
      padded *= d;
    if (padded == layout.elements(shape))
      return success();
    return weight.emitOpError() << "expected " << padded << " places for " << weight.getTensorType() << ", got " << layout.elements(shape);
  }

  std::map<std::pair<std::string, Shape>, bool> known;
};

LogicalResult verifySource(kernel::WeightOp weight, SymbolTable &symbols) {
  auto source = symbols.lookup<ir::WeightOp>(weight.getSource());
  if (!source)
    return weight.emitOpError() << "expected a dsv3.weight named @" << weight.getSource();
  RankedTensorType from = source.getTensorType(), to = weight.getTensorType();
  auto packed = cast<kernel::PackedAttr>(to.getEncoding());
  if (from.getShape() != to.getShape() || from.getElementType() != to.getElementType() || from.getEncoding() != packed.getScheme())
    return weight.emitOpError() << "expected the numbers of its source, " << from << ", got " << to;
  return success();
}

LogicalResult verifyPlaces(ArrayRef<kernel::WeightOp> weights) {
  SmallVector<kernel::WeightOp> byOffset(weights);
  llvm::sort(byOffset, [](kernel::WeightOp a, kernel::WeightOp b) { return a.getOffset() < b.getOffset(); });
  for (size_t i = 1; i < byOffset.size(); ++i) {
    kernel::WeightOp a = byOffset[i - 1], b = byOffset[i];
    if (a.getOffset() + a.getBytes() > b.getOffset())
      return b.emitOpError() << "expected a place behind @" << a.getSymName() << ", which ends at " << a.getOffset() + a.getBytes()
                             << ", got " << b.getOffset();
  }
  return success();
}
} // namespace

LogicalResult verifyPack(ModuleOp module, const CompileOptions &options) {
  if (failed(verifyBind(module, options)))
    return failure();
  llvm::DenseSet<StringRef> read;
  WalkResult walked = module.walk([&](Operation *op) -> WalkResult {
    if (auto use = dyn_cast<ir::UseOp>(op))
      return use.emitOpError() << "expected packed weights only after pack, got " << use.getWeightAttr();
    if (auto use = dyn_cast<kernel::UseOp>(op))
      read.insert(use.getWeight());
    return WalkResult::advance();
  });
  if (walked.wasInterrupted())
    return failure();
  SymbolTable symbols(module);
  LayoutChecker layouts;
  SmallVector<kernel::WeightOp> weights(module.getOps<kernel::WeightOp>());
  for (kernel::WeightOp weight : weights) {
    auto packed = cast<kernel::PackedAttr>(weight.getTensorType().getEncoding());
    if (!read.contains(weight.getSymName()))
      return weight.emitOpError() << "expected a reader of @" << weight.getSymName() << ", got none";
    if (failed(verifySource(weight, symbols)) || failed(layouts.check(weight, packed.getLayout(), Cover::Bijective)) ||
        (packed.getScale() && failed(layouts.check(weight, packed.getScale(), Cover::Onto))))
      return failure();
  }
  return verifyPlaces(weights);
}

} // namespace dsv3
