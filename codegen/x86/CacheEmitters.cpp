// Rotary embedding, and the kernels that write the paged cache or expand it.
#include "codegen/x86/CachedPage.h"
#include "codegen/x86/PanelGemm.h"
#include "codegen/x86/RowOps.h"

using namespace mlir;

namespace dsv3::codegen {

void rotateLanes(KernelBuilder &k, Attribute ropeAttr, Value tableRow, Value src, Type from, int64_t srcLane, Value dst, Type to,
                 int64_t dstLane) {
  auto rope = cast<ir::RopeAttr>(ropeAttr);
  int64_t half = rope.getDims() / 2;
  k.loop(0, half, 1, [&](Value i) {
    Value a = rope.getInterleaved() ? k.mul(i, 2) : i;
    Value c = rope.getInterleaved() ? k.add(a, 1) : k.add(i, half);
    auto lane = [&](Value row, Type elem, Value index, int64_t base) { return lanesAt(k, row, elem, k.add(index, base)); };
    Value x = k.loadScalarF32(from, lane(src, from, a, srcLane)), y = k.loadScalarF32(from, lane(src, from, c, srcLane));
    Value cosine = k.load(k.f32, lanesAt(k, tableRow, k.f32, i)), sine = k.load(k.f32, lanesAt(k, tableRow, k.f32, k.add(i, half)));
    k.storeScalarF32(to, k.fsub(k.fmul(x, cosine), k.fmul(y, sine)), lane(dst, to, a, dstLane));
    k.storeScalarF32(to, k.fadd(k.fmul(y, cosine), k.fmul(x, sine)), lane(dst, to, c, dstLane));
  });
}

namespace {

std::string f32OrBf16(Operation *op, std::initializer_list<unsigned> operands) {
  for (unsigned i : operands)
    if (!isa<Float32Type, BFloat16Type>(cast<RankedTensorType>(op->getOperand(i).getType()).getElementType()))
      return "operand " + std::to_string(i) + " must be f32 or bf16";
  return {};
}

/// kernel.rope: tile = one token.
class RopeEmitter : public X86Emitter {
public:
  RopeEmitter() : X86Emitter("kernel.rope", "x86.rope") {}
  std::string whyIllegal(Operation *op) const override { return f32OrBf16(op, {0, 3}); }
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_TOKEN_POS}, {}}; }
  TileCount tiles(Operation *) const override { return {DSV3_SCALAR_TOKENS, 1, 1}; }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto rope = cast<kernel::RopeOp>(op);
    RowOperand x = rows(k, refs, op, 0), table = rows(k, refs, op, 1), y = rows(k, refs, op, 3);
    Value positions = k.buf(refs.of(2));
    RankedTensorType type = tensorType(rope.getX());
    int64_t last = type.getShape().back(), at = rope.getAt(), after = at + rope.getRope().getDims();
    bool inPlace = kernel::getRowAccess(rope.getX()).base == kernel::getRowAccess(rope.getOut()).base;
    k.loop(k.begin, k.end, 1, [&](Value t) {
      Value tableRow = table.row(k, k.loadI32(positions, t));
      k.loop(0, innerRows(type), 1, [&](Value h) {
        Value src = x.row(k, t, h), dst = y.row(k, t, h);
        if (!inPlace) {
          copy(k, src, x.elem, dst, y.elem, 0, at);
          copy(k, src, x.elem, dst, y.elem, after, last - after);
        }
        rotateLanes(k, rope.getRope(), tableRow, src, x.elem, at, dst, y.elem, at);
      });
    });
    return success();
  }

private:
  static void copy(KernelBuilder &k, Value src, Type from, Value dst, Type to, int64_t first, int64_t n) {
    forLanes(k, n, [&](Value lane, int64_t count) {
      Value at = k.add(lane, first);
      k.storeF32(to, k.loadF32(from, lanesAt(k, src, from, at), kLanes, count), lanesAt(k, dst, to, at), count);
    });
  }
};

