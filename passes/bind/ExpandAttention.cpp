// --dsv3-expand-attention
#include "passes/Passes.h"
#include "passes/bind/GpuPass.h"
#include "passes/bind/Lowering.h"
#include "passes/specialize/Taps.h"

using namespace mlir;

namespace dsv3 {
#define GEN_PASS_DEF_EXPANDATTENTIONPASS
#include "passes/Passes.h.inc"

namespace {
constexpr int64_t kHeadTile = 64; // rows of one asynchronous product: the heads that a block works on

// By length: a sequence in one piece keeps one partition busy however long it is, and a piece costs a partial result of
// 2 KB a head, written and read once. So a piece has at least so many pages that its keys (72 KB a page) are about twice that
// traffic, and longer sequences get longer pieces. Measured on an H200 over batches of 1 to 128 and contexts of 4k and 32k.
struct LengthRule {
  int64_t heads, most, leastPages;
};
constexpr LengthRule kByLength[] = {{64, 32, 8}, {INT64_MAX, 16, 16}};
// Evenly: what starting an item costs, in pages: loading the query, storing the result, and what it costs to join it.
constexpr int64_t kStart = 4;

/// The plan of one program and the sizes that follow from it.
struct Plan {
  kernel::AttnPlanOp op;
  int64_t heads = 0, slots = 0;
};

struct ExpandAttentionPass : bind::GpuPass<impl::ExpandAttentionPassBase<ExpandAttentionPass>> {
  using GpuPass::GpuPass;

  LogicalResult rewrite(const codegen::TargetChoice &choice) override {
    FailureOr<codegen::Capacities> found = codegen::Capacities::fromModule(getOperation());
    if (failed(found))
      return failure();
    gpu = choice.gpu;
    capacities = *found;
    for (auto program : getOperation().getOps<ir::ProgramOp>())
      if (failed(expand(program)))
        return failure();
    return success();
  }

private:
  LogicalResult expand(ir::ProgramOp program) {
    Plan plan;
    for (Operation &op : llvm::make_early_inc_range(program.getBody().front())) {
      LogicalResult ok = success();
      if (auto decode = dyn_cast<kernel::AttnDecodeOp>(op))
        ok = split(decode, plan);
      else if (auto expand = dyn_cast<kernel::KvExpandOp>(op); expand && !expand.getKeyRows())
        ok = turnKeys(expand);
      if (failed(ok))
        return failure();
    }
    return success();
  }

  //===-- Decode ----------------------------------------------------------===//

  kernel::SplitAttr rule(int64_t heads) {
    if (even)
      return kernel::SplitAttr::get(&getContext(), 0, kStart);
    const LengthRule *rule = llvm::find_if(kByLength, [&](const LengthRule &r) { return heads <= r.heads; });
    return kernel::SplitAttr::get(&getContext(), rule->most, rule->leastPages);
  }

  /// Rows of the partial results: an even plan makes at most one cut per partition, and a cut at most two pieces.
  int64_t slotsOf(kernel::SplitAttr rule, int64_t partitions, int64_t seqs) {
    if (rule.isEven())
      return std::min(2 * partitions, partitions + seqs);
    int64_t pieces = llvm::divideCeil(capacities.pages, rule.span(1));
    return seqs * std::min(pieces, rule.getMax());
  }

  void makePlan(kernel::AttnDecodeOp decode, Plan &plan) {
    RankedTensorType q = bind::tensorType(decode.getQLatent());
    int64_t seqs = q.getDimSize(0);
    plan.heads = q.getDimSize(1);
    int64_t partitions = std::max<int64_t>(1, gpu.getSmCount() / llvm::divideCeil(plan.heads, kHeadTile));
    kernel::SplitAttr split = rule(plan.heads);
    plan.slots = slotsOf(split, partitions, seqs);
    OpBuilder b(decode);
    Location loc = decode.getLoc();
    auto list = [&](ArrayRef<int64_t> shape) {
      return kernel::EmptyOp::create(b, loc, RankedTensorType::get(shape, b.getI32Type())).getResult();
    };
    Value items = list({split.isEven() ? partitions + seqs : seqs * split.getMax(), 5}), parts = list({partitions + 1}),
          splits = list({seqs + 1});
    plan.op = kernel::AttnPlanOp::create(b, loc, items.getType(), parts.getType(), splits.getType(), decode.getSeq(), items, parts, splits,
                                         split, bind::unbound, bind::unscheduled, b.getStringAttr("attn_plan"));
  }

