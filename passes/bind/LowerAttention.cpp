// Rotation, cache and attention.
#include "passes/bind/Lowering.h"
#include "passes/specialize/Taps.h"

using namespace mlir;

namespace dsv3::bind {

/// Whether the buffer of x may be overwritten: a launch wrote it, and after the rope nobody reads it.
static bool mayRotateInPlace(ir::RopeOp op) {
  if (op.getX().getType() != op.getType() || !isa_and_nonnull<kernel::KernelOp>(op.getX().getDefiningOp()))
    return false;
  // Taps before the op are lowered already.
  return llvm::all_of(op.getX().getUsers(), [&](Operation *user) {
    return user == op || (isa<kernel::TapOp>(user) && user->isBeforeInBlock(op));
  });
}

LogicalResult lower(ir::RopeOp op, Lowering &l) {
  Value out = mayRotateInPlace(op) ? op.getX() : l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::RopeOp::create(l.b, op.getLoc(), op.getType(), op.getX(), l.ropeTable(op.getRope()), op.getSeq(), out, op.getAtAttr(),
                                       op.getRope(), unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

//===-- Append ------------------------------------------------------------===//

namespace {
/// The ops whose work `kernel.kv_append` does, found from the append.
struct AppendChain {
  ir::RmsNormOp norm;
  ir::RopeOp rope;
  ir::SplitOp split;
  int64_t offset = 0; ///< first lane of the latent in the value that is split

  static FailureOr<AppendChain> match(ir::KvAppendOp op) {
    AppendChain c;
    c.norm = op.getLatent().getDefiningOp<ir::RmsNormOp>();
    c.rope = op.getRope().getDefiningOp<ir::RopeOp>();
    if (!c.norm || c.norm.getResidual())
      return op.emitOpError() << "expected latent from an rms_norm without residual at \"" << op.getSite() << "\"";
    if (!c.rope || c.rope.getAt() != 0 || c.rope.getSeq() != op.getSeq())
      return op.emitOpError() << "expected rope from a rope at lane 0 of the same sequences at \"" << op.getSite() << "\"";
    c.split = c.norm.getX().getDefiningOp<ir::SplitOp>();
    if (!c.split || c.rope.getX().getDefiningOp<ir::SplitOp>() != c.split)
      return op.emitOpError() << "expected latent and rope from one split at \"" << op.getSite() << "\"";
    if (failed(c.place(op)) || failed(c.checkRounding(op)))
      return failure();
    return c;
  }

private:
  /// The kernel reads [latent | rope] rows, so the parts must be neighbours.
  LogicalResult place(ir::KvAppendOp op) {
    auto latent = cast<OpResult>(norm.getX()), key = cast<OpResult>(rope.getX());
    if (key.getResultNumber() != latent.getResultNumber() + 1)
      return op.emitOpError() << "expected the rope part right behind the latent part at \"" << op.getSite() << "\"";
    for (Value part : split.getParts().take_front(latent.getResultNumber()))
      offset += tensorType(part).getShape().back();
    return success();
  }

  /// The kernel rounds once, to the cache: the norm's and the rotation's own rounding must not show.
  LogicalResult checkRounding(ir::KvAppendOp op) {
    Type cache = op.getKv().getType().getElem();
    for (Value v : {op.getLatent(), op.getRope()})
      if (Type elem = tensorType(v).getElementType(); elem != cache && !elem.isF32())
        return op.emitOpError() << "expected rows of the cache's element type " << cache << " or f32 at \"" << op.getSite() << "\", got "
                                << elem;
    return success();
  }
};
} // namespace

LogicalResult lower(ir::KvAppendOp op, Lowering &l) {
  FailureOr<AppendChain> chain = AppendChain::match(op);
  if (failed(chain))
    return failure();
  Location loc = l.b.getFusedLoc({chain->norm.getLoc(), chain->rope.getLoc(), op.getLoc()});
  ir::KvType kv = op.getKv().getType();
  RankedTensorType whole = tensorType(chain->split.getX());
  SmallVector<int64_t> shape(whole.getShape());
  shape.back() = kv.getLatent() + kv.getRope();
  Value rows = l.view(loc, chain->split.getX(), chain->offset, RankedTensorType::get(shape, whole.getElementType()));
  l.replace(op, kernel::KvAppendOp::create(l.b, loc, kv, rows, chain->norm.getGamma(), l.ropeTable(chain->rope.getRope()), op.getSeq(),
                                           op.getKv(), op.getLayerAttr(), chain->norm.getEpsAttr(), chain->rope.getRope(), unbound,
                                           unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

//===-- Attention ---------------------------------------------------------===//

namespace {
/// The halves of w_kvb per head: keys [H, nope, latent] and values [H, v, latent].
struct Halves {
  Value key, value;
};
} // namespace

static FailureOr<Halves> halves(ir::MlaAttentionOp op, Lowering &l) {
  FailureOr<ir::WeightOp> whole = l.weightOf(op, "w_kvb", op.getWKvb());
  if (failed(whole))
    return failure();
  MLIRContext *ctx = op.getContext();
  ir::KvType kv = op.getKv().getType();
  int64_t heads = tensorType(op.getQ()).getDimSize(1), nope = tensorType(op.getQ()).getDimSize(2) - kv.getRope();
  int64_t v = tensorType(op.getY()).getDimSize(2);
  SmallVector<int64_t> shape{heads, nope + v, kv.getLatent()};
  RankedTensorType perHead = ir::reshapeType(whole->getTensorType(), shape);
  Attribute source = ir::ReshapeSourceAttr::get(ctx, shape, ir::RefSourceAttr::get(ctx, FlatSymbolRefAttr::get(*whole)));
  auto part = [&](StringRef suffix, int64_t offset, int64_t size) {
    return l.derived(*whole, suffix, ir::sliceType(perHead, 1, offset, size), ir::SliceSourceAttr::get(ctx, 1, offset, size, source));
  };
  FailureOr<ir::WeightOp> value = part(".v", nope, v), key = part(".kn", 0, nope);
  if (failed(key) || failed(value))
    return failure();
  return Halves{l.use(op.getLoc(), *key), l.use(op.getLoc(), *value)};
}

LogicalResult lower(ir::MlaAttentionOp op, Lowering &l) {
  constexpr int64_t block = codegen::Capacities::kKeyBlock;
  if (op.getKv().getType().getPage() != block)
    return op.emitOpError() << "expected a cache of pages of " << block << " tokens, got " << op.getKv().getType().getPage();
  FailureOr<Halves> w = halves(op, l);
  if (failed(w))
    return failure();
  Location loc = op.getLoc();
  RankedTensorType q = tensorType(op.getQ()), y = tensorType(op.getY());
  int64_t heads = q.getDimSize(1), blocks = l.capacities.kblocks;
  Value keys = l.empty(loc, {blocks, heads, q.getDimSize(2), block}, q.getElementType());
  Value values = l.empty(loc, {blocks, heads, block, y.getDimSize(2)}, q.getElementType());
  auto expand = kernel::KvExpandOp::create(l.b, loc, keys.getType(), values.getType(), op.getKv(), w->key, w->value, op.getSeq(), /*rows=*/Value(), keys, values,
                                           op.getLayerAttr(), /*key_rows=*/UnitAttr(), unbound, unscheduled,
                                           l.b.getStringAttr(siblingSite(op.getSite(), "kv_expand")));
  Value out = l.empty(loc, y);
  l.replace(op, kernel::AttnPrefillOp::create(l.b, loc, y, op.getQ(), expand.getKeys(), expand.getValues(), op.getSeq(), out,
                                              op.getScaleAttr(), /*key_rows=*/UnitAttr(), unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

LogicalResult lower(ir::LatentAttentionOp op, Lowering &l) {
  Value out = l.empty(op.getLoc(), op.getType());
  l.replace(op, kernel::AttnDecodeOp::create(l.b, op.getLoc(), op.getType(), op.getQLatent(), op.getQRope(), op.getKv(), op.getSeq(), out,
                                             op.getLayerAttr(), op.getScaleAttr(), unbound, unscheduled, op.getSiteAttr())
                    ->getResults());
  return success();
}

} // namespace dsv3::bind