/// kernel.kv_append: tile = one token.
class KvAppendEmitter : public X86Emitter {
public:
  KvAppendEmitter() : X86Emitter("kernel.kv_append", "x86.kv_append") {}
  std::string whyIllegal(Operation *op) const override { return f32OrBf16(op, {0, 1}); }
  kernel::NumericsAttr numerics(Operation *op) const override {
    Type f32 = Float32Type::get(op->getContext());
    return kernel::NumericsAttr::get(op->getContext(), f32, f32, "lanes16", 0);
  }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_TOKEN_POS, DSV3_FIELD_TOKEN_SLOT}, {int64_t(cast<kernel::KvAppendOp>(op).getLayer())}};
  }
  TileCount tiles(Operation *) const override { return {DSV3_SCALAR_TOKENS, 1, 1}; }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto append = cast<kernel::KvAppendOp>(op);
    ir::KvType kv = append.getKv().getType();
    RowOperand x = rows(k, refs, op, 0), gamma = rows(k, refs, op, 1), table = rows(k, refs, op, 2);
    Value positions = k.buf(refs.of(3)), slots = k.buf(refs.of(3) + 1);
    Value layer = k.at(k.buf(refs.of(4)), k.mul(k.scalar(DSV3_SCALAR_COUNT), k.scalar(DSV3_SCALAR_KV_LAYER_STRIDE)));
    int64_t n = kv.getLatent();
    double eps = append.getEps().convertToDouble();
    k.loop(k.begin, k.end, 1, [&](Value t) {
      Value slot = k.load(k.i64, k.at(slots, k.mul(t, 8))), src = x.row(k, t);
      k.when(k.ge(slot, k.idx(0)), [&] {
        Value page = k.at(layer, k.mul(k.div(slot, kv.getPage()), kv.getPageBytes())), token = k.rem(slot, kv.getPage());
        Value squares = sumLanes(k, n, [&](Value lane, int64_t count, Value acc) {
          Value v = k.loadF32(x.elem, lanesAt(k, src, x.elem, lane), kLanes, count);
          return k.fma(v, v, acc);
        });
        Value scale = rmsScale(k, squares, n, eps);
        storeLatent(k, kv, page, token, [&](Value lane, int64_t count) {
          Value v = k.loadF32(x.elem, lanesAt(k, src, x.elem, lane), kLanes, count);
          Value g = k.loadF32(gamma.elem, lanesAt(k, gamma.base, gamma.elem, lane), kLanes, count);
          return k.fmul(k.fmul(v, scale), g);
        });
        Value key = k.at(k.at(page, kv.getRopeAt()), k.mul(token, kv.getRopePitch()));
        rotateLanes(k, append.getRope(), table.row(k, k.loadI32(positions, t)), src, x.elem, n, key, kv.getElem(), 0);
      });
    });
    return success();
  }
};

