// Canonical forms: constants stand as numbers in lists, a view of a view is one view, waiting for nothing vanishes.
#include "dialects/tile/TileDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;

namespace dsv3::tile {

namespace {
/// Constants among the values of a list become numbers, so that verifiers and layouts see them.
template <typename Op>
struct ConstantsInList : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const final {
    SmallVector<Value> values;
    SmallVector<int64_t> place(op.getPlace());
    unsigned next = 0;
    for (int64_t &c : place) {
      if (c != ShapedType::kDynamic)
        continue;
      Value value = op.getCoords()[next++];
      APInt n;
      if (matchPattern(value, m_ConstantInt(&n)) && !n.isNegative())
        c = n.getSExtValue();
      else
        values.push_back(value);
    }
    if (values.size() == op.getCoords().size())
      return failure();
    rewriter.modifyOpInPlace(op, [&] {
      op.getCoordsMutable().assign(values);
      op.setPlace(place);
    });
    return success();
  }
};

/// Nothing is in flight, or was waited for, before the first trip.
template <typename Op>
struct NoneVanishes : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const final {
    if (op->getNumResults() || !op->getOperand(0).template getDefiningOp<NoneOp>())
      return failure();
    rewriter.eraseOp(op);
    return success();
  }
};

struct ViewOfView : OpRewritePattern<ViewOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ViewOp op, PatternRewriter &rewriter) const final {
    auto inner = op.getSource().getDefiningOp<ViewOp>();
    if (!inner)
      return failure();
    int64_t rank = inner.getSource().getType().getRank(), drop = rank - inner.getType().getRank();
    OpFoldResult zero = rewriter.getI64IntegerAttr(0);
    SmallVector<OpFoldResult> coords = inner.getMixedCoords();
    coords.resize(rank, zero);
    for (auto [i, c] : llvm::enumerate(op.getMixedCoords()))
      coords[drop + i] = sum(op.getLoc(), coords[drop + i], c, rewriter);
    rewriter.replaceOpWithNewOp<ViewOp>(op, op.getType(), inner.getSource(), coords);
    return success();
  }

  static OpFoldResult sum(Location loc, OpFoldResult a, OpFoldResult b, PatternRewriter &rewriter) {
    auto number = [](OpFoldResult v) -> std::optional<int64_t> {
      auto attr = dyn_cast<Attribute>(v);
      return attr ? std::optional<int64_t>(cast<IntegerAttr>(attr).getInt()) : std::nullopt;
    };
    if (number(a) && number(b))
      return rewriter.getI64IntegerAttr(*number(a) + *number(b));
    if (number(a) == 0)
      return b;
    if (number(b) == 0)
      return a;
    auto value = [&](OpFoldResult v) -> Value {
      return number(v) ? arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(*number(v))).getResult() : cast<Value>(v);
    };
    Value left = value(a), right = value(b);
    return arith::AddIOp::create(rewriter, loc, left, right).getResult();
  }
};
} // namespace

void ViewOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<ViewOp>, ViewOfView>(context); }
void AwaitOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<NoneVanishes<AwaitOp>>(context); }
void ReleaseOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<NoneVanishes<ReleaseOp>>(context); }
void CopyOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<CopyOp>>(context); }
void ZeroOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<ZeroOp>>(context); }
void PutOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<PutOp>>(context); }
void ReadOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<ReadOp>>(context); }
void WriteOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<WriteOp>>(context); }
void SliceOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) { patterns.add<ConstantsInList<SliceOp>>(context); }

} // namespace dsv3::tile
