#include "codegen/sm90/gemm/KvExpandKernel.h"

#include "runtime/core/Abi.h"

using namespace mlir;

namespace dsv3::codegen {

static ColsSpec colsSpec(const KvExpandSpec &spec) {
  ColsSpec cols;
  cols.schedule = spec.schedule;
  cols.k = spec.latent;
  // What `ColsSpec::staged` asks, of both halves.
  cols.n = spec.nope % 64 || spec.values % 64 ? 8 : 64;
  cols.outPitch = (spec.nope + spec.rope) % 8 || spec.values % 8 ? 1 : 8;
  cols.operands = spec.blockScaled ? Operands::ExpandedFp8 : Operands::Bf16;
  cols.stacked = true;
  cols.outElem = spec.outElem;
  return cols;
}

GemmShape kvExpandShape(const KvExpandSpec &spec, int64_t keyBlocks) {
  GemmShape p;
  p.rows = keyBlocks * KvExpandSpec::kPage;
  p.n = spec.nope + spec.values, p.k = spec.latent;
  p.batch = spec.heads;
  p.operands = spec.blockScaled ? Operands::ExpandedFp8 : Operands::Bf16;
  return p;
}

int64_t sharedBytes(const KvExpandSpec &spec) { return sharedBytes(colsSpec(spec)); }

namespace {
class KvExpandKernel : public ColsKernel {
public:
  KvExpandKernel(TileBuilder &k, const KvExpandSpec &spec, ColsSpec &cols) : ColsKernel(k, cols), e(spec), cols(cols) {}

private:
  static constexpr int64_t kPage = KvExpandSpec::kPage;
  enum Half { Key, Value_ };

  int64_t rowsOf(Half half) const { return half == Key ? e.nope : e.values; }
  int64_t tilesOf(Half half) const { return (rowsOf(half) + s.bm() - 1) / s.bm(); }
  int64_t pagesPerItem() const { return s.tokens / kPage; }
  int64_t lanes() const { return e.latent + e.rope; }

  SmallVector<Type> params() override {
    constexpr int64_t any = ShapedType::kDynamic;
    SmallVector<Type> types{k.tma(k.bf16, {kPage, 64}), k.gmem({any, lanes()}, k.bf16)};
    for (int half = 0; half < 2; ++half)
      addWeightParams(types, /*stacked=*/true);
    types.append({k.gmem({any, 2}, k.i32), k.gmem({any, e.pages}, k.i32), k.gmem({any}, k.i32), k.gmem({any, e.nope + e.rope}, k.bf16),
                  k.gmem({any, e.values}, k.bf16), k.b.getI64Type()});
    return types;
  }

  void takeParams(ArrayRef<Value> args) override {
    cacheMap = args[0], cache = args[1], args = args.drop_front(2);
    for (int half = 0; half < 2; ++half) {
      w[half] = args[0];
      if (e.blockScaled)
        scales[half] = args[1];
      args = args.drop_front(e.blockScaled ? 2 : 1);
    }
    blocks = args[0], table = args[1], contexts = args[2], outs[Key] = args[3], outs[Value_] = args[4], layer = args[5];
  }

  Type scalarsType() const override { return k.gmem({DSV3_SCALAR_COUNT}, k.b.getI64Type()); }

  Value makeWork(Value scalars) override {
    auto scalar = [&](int64_t index) { return k.read(scalars, {index}, k.b.getI64Type()); };
    auto narrow = [&](Value v) -> Value { return arith::TruncIOp::create(k.b, k.i32, v); };
    count = narrow(scalar(DSV3_SCALAR_KBLOCKS));
    // Rows of the cache in front of this layer. Only bytes need 64 bits.
    firstRow = narrow(k.div(k.mul(layer, scalar(DSV3_SCALAR_KV_LAYER_STRIDE)), lanes() * 2));
    return k.raster({e.heads, tilesOf(Key) + tilesOf(Value_), count}, {1, 1, pagesPerItem()}, 8, {"head", "tile", "block"});
  }

  ColsItem item(ArrayRef<Value> at) override {
    ColsItem item;
    Value tile = at[1];
    isKey = k.lt(tile, tilesOf(Key));
    item.stack = at[0];
    item.n = k.mul(k.select(isKey, tile, k.sub(tile, tilesOf(Key))), s.bm());
    item.row = at[2];
    item.rows = k.sub(count, at[2]); // key blocks
    return item;
  }

  //===-- The copying thread ----------------------------------------------===//

  /// A key block of an item, or the step's last one where the list has ended: its sequence and its place there.
  std::pair<Value, Value> keyBlock(const ColsItem &item, int64_t p) {
    Value b = k.min(k.add(item.row, p), k.sub(count, 1));
    return {k.read(blocks, {b, 0}, k.i32), k.read(blocks, {b, 1}, k.i32)};
  }
  /// First row of the cache that holds it.
  Value cacheRow(std::pair<Value, Value> block) {
    return k.add(firstRow, k.mul(k.read(table, {block.first, block.second}, k.i32), kPage));
  }