/// kernel.kv_expand: tile = (key block, head).
class KvExpandEmitter : public X86Emitter {
public:
  KvExpandEmitter() : X86Emitter("kernel.kv_expand", "x86.kv_expand") {}
  std::string whyIllegal(Operation *op) const override {
    if (cast<kernel::KvExpandOp>(op).getKeyRows())
      return "keys stand a row per key, expected a row per lane";
    for (unsigned w : {1u, 2u})
      if (std::string why = whyNotPanels(tensorType(op->getOperand(w))); !why.empty())
        return why;
    return f32OrBf16(op, {4, 5});
  }
  kernel::NumericsAttr numerics(Operation *op) const override {
    Type mul = multiplyType(cast<kernel::KvExpandOp>(op).getKv().getType().getElem(), tensorType(op->getOperand(1)));
    return kernel::NumericsAttr::get(op->getContext(), Float32Type::get(op->getContext()), mul, "k_ascending", 0);
  }
  kernel::PackedAttr weightEncoding(Operation *, unsigned index, RankedTensorType type) const override {
    return index == 1 || index == 2 ? panelEncoding(type) : kernel::PackedAttr();
  }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_KBLOCK, DSV3_FIELD_CTX_LEN, DSV3_FIELD_BLOCK_TABLE}, {int64_t(cast<kernel::KvExpandOp>(op).getLayer())}};
  }
  TileCount tiles(Operation *op) const override { return {DSV3_SCALAR_KBLOCKS, 1, tensorType(op->getOperand(1)).getDimSize(0)}; }
  int64_t scratchBytes(Operation *op) const override {
    return PanelGemm::scratchBytes(Capacities::kKeyBlock, kPanels) + CachedPage::scratchBytes(cast<kernel::KvExpandOp>(op).getKv().getType());
  }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto expand = cast<kernel::KvExpandOp>(op);
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    if (failed(caps))
      return failure();
    ir::KvType kv = expand.getKv().getType();
    int64_t page = kv.getPage();
    RankedTensorType keysType = tensorType(expand.getKeysOut()), valuesType = tensorType(expand.getValuesOut());
    int64_t heads = keysType.getDimSize(1);
    Value layer = k.at(k.buf(refs.of(0)), k.mul(k.scalar(DSV3_SCALAR_COUNT), k.scalar(DSV3_SCALAR_KV_LAYER_STRIDE)));
    Value kblocks = k.buf(refs.of(3)), ctxLen = k.buf(refs.of(3) + 1), blockTable = k.buf(refs.of(3) + 2);
    Value keys = k.buf(refs.of(4)), values = k.buf(refs.of(5));
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value head = k.rem(tile, heads), block = k.div(tile, heads);
      Value seq = k.loadI32(kblocks, k.mul(block, 2)), index = k.loadI32(kblocks, k.add(k.mul(block, 2), 1));
      Value count = k.minI(k.sub(k.loadI32(ctxLen, seq), k.mul(index, page)), k.idx(page));
      Value pageId = k.loadI32(blockTable, k.add(k.mul(seq, caps->pages), index));
      Value copy = k.at(k.scratch, PanelGemm::scratchBytes(Capacities::kKeyBlock, kPanels));
      CachedPage cached = CachedPage::read(k, kv, k.at(layer, k.mul(pageId, kv.getPageBytes())), count, copy);
      Value keysTile = k.at(keys, k.mul(tile, tileBytes(keysType))), valuesTile = k.at(values, k.mul(tile, tileBytes(valuesType)));
      k.when(k.lt(count, k.idx(page)), [&] { // rows past the context must not be garbage: 0 * NaN is NaN
        zero(k, keysTile, tileBytes(keysType));
        zero(k, valuesTile, tileBytes(valuesType));
      });
      expandKeys(k, op, refs, head, count, cached, keysTile);
      copyRope(k, kv, keysType, count, cached, keysTile);
      expandValues(k, op, refs, head, count, cached, valuesTile);
    });
    return success();
  }

