// Rotary embedding, and the kernel that writes the paged cache.
#include "codegen/sm90/simt/CodeRows.h"
#include "codegen/sm90/simt/RowNorm.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// Rotates pairs of lanes by a table row (cosines, then sines): `pairs` at a time, so that every access is a vector.
struct Rotation {
  /// `whole`: which row strides and offsets (in elements) the vectors of source and destination must divide.
  Rotation(Attribute rope, int64_t alignment) : rope(cast<ir::RopeAttr>(rope)) {
    int64_t most = this->rope.getInterleaved() ? alignment / 2 : alignment;
    for (pairs = 4; pairs > 1 && (most % pairs || half() % pairs);)
      pairs /= 2;
  }
  int64_t half() const { return rope.getDims() / 2; }
  int64_t items() const { return half() / pairs; }

  /// Item `item` (i32): `source` and `destination` are the addresses of the first rotated lane. They may be equal: an
  /// item reads its lanes before it writes them, and no other item has them.
  void rotate(SimtBuilder &k, Value item, Value tableRow, const Rows &from, Value source, Type to, Value destination) const {
    Value first = k.mul(item, pairs);
    Lanes cosine = k.loadF32(k.f32, k.element(tableRow, first, 4), pairs, true);
    Lanes sine = k.loadF32(k.f32, k.element(tableRow, k.add(first, half()), 4), pairs, true);
    bool interleaved = rope.getInterleaved();
    auto at = [&](Value base, Type elem, Value lane) { return k.element(base, lane, elemBytes(elem)); };
    Value low = interleaved ? k.mul(first, 2) : first, high = k.add(first, half());
    Lanes x = from.load(k, at(source, from.elem, low), interleaved ? 2 * pairs : pairs);
    if (!interleaved)
      x.append(from.load(k, at(source, from.elem, high), pairs));
    for (int64_t i = 0; i < pairs; ++i) {
      Value &a = x[interleaved ? 2 * i : i], &c = x[interleaved ? 2 * i + 1 : i + pairs];
      Value turned = k.fsub(k.fmul(a, cosine[i]), k.fmul(c, sine[i]));
      c = k.fadd(k.fmul(c, cosine[i]), k.fmul(a, sine[i]));
      a = turned;
    }
    ArrayRef<Value> lanes = x;
    if (interleaved)
      return k.storeF32(to, lanes, at(destination, to, low));
    k.storeF32(to, lanes.take_front(pairs), at(destination, to, low));
    k.storeF32(to, lanes.drop_front(pairs), at(destination, to, high));
  }

  ir::RopeAttr rope;
  int64_t pairs;
};

/// kernel.rope: x, table, seq, out. An item is a vector of pairs, or of lanes that pass.
class RopeEmitter : public FlatEmitter {
public:
  RopeEmitter() : FlatEmitter("kernel.rope", "sm90.rope") {}
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_TOKEN_POS}, {}}; }
  DeviceCost cost(Operation *op) const override {
    auto rope = cast<kernel::RopeOp>(op);
    double lanes = double(rowCapacity(rope.getX())) * double(inPlace(rope) ? rope.getRope().getDims() : lastDim(rope.getX()));
    double bytes = elemBytes(tensorType(rope.getX()).getElementType()) + elemBytes(tensorType(rope.getOut()).getElementType());
    return {lanes * bytes + double(tensorType(rope.getX()).getDimSize(0) * rope.getRope().getDims() * 4), 0};
  }

