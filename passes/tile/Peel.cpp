// --dsv3-tile-peel: tile.loop -> copies of its body and scf.for.
#include "passes/tile/TilePasses.h"

#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace dsv3 {

#define GEN_PASS_DEF_TILEPEELPASS
#include "passes/tile/TilePasses.h.inc"

using namespace mlir;
using namespace tile;

namespace {

Value i32(OpBuilder &b, Location loc, int64_t n) { return arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(n)); }

Value valueOf(OpBuilder &b, Location loc, OpFoldResult bound) {
  if (auto value = dyn_cast<Value>(bound))
    return value;
  return i32(b, loc, *getConstantIntValue(bound));
}

/// A copy of the body before the loop: one trip. Returns what it yields.
SmallVector<Value> copyBody(OpBuilder &b, LoopOp loop, Value index, bool fin, ValueRange carried) {
  IRMapping map;
  map.map(loop.getIndex(), index);
  if (Value arg = loop.getFin())
    map.map(arg, arith::ConstantOp::create(b, loop.getLoc(), b.getBoolAttr(fin)).getResult());
  map.map(loop.getIterArgs(), carried);
  for (Operation &op : loop.getBody().front().without_terminator())
    b.clone(op, map);
  return llvm::map_to_vector(loop.getYield().getValues(), [&](Value v) { return map.lookupOrDefault(v); });
}

/// Moves the body into a loop that carries the same values.
void moveBody(IRRewriter &b, LoopOp loop, scf::ForOp into) {
  Block *body = into.getBody();
  if (!body->empty())
    b.eraseOp(body->getTerminator());
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(body);
  SmallVector<Value> args{into.getInductionVar()};
  if (loop.getFin())
    args.push_back(arith::ConstantOp::create(b, loop.getLoc(), b.getBoolAttr(false)));
  llvm::append_range(args, into.getRegionIterArgs());
  YieldOp yield = loop.getYield();
  b.inlineBlockBefore(&loop.getBody().front(), body, body->end(), args);
  b.setInsertionPoint(yield);
  b.replaceOpWithNewOp<scf::YieldOp>(yield, yield.getValues());
}

void unroll(IRRewriter &b, LoopOp loop) {
  int64_t step = *getConstantIntValue(loop.getStep()), upper = *getConstantIntValue(loop.getUpper());
  SmallVector<Value> carried(loop.getInits());
  for (int64_t i = *getConstantIntValue(loop.getLower()); i < upper; i += step)
    carried = copyBody(b, loop, i32(b, loop.getLoc(), i), false, carried);
  b.replaceOp(loop, carried);
}

/// Index of the last trip: lower + (ceil((upper - lower) / step) - 1) * step.
Value lastIndex(OpBuilder &b, Location loc, Value lower, Value upper, Value step) {
  Value one = i32(b, loc, 1);
  Value last = arith::SubIOp::create(b, loc, upper, one);
  Value span = arith::SubIOp::create(b, loc, last, lower);
  Value over = arith::RemUIOp::create(b, loc, span, step);
  return arith::SubIOp::create(b, loc, last, over);
}

void lower(IRRewriter &b, LoopOp loop) {
  b.setInsertionPoint(loop);
  if (loop.getUnroll())
    return unroll(b, loop);
  Location loc = loop.getLoc();
  Value from = valueOf(b, loc, loop.getLower()), to = valueOf(b, loc, loop.getUpper()), step = valueOf(b, loc, loop.getStep());
  SmallVector<Value> carried(loop.getInits());
  if (loop.getPeel() == Peel::First) {
    carried = copyBody(b, loop, from, true, carried);
    from = arith::AddIOp::create(b, loc, from, step);
  }
  bool last = loop.getPeel() == Peel::Last;
  if (last)
    to = lastIndex(b, loc, from, to, step);
  auto rest = scf::ForOp::create(b, loc, from, to, step, carried);
  SmallVector<Value> results(rest.getResults());
  if (last)
    results = copyBody(b, loop, to, true, results);
  moveBody(b, loop, rest);
  b.replaceOp(loop, results);
}

/// scf.if on a constant. Upstream's canonicalisation does this and more: it would make selects of branches.
struct KnownBranch : OpRewritePattern<scf::IfOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(scf::IfOp op, PatternRewriter &b) const final {
    APInt condition;
    if (!matchPattern(op.getCondition(), m_ConstantInt(&condition)))
      return failure();
    Region &taken = condition.isZero() ? op.getElseRegion() : op.getThenRegion();
    if (taken.empty()) {
      b.eraseOp(op);
      return success();
    }
    Operation *yield = taken.front().getTerminator();
    SmallVector<Value> results(yield->getOperands());
    b.eraseOp(yield);
    b.inlineBlockBefore(&taken.front(), op);
    b.replaceOp(op, results);
    return success();
  }
};

struct TilePeelPass : impl::TilePeelPassBase<TilePeelPass> {
  void runOnOperation() override {
    IRRewriter rewriter(&getContext());
    // Inner loops first, so that copies hold no loop.
    getOperation()->walk<WalkOrder::PostOrder>([&](LoopOp loop) { lower(rewriter, loop); });

    RewritePatternSet patterns(&getContext());
    patterns.add<KnownBranch>(&getContext());
    for (RegisteredOperationName name : getContext().getRegisteredOperations())
      if (name.getDialectNamespace() == TileDialect::getDialectNamespace())
        name.getCanonicalizationPatterns(patterns, &getContext());
    GreedyRewriteConfig config;
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return signalPassFailure();
    getOperation()->walk([&](SliceOp slice) {
      if (isa<Value>(slice.getCol())) {
        slice.emitOpError() << "T34: expected a constant column after unrolling";
        signalPassFailure();
      }
    });
  }
};

} // namespace
} // namespace dsv3