  /// The same of page p of an item, or the first of the gathered rows.
  Value firstRowOf(const ColsItem &item, int64_t p) {
    if (e.gathered)
      return k.mul(k.min(k.add(item.row, p), k.sub(count, 1)), kPage);
    return cacheRow(keyBlock(item, p));
  }

  void prepare(const ColsItem &item) override {
    pageRows.clear();
    for (int64_t p = 0; p < pagesPerItem(); ++p)
      pageRows.push_back(firstRowOf(item, p));
  }

  /// A path each, so that the fill's bytes are known: which weight is read is the item's.
  Value loadItem(const ColsItem &item, Value slot) override {
    auto path = [&](Half which) {
      return [&, which] {
        half = which;
        return Values{ColsKernel::loadItem(item, slot)};
      };
    };
    return k.choose(isKey, {slot.getType()}, path(Key), path(Value_))[0];
  }

  /// A swizzle atom at a time: a page's rows of several atoms are no view.
  void copyRows(const ColsItem &, Value kk, Value dest) override {
    for (auto [p, row] : llvm::enumerate(pageRows))
      for (int64_t c = 0; c < s.bk; c += 64)
        k.copy(cacheMap, {row, k.add(kk, c)}, k.view(k.buf({kPage, 64}, k.bf16), dest, {int64_t(p) * kPage, c}));
  }

  void copyWeight(int64_t, const ColsItem &item, Value kk, Value dest) override {
    cols.n = rowsOf(half);
    if (e.blockScaled)
      return copyBlocks(w[half], item, kk, dest);
    copyTile(w[half], item.stack, item.n, kk, dest);
  }

  //===-- Consumers -------------------------------------------------------===//

  Value readScale(int64_t, const ColsItem &item, Value g, Value kBlock) override {
    auto path = [&](Half which) {
      return [&, which] {
        cols.n = rowsOf(which);
        return Values{k.read(scales[which], {weightBlock(item, g), kBlock}, k.f32)};
      };
    };
    return k.choose(isKey, {k.f32}, path(Key), path(Value_))[0];
  }

  void store(Value value, const ColsItem &item, Value g, Value, Value) override {
    for (int64_t p = 0; p < pagesPerItem(); ++p) {
      auto block = keyBlock(item, p);
      // Of the page, rows in the context; the others become zero. Of the item, blocks that exist.
      Value known = k.sub(k.read(contexts, {block.first}, k.i32), k.mul(block.second, kPage));
      Value rows = k.select(k.lt(k.ci(p), item.rows), k.ci(kPage), k.ci(0));
      Value first = k.mul(k.add(k.mul(k.add(item.row, p), e.heads), item.stack), kPage);
      Value page = masked(k.slice(value, p * kPage, kPage), known, /*dim=*/1), n = k.add(item.n, k.mul(g, 64));
      k.choose(
          isKey, {},
          [&] {
            storePage(page, Key, first, n, rows);
            k.when(k.eq(n, 0), [&] { copyRotary(firstRowOf(item, p), known, first, rows); });
            return Values();
          },
          [&] {
            storePage(page, Value_, first, n, rows);
            return Values();
          });
    }
  }

  void storePage(Value page, Half which, Value row, Value n, Value rows) {
    int64_t all = rowsOf(which);
    Value cols_ = all % 64 ? k.sub(k.ci(all), n) : Value();
    if (!cols_ && all % s.bm())
      rows = k.select(k.lt(n, all), rows, k.ci(0));
    writeRows(page, outs[which], row, n, rows, cols_);
  }

  void copyRotary(Value cached, Value known, Value row, Value rows) {
    Value lanes = k.read(cache, {cached, e.latent}, k.frag(e.rope, k.bf16));
    k.write(masked(lanes, known, /*dim=*/0), outs[Key], {row, e.nope}, rows);
  }

  /// Zero where the index along `dim` is not below `known`.
  Value masked(Value frag, Value known, int64_t dim) {
    int64_t columns = cast<RankedTensorType>(frag.getType()).getDimSize(1);
    Type index = k.frag(columns, k.i32);
    return k.select(k.lt(k.iota(dim, index), k.bcast(known, index)), frag, k.constant(frag.getType(), 0));
  }

  const KvExpandSpec &e;
  ColsSpec &cols; ///< the same as `spec`; n is that of the half at hand
  Value cacheMap, cache, blocks, table, contexts, layer, count, firstRow;
  std::array<Value, 2> w, scales, outs;
  // Of the item whose code is being written.
  Value isKey;
  Half half = Key;
  SmallVector<Value, 4> pageRows;
};
} // namespace

void buildKvExpandKernel(TileBuilder &k, StringRef symbol, const KvExpandSpec &spec) {
  ColsSpec cols = colsSpec(spec);
  KvExpandKernel(k, spec, cols).build(symbol);
}

} // namespace dsv3::codegen
