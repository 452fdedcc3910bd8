// Attention over expanded keys (prefill) and over the paged latent cache (decode).
//
// Both run the online softmax of Milakov and Gimelshein (2018) over blocks of 64 keys counted from position 0. A row's
// maximum, rescale and sums depend on its own keys only, so its bits are the same in any chunk and any batch.
#include "codegen/x86/CachedPage.h"
#include "codegen/x86/RowOps.h"

#include <limits>

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr int64_t kBlock = Capacities::kKeyBlock;
constexpr int64_t kVectors = kBlock / kLanes; ///< vectors of a block's scores

/// The softmax state of one row: addresses of its 64 scores, its running maximum and its running sum.
struct SoftmaxRow {
  Value scores, maximum, sum;
};

void resetSoftmax(KernelBuilder &k, const SoftmaxRow &row) {
  k.store(k.cf(k.f32, -std::numeric_limits<double>::infinity()), row.maximum);
  k.store(k.cf(k.f32, 0), row.sum);
}

/// Lanes 0..15 as a constant.
Value laneIndices(KernelBuilder &k) {
  SmallVector<int32_t> lanes;
  for (int32_t i = 0; i < kLanes; ++i)
    lanes.push_back(i);
  return arith::ConstantOp::create(k.b, DenseElementsAttr::get(k.vi32, ArrayRef<int32_t>(lanes)));
}

/// One block: scores (already scaled) of `valid` keys become probabilities against the new maximum, zero beyond; the
/// sum is updated. Returns the factor by which everything accumulated so far must be multiplied.
Value softmaxBlock(KernelBuilder &k, const SoftmaxRow &row, Value valid) {
  Value minusInf = k.cf(k.vf32, -std::numeric_limits<double>::infinity());
  Value limit = k.splat(arith::TruncIOp::create(k.b, k.i32, valid)), lanes = laneIndices(k);
  SmallVector<Value> s;
  Value best = minusInf;
  for (int64_t v = 0; v < kVectors; ++v) {
    Value inside = arith::CmpIOp::create(k.b, arith::CmpIPredicate::slt, k.add(lanes, v * kLanes), limit);
    Value raw = k.load(k.vf32, k.at(row.scores, v * kLanes * 4), 4);
    s.push_back(arith::SelectOp::create(k.b, inside, raw, minusInf));
    best = k.fmax(s.back(), best);
  }
  Value old = k.load(k.f32, row.maximum), next = k.fmax(k.reduceMax(best), old), nextAll = k.splat(next);
  Value total = k.cf(k.vf32, 0);
  for (int64_t v = 0; v < kVectors; ++v) {
    Value p = k.exp(k.fsub(s[v], nextAll));
    k.store(p, k.at(row.scores, v * kLanes * 4), 4);
    total = k.fadd(total, p);
  }
  Value factor = k.exp(k.fsub(old, next));
  k.store(next, row.maximum);
  k.store(k.fma(k.load(k.f32, row.sum), factor, k.reduceAdd(total)), row.sum);
  return factor;
}

kernel::NumericsAttr attentionNumerics(Operation *op, StringRef chain) {
  Type f32 = Float32Type::get(op->getContext());
  return kernel::NumericsAttr::get(op->getContext(), f32, f32, chain, kBlock);
}