  /// Where the cache's latent is stored as codes, the query's becomes codes too: in E4M3, a scale per head.
  Value queryOf(kernel::AttnDecodeOp decode, OpBuilder &b) {
    if (!decode.getKv().getType().getScheme())
      return decode.getQLatent();
    RankedTensorType q = bind::tensorType(decode.getQLatent());
    auto scheme = ir::BlockedAttr::get(&getContext(), Float8E4M3FNType::get(&getContext()), {1, ShapedType::kDynamic}, b.getF32Type(), false);
    auto type = RankedTensorType::get(q.getShape(), q.getElementType(), scheme);
    return kernel::QuantizeOp::create(b, decode.getLoc(), type, decode.getQLatent(), kernel::EmptyOp::create(b, decode.getLoc(), type), bind::unbound,
                                      bind::unscheduled, b.getStringAttr(siblingSite(decode.getSite(), "q_quant")))
        .getResult();
  }

  LogicalResult split(kernel::AttnDecodeOp decode, Plan &plan) {
    RankedTensorType q = bind::tensorType(decode.getQLatent());
    if (!plan.op)
      makePlan(decode, plan);
    if (q.getDimSize(1) != plan.heads)
      return decode.emitOpError() << "expected " << plan.heads << " heads as in the program's other layers, got " << q.getDimSize(1);
    OpBuilder b(decode);
    Location loc = decode.getLoc();
    auto partial = RankedTensorType::get({plan.slots, plan.heads, q.getDimSize(2)}, b.getF32Type());
    auto lse = RankedTensorType::get({plan.slots, plan.heads}, b.getF32Type());
    auto split = kernel::AttnSplitOp::create(
        b, loc, decode.getType(), partial, lse, queryOf(decode, b), decode.getQRope(), decode.getKv(), decode.getSeq(), plan.op.getItems(),
        plan.op.getParts(), decode.getOut(), kernel::EmptyOp::create(b, loc, partial), kernel::EmptyOp::create(b, loc, lse),
        decode.getLayerAttr(), decode.getScaleAttr(), bind::unbound, bind::unscheduled, decode.getSiteAttr());
    auto combine = kernel::AttnCombineOp::create(b, loc, decode.getType(), split.getPartial(), split.getLse(), plan.op.getSplits(),
                                                 decode.getSeq(), split.getResult(), bind::unbound, bind::unscheduled,
                                                 b.getStringAttr(siblingSite(decode.getSite(), "attn_combine")));
    decode.replaceAllUsesWith(combine.getResult());
    decode.erase();
    return success();
  }

  //===-- Prefill ---------------------------------------------------------===//

  LogicalResult turnKeys(kernel::KvExpandOp expand) {
    for (Operation *user : expand.getKeys().getUsers())
      if (!isa<kernel::AttnPrefillOp>(user))
        return expand.emitOpError() << "expected keys that only attention reads at \"" << expand.getSite() << "\", got " << user->getName();
    RankedTensorType old = bind::tensorType(expand.getKeys());
    auto type = RankedTensorType::get({old.getDimSize(0), old.getDimSize(1), old.getDimSize(3), old.getDimSize(2)}, old.getElementType());
    OpBuilder b(expand);
    auto unit = b.getUnitAttr();
    Value keys = kernel::EmptyOp::create(b, expand.getLoc(), type), rows;
    if (ir::KvType kv = expand.getKv().getType(); kv.getScheme()) {
      auto rowsType = RankedTensorType::get({old.getDimSize(0), kv.getPage(), kv.getLatent() + kv.getRope()}, kv.getElem());
      rows = kernel::KvRowsOp::create(b, expand.getLoc(), rowsType, expand.getKv(), expand.getSeq(),
                                      kernel::EmptyOp::create(b, expand.getLoc(), rowsType), expand.getLayerAttr(), bind::unbound,
                                      bind::unscheduled, b.getStringAttr(siblingSite(expand.getSite(), "kv_rows")))
                 .getResult();
    }
    auto turned = kernel::KvExpandOp::create(b, expand.getLoc(), type, expand.getValues().getType(), expand.getKv(), expand.getWK(),
                                             expand.getWV(), expand.getSeq(), rows, keys, expand.getValuesOut(), expand.getLayerAttr(), unit,
                                             bind::unbound, bind::unscheduled, expand.getSiteAttr());
    for (Operation *user : expand.getKeys().getUsers())
      cast<kernel::AttnPrefillOp>(user).setKeyRows(true);
    expand.getKeys().replaceAllUsesWith(turned.getKeys());
    expand.getValues().replaceAllUsesWith(turned.getValues());
    Operation *destination = expand.getKeysOut().getDefiningOp();
    expand.erase();
    if (destination && destination->use_empty())
      destination->erase();
    return success();
  }

  target::GpuAttr gpu;
  codegen::Capacities capacities;
};
} // namespace
} // namespace dsv3