protected:
  static bool inPlace(kernel::RopeOp rope) { return kernel::getRowAccess(rope.getX()).base == kernel::getRowAccess(rope.getOut()).base; }
  /// Lanes after the rotated ones.
  static int64_t after(kernel::RopeOp rope) { return lastDim(rope.getX()) - int64_t(rope.getAt()) - rope.getRope().getDims(); }
  static Rotation rotation(kernel::RopeOp rope) { return Rotation(rope.getRope(), vectorWidth(rope, {0, 3}, {int64_t(rope.getAt())})); }
  static int64_t copyWidth(kernel::RopeOp rope) {
    return vectorWidth(rope, {0, 3}, {int64_t(rope.getAt()), int64_t(rope.getRope().getDims()), after(rope)});
  }
  static int64_t copies(kernel::RopeOp rope) {
    return inPlace(rope) ? 0 : (lastDim(rope.getX()) - int64_t(rope.getRope().getDims())) / copyWidth(rope);
  }

  int64_t items(Operation *op) const override {
    auto rope = cast<kernel::RopeOp>(op);
    return copies(rope) + rotation(rope).items();
  }

  void item(Operation *op, SimtBuilder &k, const RefMap &refs, Value row, Value item) const override {
    auto rope = cast<kernel::RopeOp>(op);
    Rows x = rows(k, refs, op, 0), table = rows(k, refs, op, 1), out = rows(k, refs, op, 3);
    RankedTensorType type = tensorType(rope.getX());
    Value at = k.idx(rope.getAt());
    auto rotate = [&](Value index) {
      Value token = type.getRank() == 3 ? k.div(row, type.getDimSize(1)) : row;
      Value position = k.loadScalar(k.i32, k.element(k.param(refs.of(2)), token, 4), /*readOnly=*/true);
      rotation(rope).rotate(k, index, table.at(k, position), x, x.at(k, row, at), out.elem, out.at(k, row, at));
    };
    int64_t passing = copies(rope);
    if (!passing)
      return rotate(item);
    int64_t n = copyWidth(rope);
    k.when(
        k.lt(item, k.idx(passing)),
        [&] {
          Value lane = k.mul(item, n), behind = k.add(lane, rope.getRope().getDims());
          lane = k.select(k.lt(lane, at), lane, behind);
          k.storeF32(out.elem, x.load(k, x.at(k, row, lane), n), out.at(k, row, lane));
        },
        [&] { rotate(k.add(item, -passing)); });
  }
};

/// kernel.kv_rows: kv, seq, out. A block expands an eighth of a page of codes.
class KvRowsEmitter : public SimtEmitter {
public:
  KvRowsEmitter() : SimtEmitter("kernel.kv_rows", "sm90.kv_rows") {}
  std::string whyIllegal(Operation *op) const override {
    ir::KvType kv = cast<kernel::KvRowsOp>(op).getKv().getType();
    return kv.getLatent() % kVector || kv.getRope() % kVector || kv.getPage() % kParts ? "latent and rope must be multiples of 8" : "";
  }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_KBLOCK, DSV3_FIELD_CTX_LEN, DSV3_FIELD_BLOCK_TABLE}, {int64_t(cast<kernel::KvRowsOp>(op).getLayer())}};
  }
  DeviceCost cost(Operation *op) const override {
    auto rows = cast<kernel::KvRowsOp>(op);
    return {double(tensorType(rows.getOut()).getDimSize(0)) * double(rows.getKv().getType().getPageBytes()) +
                double(kernel::getValueBytes(tensorType(rows.getOut()))),
            0};
  }