private:
  static constexpr int64_t kPanels = 2;

  /// Bytes of one (block, head) of keys or values.
  static int64_t tileBytes(RankedTensorType t) { return t.getDimSize(2) * t.getDimSize(3) * elemBytes(t.getElementType()); }

  static void zero(KernelBuilder &k, Value base, int64_t bytes) {
    k.loop(0, bytes, 4, [&](Value at) { k.store(k.cint(k.i32, 0), k.at(base, at), 4); });
  }

  WeightPanels panel(KernelBuilder &k, Operation *op, const RefMap &refs, unsigned operand, Value head, Value index) const {
    auto parts = kernel::getPackedParts(tensorType(op->getOperand(operand)));
    auto base = [&](size_t part) { return k.at(k.buf(refs.of(operand) + unsigned(part)), k.mul(head, parts[part].outerStride)); };
    return {tensorType(op->getOperand(operand)), base(0), parts.size() > 1 ? base(1) : Value(), parts.size() > 2 ? base(2) : Value(), index};
  }

  /// Two panels at a time, so that a broadcast feeds two products: 16 lanes of the head each, for all keys of the block.
  void forPanels(KernelBuilder &k, Operation *op, const RefMap &refs, unsigned operand, Value head, Value count, const CachedPage &x,
                 llvm::function_ref<void(Value row, Value panel, int64_t lanes, Value acc)> store) const {
    WeightShape shape(tensorType(op->getOperand(operand)));
    auto emit = [&](Value index, int64_t panels, int64_t lanes) {
      ir::KvType kv = cast<kernel::KvExpandOp>(op).getKv().getType();
      PanelGemm gemm(k, kv.getElem(), {panel(k, op, refs, operand, head, index)}, panels, Capacities::kKeyBlock, count,
                     [&](Value row) { return x.latentAt(k, row); }, x.latentPitch,
                     [&](Value row, int64_t p, ArrayRef<Value> acc) { store(row, k.add(index, p), lanes, acc[0]); });
      gemm.emit();
    };
    int64_t whole = shape.n / kLanes, paired = whole / kPanels * kPanels;
    k.loop(0, paired, kPanels, [&](Value index) { emit(index, kPanels, kLanes); });
    k.loop(paired, whole, 1, [&](Value index) { emit(index, 1, kLanes); });
    if (shape.n % kLanes)
      emit(k.idx(whole), 1, shape.n % kLanes);
  }

  void expandKeys(KernelBuilder &k, Operation *op, const RefMap &refs, Value head, Value count, const CachedPage &x, Value keys) const {
    RankedTensorType type = tensorType(op->getOperand(4));
    int64_t page = type.getDimSize(3), bytes = elemBytes(type.getElementType());
    forPanels(k, op, refs, 1, head, count, x, [&](Value row, Value panel, int64_t lanes, Value acc) {
      Value rounded = type.getElementType().isBF16() ? k.toBF16(acc) : acc; // all lanes at once
      for (int64_t i = 0; i < lanes; ++i) { // transposed: a row per lane
        Value lane = LLVM::ExtractElementOp::create(k.b, rounded, k.cint(k.i32, i));
        Value at = k.add(k.mul(k.add(k.mul(panel, kLanes), i), page), row);
        k.store(lane, k.at(keys, k.mul(at, bytes)));
      }
    });
  }

  static void copyRope(KernelBuilder &k, ir::KvType kv, RankedTensorType type, Value count, const CachedPage &x, Value keys) {
    int64_t page = type.getDimSize(3), bytes = elemBytes(type.getElementType()), nope = type.getDimSize(2) - kv.getRope();
    k.loop(k.idx(0), count, 1, [&](Value row) {
      Value src = x.ropeAt(k, row);
      k.loop(0, kv.getRope(), 1, [&](Value r) {
        Value v = k.loadScalarF32(kv.getElem(), lanesAt(k, src, kv.getElem(), r));
        Value at = k.add(k.mul(k.add(r, nope), page), row);
        k.storeScalarF32(type.getElementType(), v, k.at(keys, k.mul(at, bytes)));
      });
    });
  }

  void expandValues(KernelBuilder &k, Operation *op, const RefMap &refs, Value head, Value count, const CachedPage &x, Value values) const {
    RankedTensorType type = tensorType(op->getOperand(5));
    int64_t bytes = elemBytes(type.getElementType());
    forPanels(k, op, refs, 2, head, count, x, [&](Value row, Value panel, int64_t lanes, Value acc) {
      Value at = k.add(k.mul(row, type.getDimSize(3)), k.mul(panel, kLanes));
      k.storeF32(type.getElementType(), acc, k.at(values, k.mul(at, bytes)), lanes);
    });
  }
};

} // namespace

void addCacheEmitters(KernelRegistry &r) {
  r.add(std::make_unique<RopeEmitter>());
  r.add(std::make_unique<KvAppendEmitter>());
  r.add(std::make_unique<KvExpandEmitter>());
}

} // namespace dsv3::codegen