/// kernel.attn_prefill: tile = (query tile of at most 16 rows of one sequence, head).
/// Scratch: scores [16][64], maximum [16], sum [16], accumulators [16][v padded to 16].
class AttnPrefillEmitter : public X86Emitter {
public:
  AttnPrefillEmitter() : X86Emitter("kernel.attn_prefill", "x86.attn_prefill") {}
  std::string whyIllegal(Operation *op) const override {
    return cast<kernel::AttnPrefillOp>(op).getKeyRows() ? "keys stand a row per key, expected a row per lane" : "";
  }
  kernel::NumericsAttr numerics(Operation *op) const override { return attentionNumerics(op, "k_ascending"); }
  LaunchSignature signature(Operation *) const override {
    return {{DSV3_FIELD_QBLOCK, DSV3_FIELD_TOKEN_POS, DSV3_FIELD_KBLOCK_START}, {}};
  }
  TileCount tiles(Operation *op) const override { return {DSV3_SCALAR_QBLOCKS, 1, tensorType(op->getOperand(0)).getDimSize(1)}; }
  int64_t scratchBytes(Operation *op) const override { return kRows * 4 * (kBlock + 2 + accLanes(op)); }

protected:
  static constexpr int64_t kRows = Capacities::kQueryTile;
  static int64_t valueDim(Operation *op) { return tensorType(op->getOperand(2)).getDimSize(3); }
  static int64_t accLanes(Operation *op) { return llvm::alignTo(valueDim(op), kLanes); }

  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto attn = cast<kernel::AttnPrefillOp>(op);
    RowOperand q = rows(k, refs, op, 0), out = rows(k, refs, op, 4);
    RankedTensorType keysType = tensorType(attn.getKeys()), valuesType = tensorType(attn.getValues());
    int64_t heads = keysType.getDimSize(1);
    Value keys = k.buf(refs.of(1)), values = k.buf(refs.of(2));
    Value qblocks = k.buf(refs.of(3)), positions = k.buf(refs.of(3) + 1), firstBlocks = k.buf(refs.of(3) + 2);
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value head = k.rem(tile, heads), entry = k.mul(k.div(tile, heads), 4);
      Value seq = k.loadI32(qblocks, entry), first = k.loadI32(qblocks, k.add(entry, 1)), count = k.loadI32(qblocks, k.add(entry, 2));
      Value firstBlock = k.loadI32(firstBlocks, seq);
      auto position = [&](Value row) { return k.loadI32(positions, k.add(first, row)); };
      k.loop(k.idx(0), count, 1, [&](Value row) { reset(k, op, row); });
      Value blocks = k.add(k.div(position(k.add(count, -1)), kBlock), 1); // rows of a tile ascend in position
      k.loop(k.idx(0), blocks, 1, [&](Value j) {
        Value at = k.add(k.mul(k.add(firstBlock, j), heads), head);
        auto tileOf = [&](Value base, RankedTensorType t) {
          return k.at(base, k.mul(at, t.getDimSize(2) * t.getDimSize(3) * elemBytes(t.getElementType())));
        };
        Value keyTile = tileOf(keys, keysType), valueTile = tileOf(values, valuesType);
        auto query = [&](Value row) { return q.row(k, k.add(first, row), head); };
        inGroups(k, count, k.variant.vectorBits == 512 ? 4 : 1, [&](Value row, int64_t n) { scoreRows(k, attn, keyTile, query, row, n); });
        k.loop(k.idx(0), count, 1, [&](Value row) {
          Value valid = k.minI(k.sub(k.add(position(row), 1), k.mul(j, kBlock)), k.idx(kBlock));
          k.when(k.lt(k.idx(0), valid), [&] { accumulate(k, op, valueTile, row, valid); });
        });
      });
      k.loop(k.idx(0), count, 1, [&](Value row) { finishRow(k, op, out, out.row(k, k.add(first, row), head), row); });
    });
    return success();
  }