protected:
  static constexpr int64_t kThreads = 128, kParts = 8, kVector = 8;
  int64_t threads(Operation *) const override { return kThreads; }
  int64_t blocks(Operation *op) const override { return tensorType(op->getResult(0)).getDimSize(0) * kParts; }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    auto rows = cast<kernel::KvRowsOp>(op);
    ir::KvType kv = rows.getKv().getType();
    FailureOr<Capacities> caps = Capacities::fromModule(op);
    int64_t width = kv.getLatent() + kv.getRope(), vectors = width / kVector, tokens = kv.getPage() / kParts;
    Value block = k.div(k.block(), kParts), first = k.mul(k.rem(k.block(), kParts), tokens);
    k.when(k.lt(block, k.scalarI32(DSV3_SCALAR_KBLOCKS)), [&] {
      auto field = [&](unsigned i, Value index) { return k.loadScalar(k.i32, k.element(k.param(refs.of(1) + i), index, 4), /*readOnly=*/true); };
      Value seq = field(0, k.mul(block, 2)), index = field(0, k.add(k.mul(block, 2), 1));
      Value known = k.sub(field(1, seq), k.mul(index, kv.getPage()));
      Value pageId = field(2, k.add(k.mul(seq, succeeded(caps) ? caps->pages : 1), index));
      Value layer = k.at(k.param(refs.of(0)), k.mul(k.param(refs.size()), k.scalar(DSV3_SCALAR_KV_LAYER_STRIDE)));
      Value page = k.element(layer, pageId, kv.getPageBytes());
      Value out = k.element(k.param(refs.of(2)), block, kv.getPage() * width * elemBytes(kv.getElem()));
      k.loop(k.thread(), k.idx(tokens * vectors), kThreads, [&](Value item) {
        Value token = k.add(first, k.div(item, vectors)), lane = k.mul(k.rem(item, vectors), kVector);
        Value to = k.element(out, k.add(k.mul(token, width), lane), elemBytes(kv.getElem()));
        auto store = [&](Lanes lanes) {
          for (Value &v : lanes)
            v = k.select(k.lt(token, known), v, k.cf(k.f32, 0));
          k.storeF32(kv.getElem(), lanes, to);
        };
        k.when(
            k.lt(lane, k.idx(kv.getLatent())),
            [&] {
              Value scale = k.loadScalar(k.f32, k.element(k.at(page, kv.getScaleAt()), token, 4));
              Lanes lanes = k.loadF8(kv.getCodes(), k.element(k.element(page, token, kv.getLatentPitch()), lane, 1), kVector);
              for (Value &v : lanes)
                v = k.fmul(v, scale);
              store(lanes);
            },
            [&] {
              Value from = k.element(k.at(page, kv.getRopeAt()), token, kv.getRopePitch());
              store(k.loadF32(kv.getElem(), k.element(from, k.add(lane, -kv.getLatent()), elemBytes(kv.getElem())), kVector));
            });
      });
    });
  }
};

