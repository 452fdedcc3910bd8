// --dsv3-absorb-mla
#include "passes/Passes.h"
#include "passes/specialize/Taps.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_ABSORBMLAPASS
#include "passes/Passes.h.inc"

namespace {
/// The two halves of w_kvb, per head.
struct Halves {
  ir::WeightOp key;   ///< [H, latent, nope]: takes a query to the latent space
  ir::WeightOp value; ///< [H, v, latent]: takes latent sums to values
};

struct Dims {
  int64_t heads, nope, rope, v, latent;

  explicit Dims(ir::MlaAttentionOp op) {
    auto q = cast<RankedTensorType>(op.getQ().getType()), y = cast<RankedTensorType>(op.getY().getType());
    ir::KvType kv = op.getKv().getType();
    heads = q.getDimSize(1);
    rope = kv.getRope();
    nope = q.getDimSize(2) - rope;
    v = y.getDimSize(2);
    latent = kv.getLatent();
  }
};

struct AbsorbMlaPass : impl::AbsorbMlaPassBase<AbsorbMlaPass> {
  void runOnOperation() override {
    SymbolTable table(getOperation());
    symbols = &table;
    halves.clear();
    SmallVector<ir::MlaAttentionOp> work;
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      if (program.getPhase() == StringRef("decode"))
        program.walk([&](ir::MlaAttentionOp op) { work.push_back(op); });
    for (ir::MlaAttentionOp op : work)
      if (failed(absorb(op)))
        return signalPassFailure();
  }

private:
  /// A weight of this recipe right after `after`. The name is free: only this pass makes `.k` and `.v`.
  ir::WeightOp addWeight(ir::WeightOp after, StringRef suffix, RankedTensorType type, Attribute source) {
    OpBuilder builder(&getContext());
    auto weight = ir::WeightOp::create(builder, after.getLoc(), (after.getSymName() + suffix).str(), type, source);
    symbols->insert(weight, std::next(Block::iterator(after)));
    return weight;
  }

  FailureOr<Halves> split(ir::MlaAttentionOp op, const Dims &d) {
    auto use = op.getWKvb().getDefiningOp<ir::UseOp>();
    auto weight = use ? symbols->lookup<ir::WeightOp>(use.getWeight()) : ir::WeightOp();
    if (!weight)
      return op.emitOpError() << "expected w_kvb to be a dsv3.use of a weight at " << op.getSite();
    auto [entry, isNew] = halves.try_emplace(weight.getSymName());
    if (!isNew)
      return entry->second;
    MLIRContext *ctx = &getContext();
    int64_t perHead = d.nope + d.v;
    SmallVector<int64_t> shape{d.heads, perHead, d.latent};
    RankedTensorType whole = ir::reshapeType(weight.getTensorType(), shape);
    Attribute source = ir::ReshapeSourceAttr::get(ctx, shape, ir::RefSourceAttr::get(ctx, FlatSymbolRefAttr::get(weight)));
    auto part = [&](int64_t offset, int64_t size) -> Attribute {
      return ir::SliceSourceAttr::get(ctx, 1, offset, size, source);
    };
    entry->second.value = addWeight(weight, ".v", ir::sliceType(whole, 1, d.nope, d.v), part(d.nope, d.v));
    entry->second.key = addWeight(weight, ".k", ir::transposeType(ir::sliceType(whole, 1, 0, d.nope)),
                                  ir::TransposeSourceAttr::get(ctx, part(0, d.nope)));
    return entry->second;
  }

  LogicalResult absorb(ir::MlaAttentionOp op) {
    Dims d(op);
    FailureOr<Halves> weights = split(op, d);
    if (failed(weights))
      return failure();
    OpBuilder b(op);
    Location loc = op.getLoc();
    auto q = cast<RankedTensorType>(op.getQ().getType());
    auto rows = [&](int64_t lanes) { return RankedTensorType::get({q.getDimSize(0), d.heads, lanes}, q.getElementType()); };
    auto use = [&](ir::WeightOp w) { return ir::UseOp::create(b, loc, w.getTensorType(), w.getSymName()).getResult(); };
    auto parts = ir::SplitOp::create(b, loc, TypeRange{rows(d.nope), rows(d.rope)}, op.getQ());
    Value query = ir::BatchedLinearOp::create(b, loc, rows(d.latent), parts.getResult(0), use(weights->key),
                                              siblingSite(op.getSite(), "absorb_q"));
    Value sums = ir::LatentAttentionOp::create(b, loc, rows(d.latent), query, parts.getResult(1), op.getKv(), op.getLayerAttr(),
                                               op.getSeq(), op.getScaleAttr(), op.getSiteAttr());
    Value y = ir::BatchedLinearOp::create(b, loc, op.getY().getType(), sums, use(weights->value),
                                          siblingSite(op.getSite(), "absorb_v"));
    Operation *kvb = op.getWKvb().getDefiningOp();
    op.replaceAllUsesWith(y);
    op.erase();
    if (kvb->use_empty())
      kvb->erase();
    return success();
  }

  SymbolTable *symbols = nullptr;
  llvm::StringMap<Halves> halves; ///< by the symbol of w_kvb: made once, read by every decode program
};
} // namespace
} // namespace dsv3