private:
  static SoftmaxRow state(KernelBuilder &k, Value row) {
    Value maxima = k.at(k.scratch, kRows * kBlock * 4), sums = k.at(maxima, kRows * 4);
    return {k.at(k.scratch, k.mul(row, kBlock * 4)), k.at(maxima, k.mul(row, 4)), k.at(sums, k.mul(row, 4))};
  }
  static Value accAt(KernelBuilder &k, Operation *op, Value row) {
    return k.at(k.at(k.scratch, kRows * 4 * (kBlock + 2)), k.mul(row, accLanes(op) * 4));
  }

  static void reset(KernelBuilder &k, Operation *op, Value row) {
    resetSoftmax(k, state(k, row));
    Value acc = accAt(k, op, row);
    k.loop(0, accLanes(op), kLanes, [&](Value lane) { k.store(k.cf(k.vf32, 0), k.at(acc, k.mul(lane, 4)), 4); });
  }

  /// Whole groups of `n` rows, then single rows.
  static void inGroups(KernelBuilder &k, Value count, int64_t n, llvm::function_ref<void(Value row, int64_t n)> body) {
    Value whole = k.mul(k.div(count, n), n);
    k.loop(k.idx(0), whole, n, [&](Value row) { body(row, n); });
    if (n > 1)
      k.loop(whole, count, 1, [&](Value row) { body(row, 1); });
  }

  /// Scaled scores of `n` rows against the 64 keys of a block: one chain per score, lanes of the head ascending.
  static void scoreRows(KernelBuilder &k, kernel::AttnPrefillOp attn, Value keyTile, llvm::function_ref<Value(Value)> query, Value row,
                        int64_t n) {
    RankedTensorType qType = tensorType(attn.getQ()), keysType = tensorType(attn.getKeys());
    Type qElem = qType.getElementType(), kElem = keysType.getElementType();
    SmallVector<Value> q, init(n * kVectors, k.cf(k.vf32, 0));
    for (int64_t r = 0; r < n; ++r)
      q.push_back(query(k.add(row, r)));
    SmallVector<Value> acc = k.loop(k.idx(0), k.idx(keysType.getDimSize(2)), 1, init, [&](Value d, ValueRange in) {
      SmallVector<Value> next, key;
      Value keyRow = k.at(keyTile, k.mul(d, kBlock * elemBytes(kElem)));
      for (int64_t v = 0; v < kVectors; ++v)
        key.push_back(k.loadF32(kElem, k.at(keyRow, v * kLanes * elemBytes(kElem))));
      for (int64_t r = 0; r < n; ++r) {
        Value x = k.splat(k.loadScalarF32(qElem, lanesAt(k, q[r], qElem, d)));
        for (int64_t v = 0; v < kVectors; ++v)
          next.push_back(k.fma(x, key[v], in[r * kVectors + v]));
      }
      return next;
    });
    Value scale = k.cf(k.vf32, attn.getScale().convertToDouble());
    for (int64_t r = 0; r < n; ++r)
      for (int64_t v = 0; v < kVectors; ++v)
        k.store(k.fmul(acc[r * kVectors + v], scale), k.at(state(k, k.add(row, r)).scores, v * kLanes * 4), 4);
  }

  /// acc = acc * factor + p . values, keys ascending.
  static void accumulate(KernelBuilder &k, Operation *op, Value valueTile, Value row, Value valid) {
    SoftmaxRow softmax = state(k, row);
    Value factor = k.splat(softmaxBlock(k, softmax, valid)), acc = accAt(k, op, row);
    Type elem = tensorType(op->getOperand(2)).getElementType();
    int64_t n = valueDim(op), rowBytes = n * elemBytes(elem), together = 4;
    auto some = [&](Value lane, int64_t vectors, int64_t tail) {
      SmallVector<Value> init;
      for (int64_t v = 0; v < vectors; ++v)
        init.push_back(k.fmul(k.load(k.vf32, k.at(acc, k.mul(k.add(lane, v * kLanes), 4)), 4), factor));
      SmallVector<Value> sums = k.loop(k.idx(0), valid, 1, init, [&](Value key, ValueRange in) {
        Value p = k.splat(k.load(k.f32, lanesAt(k, softmax.scores, k.f32, key))), src = k.at(valueTile, k.mul(key, rowBytes));
        SmallVector<Value> next;
        for (int64_t v = 0; v < vectors; ++v)
          next.push_back(k.fma(p, k.loadF32(elem, lanesAt(k, src, elem, k.add(lane, v * kLanes)), kLanes, tail), in[v]));
        return next;
      });
      for (int64_t v = 0; v < vectors; ++v)
        k.store(sums[v], k.at(acc, k.mul(k.add(lane, v * kLanes), 4)), 4);
    };
    int64_t wide = n / (together * kLanes) * together * kLanes;
    k.loop(0, wide, together * kLanes, [&](Value lane) { some(lane, together, -1); });
    k.loop(wide, n / kLanes * kLanes, kLanes, [&](Value lane) { some(lane, 1, -1); });
    if (n % kLanes)
      some(k.idx(n / kLanes * kLanes), 1, n % kLanes);
  }

  static void finishRow(KernelBuilder &k, Operation *op, const RowOperand &out, Value outRow, Value row) {
    Value sum = k.splat(k.load(k.f32, state(k, row).sum)), acc = accAt(k, op, row);
    forLanes(k, valueDim(op), [&](Value lane, int64_t count) {
      Value v = k.fdiv(k.load(k.vf32, k.at(acc, k.mul(lane, 4)), 4), sum);
      k.storeF32(out.elem, v, lanesAt(k, outRow, out.elem, lane), count);
    });
  }
};

/// kernel.attn_decode: tile = (token row, group of heads).
/// Scratch per head of a group: query [latent and rope, each padded to 16], scores [64], maximum, sum, factor (padded
/// to 16 lanes), accumulators [latent padded]; behind the heads, the numbers of a page whose latent is stored as codes.
class AttnDecodeEmitter : public X86Emitter {
public:
  AttnDecodeEmitter() : X86Emitter("kernel.attn_decode", "x86.attn_decode") {}
  kernel::NumericsAttr numerics(Operation *op) const override { return attentionNumerics(op, "lanes16"); }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_TOKEN_SEQ, DSV3_FIELD_TOKEN_POS, DSV3_FIELD_BLOCK_TABLE}, {int64_t(cast<kernel::AttnDecodeOp>(op).getLayer())}};
  }
  TileCount tiles(Operation *op) const override { return {DSV3_SCALAR_TOKENS, 1, heads(op) / param(op, "heads")}; }
  int64_t scratchBytes(Operation *op) const override { return param(op, "heads") * headBytes(op) + CachedPage::scratchBytes(cache(op)); }