/// kernel.kv_append: kv_a, gamma, table, seq, kv; one block a token.
class KvAppendEmitter : public SimtEmitter {
public:
  KvAppendEmitter() : SimtEmitter("kernel.kv_append", "sm90.kv_append") {}
  std::string whyIllegal(Operation *op) const override {
    if (std::string why = floatsOnly(op); !why.empty())
      return why;
    ir::KvType kv = cast<kernel::KvAppendOp>(op).getKv().getType();
    if (!isa<Float32Type, BFloat16Type>(kv.getElem()))
      return "the cache must be f32 or bf16";
    return RowNorm::whyIllegal(kv.getLatent());
  }
  kernel::NumericsAttr numerics(Operation *op) const override { return plan(op).numerics(op->getContext()); }
  LaunchSignature signature(Operation *op) const override {
    return {{DSV3_FIELD_TOKEN_POS, DSV3_FIELD_TOKEN_SLOT}, {int64_t(cast<kernel::KvAppendOp>(op).getLayer())}};
  }
  DeviceCost cost(Operation *op) const override {
    ir::KvType kv = cast<kernel::KvAppendOp>(op).getKv().getType();
    double row = double(kv.getLatent() + kv.getRope());
    int64_t bytes = elemBytes(kv.getElem()) + elemBytes(tensorType(op->getOperand(0)).getElementType());
    return {double(rowCapacity(op->getOperand(0))) * (row * double(bytes) + double(kv.getRope() * 4)), 0};
  }

protected:
  /// What source rows, cache rows and their two parts are whole multiples of, in elements.
  static int64_t alignment(Operation *op) {
    ir::KvType kv = cast<kernel::KvAppendOp>(op).getKv().getType();
    return vectorWidth(op, {0, 1}, {kv.getLatent(), kv.getRope()});
  }
  static RowNorm plan(Operation *op) {
    auto append = cast<kernel::KvAppendOp>(op);
    return RowNorm(append.getKv().getType().getLatent(), alignment(op), append.getEps().convertToDouble());
  }
  int64_t threads(Operation *op) const override { return plan(op).threads; }
  int64_t blocks(Operation *op) const override { return rowCapacity(op->getOperand(0)); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    auto append = cast<kernel::KvAppendOp>(op);
    ir::KvType kv = append.getKv().getType();
    RowNorm norm = plan(op);
    Rows x = rows(k, refs, op, 0), gamma = rows(k, refs, op, 1);
    Value token = k.block(), layer = k.param(refs.size());
    k.when(k.lt(token, rowCount(k, append.getKvA())), [&] {
      Value slot = k.loadScalar(k.i64, k.element(k.param(refs.of(3) + 1), token, 8), /*readOnly=*/true);
      k.when(k.ge(slot, k.cint(k.i64, 0)), [&] { // the same in all threads of the block
        Value start = k.at(k.param(refs.of(4)), k.mul(layer, k.scalar(DSV3_SCALAR_KV_LAYER_STRIDE)));
        Value page = k.element(start, k.div(slot, kv.getPage()), kv.getPageBytes()), place = k.rem(slot, kv.getPage());
        Value row = k.element(page, place, kv.getLatentPitch()), source = x.at(k, token);
        Value key = k.element(k.at(page, kv.getRopeAt()), place, kv.getRopePitch());
        SmallVector<Lanes> values = norm.load(k, x, source), g = norm.load(k, gamma, gamma.base);
        rotateKey(k, op, refs, norm.threads, x, source, key);
        norm.apply(k, values, norm.scale(k, values), g);
        if (!kv.getScheme())
          return norm.store(k, values, kv.getElem(), row);
        storeCodes(k, norm, kv, values, row, k.element(k.at(page, kv.getScaleAt()), place, 4));
      });
    });
  }

private:
  /// One scale for the row, rounded to the cache's element type first: ir::KvType says which. Zeros behind the row's end
  /// are below any magnitude.
  static void storeCodes(SimtBuilder &k, const RowNorm &norm, ir::KvType kv, SmallVector<Lanes> &values, Value row, Value scaleAddress) {
    Value most = k.cf(k.f32, 0);
    for (Lanes &lanes : values) {
      lanes = k.roundTo(kv.getElem(), lanes);
      for (Value v : lanes)
        most = k.fmax(most, k.magnitude(v));
    }
    most = k.maxBlock(most, norm.threads > SimtBuilder::kWarp ? k.shared(norm.threads / SimtBuilder::kWarp * 4) : Value());
    Value scale = codeScale(k, kv.getCodes(), most);
    k.when(k.eq(k.thread(), k.idx(0)), [&] { k.store(scale, scaleAddress); });
    norm.forVectors(k, [&](int64_t i, Value lane) {
      Lanes numbers;
      for (Value v : values[size_t(i)])
        numbers.push_back(k.fdiv(v, scale));
      k.storeF8(kv.getCodes(), numbers, k.element(row, lane, 1));
    });
  }

  static void rotateKey(SimtBuilder &k, Operation *op, const RefMap &refs, int64_t threads, const Rows &x, Value source, Value key) {
    auto append = cast<kernel::KvAppendOp>(op);
    ir::KvType kv = append.getKv().getType();
    Rotation rotation(append.getRope(), alignment(op));
    Rows table = rows(k, refs, op, 2);
    Value position = k.loadScalar(k.i32, k.element(k.param(refs.of(3)), k.block(), 4), /*readOnly=*/true);
    Value from = k.at(source, kv.getLatent() * elemBytes(x.elem));
    auto rotate = [&](Value item) { rotation.rotate(k, item, table.at(k, position), x, from, kv.getElem(), key); };
    if (rotation.items() <= threads)
      return k.when(k.lt(k.thread(), k.idx(rotation.items())), [&] { rotate(k.thread()); });
    k.loop(k.thread(), k.idx(rotation.items()), threads, rotate);
  }
};

} // namespace

void addCacheEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<RopeEmitter>());
  r.add(std::make_unique<KvAppendEmitter>());
  r.add(std::make_unique<KvRowsEmitter>());
}

} // namespace dsv3::codegen