protected:
  static int64_t heads(Operation *op) { return tensorType(op->getOperand(0)).getDimSize(1); }
  static ir::KvType cache(Operation *op) { return cast<kernel::AttnDecodeOp>(op).getKv().getType(); }
  static int64_t latentLanes(Operation *op) { return llvm::alignTo(cache(op).getLatent(), kLanes); }
  static int64_t queryLanes(Operation *op) { return latentLanes(op) + int64_t(llvm::alignTo(cache(op).getRope(), kLanes)); }
  static int64_t headBytes(Operation *op) { return 4 * (queryLanes(op) + kBlock + kLanes + latentLanes(op)); }

  /// Heads that share one pass over the cached rows: the most of 8, 4, 2, 1 that divides.
  DictionaryAttr config(Operation *op) const override {
    int64_t group = 8;
    while (heads(op) % group)
      group /= 2;
    Builder b(op->getContext());
    return b.getDictionaryAttr(b.getNamedAttr("heads", b.getI64IntegerAttr(group)));
  }

  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto attn = cast<kernel::AttnDecodeOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    if (failed(caps))
      return failure();
    RowOperand ql = rows(k, refs, op, 0), qr = rows(k, refs, op, 1), out = rows(k, refs, op, 4);
    int64_t group = param(op, "heads"), groups = heads(op) / group;
    Value layer = k.at(k.buf(refs.of(2)), k.mul(k.scalar(DSV3_SCALAR_COUNT), k.scalar(DSV3_SCALAR_KV_LAYER_STRIDE)));
    Value tokenSeq = k.buf(refs.of(3)), positions = k.buf(refs.of(3) + 1), blockTable = k.buf(refs.of(3) + 2);
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value token = k.div(tile, groups), head0 = k.mul(k.rem(tile, groups), group);
      Value context = k.add(k.loadI32(positions, token), 1), table = k.mul(k.loadI32(tokenSeq, token), caps->pages);
      for (int64_t h = 0; h < group; ++h)
        start(k, op, ql, qr, token, k.add(head0, h), h);
      k.loop(k.idx(0), k.divUp(context, kBlock), 1, [&](Value j) {
        Value page = k.at(layer, k.mul(k.loadI32(blockTable, k.add(table, j)), cache(op).getPageBytes()));
        Value valid = k.minI(k.sub(context, k.mul(j, kBlock)), k.idx(kBlock));
        CachedPage cached = CachedPage::read(k, cache(op), page, valid, headAt(k, op, group));
        // Sixteen-lane vectors fill AVX2's registers with half as many heads.
        int64_t together = std::min<int64_t>(group, k.variant.vectorBits == 512 ? 8 : 4);
        for (int64_t h = 0; h < group; h += together)
          scoreKeys(k, attn, cached, valid, h, together);
        for (int64_t h = 0; h < group; ++h)
          k.store(softmaxBlock(k, state(k, op, h), valid), factorAt(k, op, h));
        for (int64_t h = 0; h < group; h += together)
          accumulate(k, op, cached, valid, h, together);
      });
      for (int64_t h = 0; h < group; ++h)
        finishHead(k, op, out, out.row(k, token, k.add(head0, h)), h);
    });
    return success();
  }

private:
  static Value headAt(KernelBuilder &k, Operation *op, int64_t h) { return k.at(k.scratch, h * headBytes(op)); }
  static SoftmaxRow state(KernelBuilder &k, Operation *op, int64_t h) {
    Value scores = k.at(headAt(k, op, h), 4 * queryLanes(op)), rest = k.at(scores, 4 * kBlock);
    return {scores, rest, k.at(rest, 4)};
  }
  static Value factorAt(KernelBuilder &k, Operation *op, int64_t h) { return k.at(state(k, op, h).maximum, 8); }
  static Value accAt(KernelBuilder &k, Operation *op, int64_t h) { return k.at(state(k, op, h).maximum, 4 * kLanes); }

  /// The query of one head in f32, padded with zeros; an empty softmax and accumulator.
  static void start(KernelBuilder &k, Operation *op, const RowOperand &ql, const RowOperand &qr, Value token, Value head, int64_t h) {
    Value dst = headAt(k, op, h);
    auto copy = [&](const RowOperand &q, int64_t n, int64_t at) {
      Value src = q.row(k, token, head);
      forLanes(k, n, [&](Value lane, int64_t count) {
        k.store(k.loadF32(q.elem, lanesAt(k, src, q.elem, lane), kLanes, count), lanesAt(k, dst, k.f32, k.add(lane, at)), 4);
      });
    };
    copy(ql, cache(op).getLatent(), 0);
    copy(qr, cache(op).getRope(), latentLanes(op));
    resetSoftmax(k, state(k, op, h));
    Value acc = accAt(k, op, h);
    k.loop(0, latentLanes(op), kLanes, [&](Value lane) { k.store(k.cf(k.vf32, 0), k.at(acc, k.mul(lane, 4)), 4); });
  }

  /// Scaled scores of `n` heads from `h0` against each cached row: 16 chains over the row, then a fixed tree.
  static void scoreKeys(KernelBuilder &k, kernel::AttnDecodeOp attn, const CachedPage &cached, Value valid, int64_t h0, int64_t n) {
    Operation *op = attn;
    Type elem = cache(op).getElem();
    Value scale = k.cf(k.f32, attn.getScale().convertToDouble());
    k.loop(k.idx(0), valid, 1, [&](Value key) {
      SmallVector<Value> acc(n, k.cf(k.vf32, 0));
      auto part = [&](Value row, int64_t queryLane, int64_t lanes) {
        auto step = [&](Value lane, int64_t count, ValueRange in) {
          Value x = k.loadF32(elem, lanesAt(k, row, elem, lane), kLanes, count);
          SmallVector<Value> next;
          for (int64_t h = 0; h < n; ++h)
            next.push_back(k.fma(x, k.load(k.vf32, lanesAt(k, headAt(k, op, h0 + h), k.f32, k.add(lane, queryLane)), 4), in[h]));
          return next;
        };
        int64_t whole = lanes / kLanes * kLanes;
        if (whole)
          acc = k.loop(k.idx(0), k.idx(whole), kLanes, acc, [&](Value lane, ValueRange in) { return step(lane, kLanes, in); });
        if (lanes % kLanes)
          acc = step(k.idx(whole), lanes % kLanes, acc);
      };
      part(cached.latentAt(k, key), 0, cache(op).getLatent());
      part(cached.ropeAt(k, key), latentLanes(op), cache(op).getRope());
      for (int64_t h = 0; h < n; ++h)
        k.store(k.fmul(k.reduceAdd(acc[h]), scale), lanesAt(k, state(k, op, h0 + h).scores, k.f32, key));
    });
  }

  static void accumulate(KernelBuilder &k, Operation *op, const CachedPage &cached, Value valid, int64_t h0, int64_t n) {
    Type elem = cache(op).getElem();
    forLanes(k, cache(op).getLatent(), [&](Value lane, int64_t count) {
      SmallVector<Value> init;
      for (int64_t h = 0; h < n; ++h)
        init.push_back(k.fmul(k.load(k.vf32, lanesAt(k, accAt(k, op, h0 + h), k.f32, lane), 4), k.splat(k.load(k.f32, factorAt(k, op, h0 + h)))));
      SmallVector<Value> sums = k.loop(k.idx(0), valid, 1, init, [&](Value key, ValueRange in) {
        Value x = k.loadF32(elem, lanesAt(k, cached.latentAt(k, key), elem, lane), kLanes, count);
        SmallVector<Value> next;
        for (int64_t h = 0; h < n; ++h)
          next.push_back(k.fma(k.splat(k.load(k.f32, lanesAt(k, state(k, op, h0 + h).scores, k.f32, key))), x, in[h]));
        return next;
      });
      for (int64_t h = 0; h < n; ++h)
        k.store(sums[h], lanesAt(k, accAt(k, op, h0 + h), k.f32, lane), 4);
    });
  }

  static void finishHead(KernelBuilder &k, Operation *op, const RowOperand &out, Value outRow, int64_t h) {
    Value sum = k.splat(k.load(k.f32, state(k, op, h).sum)), acc = accAt(k, op, h);
    forLanes(k, cache(op).getLatent(), [&](Value lane, int64_t count) {
      Value v = k.fdiv(k.load(k.vf32, lanesAt(k, acc, k.f32, lane), 4), sum);
      k.storeF32(out.elem, v, lanesAt(k, outRow, out.elem, lane), count);
    });
  }
};

} // namespace

void addAttentionEmitters(KernelRegistry &r) {
  r.add(std::make_unique<AttnPrefillEmitter>());
  r.add(std::make_unique<AttnDecodeEmitter>());
}

} // namespace dsv3::codegen
