#include "codegen/sm90/gemm/Int4Kernel.h"

using namespace mlir;

namespace dsv3::codegen {

/// K of a unit, of a group of scales, and of a block of packed weights, which has 64 rows.
static constexpr int64_t kGroup = 128, kBlockBytes = 64 * kGroup / 2;

int64_t sharedBytes(const Int4Spec &spec) {
  const ColsSchedule &s = spec.schedule;
  int64_t blocks = s.bk / kGroup, rows = s.stageRows(spec.weights);
  int64_t stage = rows * s.bk / 2 + s.tokens * s.bk * (spec.wide ? 2 : 1) + (spec.wGrouped ? rows * blocks * (spec.zeros ? 5 : 4) : 0) +
                  (spec.scalesInStage() ? llvm::alignTo(s.tokens * 16, 128) : 0);
  int64_t list = spec.rowTiles ? 16 * (1 + spec.rowTiles) : 0;
  return s.stages * (stage + 16) + list + s.exchangeBytes(spec.weights) + s.handedBytes() + spec.epilogueBytes();
}

namespace {
class Int4Kernel : public ColsKernel {
public:
  Int4Kernel(TileBuilder &k, const Int4Spec &spec, const ColsSource &source)
      : ColsKernel(k, spec), spec(spec), source(source), blocks(s.bk / kGroup), packing(spec.wide ? tile::FragKind::Acc4 : spec.e4m3 ? tile::FragKind::OpA4T : tile::FragKind::OpA4) {
    xElem = spec.wide ? k.bf16 : spec.e4m3 ? k.f8 : k.i8;
    xBuf = k.buf({s.tokens, s.bk}, xElem);
    wBuf = k.fragBuf({s.warpgroups, blocks, 64, kGroup}, k.i4, packing);
    xGroup = k.buf({s.tokens, kGroup}, xElem);
    wGroup = k.fragBuf({64, kGroup}, k.i4, packing);
  }

private:
  //===-- Parameters --------------------------------------------------------===//

  static constexpr int64_t any = ShapedType::kDynamic;

  SmallVector<Type> params() override {
    SmallVector<int64_t> box{s.tokens, spec.wide ? 64 : 128};
    SmallVector<Type> types{spec.gathers ? Type(k.gmem({any, spec.k}, xElem)) : k.tma(xElem, box)};
    if (spec.scalesInStage())
      types.push_back(k.tma(k.f32, {s.tokens, 4}, tile::SmemKind::Linear));
    else if (!spec.wide)
      types.push_back(k.gmem({any, spec.xGrouped ? spec.kBlocks() : 1}, k.f32));
    for (int64_t i = 0; i < spec.weights; ++i) {
      types.push_back(k.gmem({any, spec.kBlocks() * kBlockBytes}, k.i8)); // a row of blocks a row
      types.push_back(k.gmem({any, 64 * (spec.wGrouped ? spec.kBlocks() : 1)}, k.f32));
      if (spec.zeros)
        types.push_back(k.gmem({any, 64 * (spec.wGrouped ? spec.kBlocks() : 1)}, k.i8));
    }
    types.push_back(k.gmem({any, spec.outPitch}, spec.codesOut ? spec.codes(k) : spec.outElem));
    if (spec.codesOut)
      types.push_back(k.gmem({any, spec.n / kGroup}, k.f32));
    types.append(source.params);
    if (spec.gathers)
      types.push_back(k.gmem({any}, k.i32));
    return types;
  }

  void takeParams(ArrayRef<Value> args) override {
    auto take = [&] { return args.consume_front(); };
    if (spec.gathers)
      tokenOf = args.consume_back();
    x = take();
    if (!spec.wide)
      xScales = take();
    for (int64_t i = 0; i < spec.weights; ++i)
      w.push_back(take()), wScales.push_back(take()), wZeros.push_back(spec.zeros ? take() : Value());
    out = take();
    if (spec.codesOut)
      outScales = take();
    own = llvm::to_vector(args);
  }

  Value makeWork(Value scalars) override { return source.work(k, scalars, own); }
  ColsItem item(ArrayRef<Value> fields) override { return source.item(k, fields); }
  bool loadsWeights() const override { return true; }
  /// Sums of integers are the same in any parts.
  int64_t unit() const override { return spec.exact() ? s.bk : kGroup; }
  Type exchangeElem() const override { return spec.exact() ? k.i32 : k.f32; }

  //===-- Producer ----------------------------------------------------------===//

  SmallVector<Type> moreBuffers() override {
    SmallVector<Type> types;
    if (spec.wGrouped)
      for (Type elem : {k.f32, k.i8})
        if (elem == k.f32 || spec.zeros)
          types.append(size_t(held()), k.buf({s.warpgroups, blocks, 64}, elem, tile::SmemKind::Linear));
    if (spec.scalesInStage())
      types.push_back(k.buf({s.tokens, 4}, k.f32, tile::SmemKind::Linear));
    return types;
  }

  void copyRows(const ColsItem &item, Value kk, Value dest) override { copyRowsOf(x, Value(), item, kk, dest); }

  /// Copies of weight `i`, or, where a block has one of a pair, of the one that it has.
  void ofWeight(int64_t i, const ColsItem &item, llvm::function_ref<void(size_t)> copies) {
    if (!s.apart)
      return copies(size_t(i));
    for (size_t w : {0, 1})
      k.when(k.eq(item.part, int64_t(w)), [&] { copies(w); });
  }

  void copyWeight(int64_t i, const ColsItem &item, Value kk, Value dest) override {
    ofWeight(i, item, [&](size_t i) {
      for (int64_t g = 0; g < s.warpgroups; ++g)
        k.copy(w[s.beside ? size_t(g) : i], {weightBlock(item, rowsOf(k.ci(g))), k.mul(kk, 64 / 2)}, k.view(k.fragBuf({blocks, 64, kGroup}, k.i4, packing), dest, {g}));
    });
  }

  /// Scales of all weights, then their zero points: of a row of blocks side by side; then scales of x.
  void copyMore(const ColsItem &item, Value kk, ArrayRef<Value> dest) override {
    if (spec.scalesInStage()) {
      k.copy(xScales, {item.row, k.shl(k.shr(kk, 9), 2)}, dest.back());
      dest = dest.drop_back();
    }
    for (auto [i, buffer] : llvm::enumerate(dest)) {
      bool zeros = i >= size_t(held());
      ofWeight(int64_t(i) % held(), item, [&, buffer = buffer](size_t weight) {
        ArrayRef<Value> sources = zeros ? wZeros : wScales;
        for (int64_t g = 0; g < s.warpgroups; ++g)
          k.copy(sources[s.beside ? size_t(g) : weight], {weightBlock(item, rowsOf(k.ci(g))), k.shr(kk, 1)}, k.view(k.buf({blocks, 64}, zeros ? k.i8 : k.f32, tile::SmemKind::Linear), buffer, {g}));
      });
    }
  }

  //===-- Consumers ---------------------------------------------------------===//

  /// Scales per row are on their way while K is multiplied.
  void begin(const ColsItem &item, Value g) override {
    rowScales.clear(), rowZeros.clear();
    for (auto [scales, zeros] : llvm::zip(wScales, wZeros)) {
      rowScales.push_back(spec.wGrouped ? Value() : k.read(scales, {weightBlock(item, g), 0}, k.row(k.f32)));
      rowZeros.push_back(spec.wGrouped || !zeros ? Value() : asFloat(k.read(zeros, {weightBlock(item, g), 0}, k.row(k.i8))));
    }
  }
  Value asFloat(Value zeros) { return arith::SIToFPOp::create(k.b, k.row(k.f32), arith::ExtSIOp::create(k.b, k.row(k.i32), zeros)); }

  Values multiplyItem(const ColsItem &item, Value g, Value slot) override {
    if (!spec.promoted())
      return multiplyWhole(item, g, slot);
    return spec.parts > s.split ? multiplyParts(item, g, slot) : multiplyGroups(item, range(item), g, slot);
  }

  /// A block adds up what those of a cluster would exchange. Minus zero and the first part is that part, be it a zero.
  Values multiplyParts(const ColsItem &item, Value g, Value slot) {
    Values totals{slot};
    totals.append(size_t(held()), k.constant(k.frag(s.tokens, k.f32), -0.0));
    return k.loop(0, spec.parts, 1, totals, [&](Value part, Values v) {
      Values sums = multiplyGroups(item, rangeOfPart(part, spec.parts), g, v[0]);
      for (size_t i = 1; i < sums.size(); ++i)
        sums[i] = k.add(v[i], sums[i]);
      return sums;
    });
  }

  Type sumElem() { return spec.wide || spec.e4m3 ? k.f32 : k.i32; }
  /// A stage's units: block after block of K, of each the weights.
  int64_t units() const { return blocks * held(); }
  Value loadUnit(const Values &bufs, int64_t unit, Value g) {
    return k.load(k.view(wGroup, bufs[size_t(unit % held())], {g, unit / held()}), k.frag(kGroup, k.i4, packing));
  }
  Value expanded(const Values &bufs, int64_t unit, Value g, Value codes) {
    if (!spec.wide)
      return k.expand(codes, k.frag(kGroup, xElem, tile::FragKind::OpA));
    Value zero = rowZeros[size_t(unit % held())];
    if (spec.zeros && spec.wGrouped)
      zero = asFloat(ofGroup(bufs, held(), unit, g, k.i8));
    return k.expand(codes, k.frag(kGroup, k.bf16), zero);
  }
  Value xOf(const Values &bufs, int64_t unit) {
    Value buffer = bufs[size_t(held())];
    return blocks == 1 ? buffer : k.view(xGroup, buffer, {0, unit / held() * kGroup});
  }

  /// The products of a stage's units into what `into` gives; `done` is called when a unit is over, in order.
  void multiplyStage(const Values &bufs, Value g, llvm::function_ref<Value(int64_t)> into, llvm::function_ref<void(int64_t, TileBuilder::Mma)> started,
                     llvm::function_ref<void(int64_t)> over) {
    Value codes = loadUnit(bufs, 0, g);
    for (int64_t u = 0; u < units(); ++u) {
      Value a = expanded(bufs, u, g, codes);
      if (u + 1 < units())
        codes = loadUnit(bufs, u + 1, g);
      if (u == 0)
        takeTurn();
      started(u, k.mma(tile::Form::Nt, a, xOf(bufs, u), into(u)));
      if (u + 1 == units())
        passTurn();
      if (u > 0)
        over(u - 1);
    }
    over(units() - 1);
  }

  /// One sum over K.
  Values multiplyWhole(const ColsItem &item, Value g, Value slot) {
    auto [from, to] = range(item);
    Values inits{slot};
    inits.append(size_t(held()), k.none(k.acc(s.tokens, sumElem())));
    Values r = k.peeled(tile::Peel::First, from, to, s.bk, inits, [&](Value, Value, Values v) {
      Values bufs = k.wait(v[0]), sums(ArrayRef<Value>(v).drop_front()), tokens;
      multiplyStage(
          bufs, g, [&](int64_t u) { return sums[size_t(u % held())]; },
          [&](int64_t u, TileBuilder::Mma mma) { sums[size_t(u % held())] = mma.acc, tokens.push_back(mma.token); },
          [&](int64_t u) { k.await(tokens[size_t(u)]); });
      k.release(v[0]);
      Values next{k.next(v[0])};
      next.append(sums);
      return next;
    });
    Values sums{r[0]};
    for (Value acc : ArrayRef<Value>(r).drop_front())
      sums.push_back(k.await(acc));
    return sums;
  }

  /// Sums of 128 k, each times its scales, added in ascending order.
  Values multiplyGroups(const ColsItem &item, std::pair<Num, Num> range, Value g, Value slot) {
    auto [from, to] = range;
    const size_t weights = size_t(held()), ahead = 1 + weights;
    Type sumType = k.frag(s.tokens, k.f32);
    // Scales of x that do not come with the stage are read a stage ahead, so that the loads are over before they are needed.
    auto rowScalesAt = [&](Value kBlock, Values &into) {
      Value last = k.ci(spec.kBlocks() - 1);
      for (int64_t b = 0; spec.xGrouped && !spec.scalesInStage() && b < blocks; ++b)
        into.push_back(k.read(xScales, {item.row, k.min(k.add(kBlock, b), last)}, k.col(s.tokens, k.f32), item.rows, {}, /*trans=*/true));
    };
    Values inits{slot};
    inits.append(weights, k.constant(sumType, 0));
    rowScalesAt(k.div(k.index(from), kGroup), inits);
    Values r = k.loop(from, to, s.bk, inits, [&](Value kk, Values v) {
      Values coming;
      rowScalesAt(k.add(k.shr(kk, 7), blocks), coming);
      Values bufs = k.wait(v[0]), sums(ArrayRef<Value>(v).slice(1, weights)), parts, scales, columns;
      if (!spec.scalesInStage())
        columns.append(v.begin() + ahead, v.end());
      multiplyStage(
          bufs, g, [&](int64_t) { return k.none(k.acc(s.tokens, sumElem())); },
          [&](int64_t u, TileBuilder::Mma mma) {
            parts.push_back(mma.acc);
            if (spec.wGrouped)
              scales.push_back(ofGroup(bufs, 0, u, g, k.f32));
            if (spec.scalesInStage() && u % held() == 0)
              columns.push_back(columnScales(bufs, u / held(), kk));
          },
          [&](int64_t u) {
            Value part = k.await(parts[size_t(u)]), factor;
            if (u + 1 == units())
              k.release(v[0]);
            if (spec.wGrouped)
              factor = k.bcast(scales[size_t(u)], sumType);
            if (spec.xGrouped) {
              Value column = k.bcast(columns[size_t(u) / weights], sumType);
              factor = factor ? k.mul(factor, column) : column;
            }
            Value &sum = sums[size_t(u) % weights];
            if (sumElem() == k.i32)
              part = k.toFloat(part);
            sum = factor ? k.fma(part, factor, sum) : k.add(part, sum);
          });
      Values next{k.next(v[0])};
      next.append(sums);
      next.append(coming);
      return next;
    });
    return Values(ArrayRef<Value>(r).take_front(ahead));
  }

  /// The scales of x's rows and a block of the stage's: column (K / 128) % 4 of its box.
  Value columnScales(const Values &bufs, int64_t block, Value kk) {
    Value at = blocks == 4 ? k.ci(block) : k.add(k.rem(k.shr(kk, 7), 4), block);
    auto column = tile::BufType::get(k.b.getContext(), {s.tokens, 1}, k.f32, tile::LayoutAttr::get(k.b.getContext(), tile::SmemKind::Pad, 12, 0, 0));
    return k.load(k.view(column, bufs.back(), {0, at}), k.col(s.tokens, k.f32), /*trans=*/true);
  }

  /// What a unit's rows have in buffer `first` and on of those behind x, a weight each.
  Value ofGroup(const Values &bufs, int64_t first, int64_t unit, Value g, Type elem) {
    Value buffer = bufs[size_t(held() + 1 + first + unit % held())];
    return k.load(k.view(k.buf({64}, elem, tile::SmemKind::Linear), buffer, {g, unit / held()}), k.row(elem));
  }

  Value readTokenScales(Value row, Value rows, int64_t tokens) {
    if (spec.gathers)
      return k.lookup(xScales, k.read(tokenOf, {row}, k.col(tokens, k.i32), {}, rows), 0);
    return k.read(xScales, {row, 0}, k.col(tokens, k.f32), rows, {}, /*trans=*/true);
  }

  /// float(sum) * (sx * sw), as far as the scales are those of whole rows.
  Value scaled(Value sum, int64_t weight, Value row, Value rows) override {
    if (spec.exact())
      sum = k.toFloat(sum);
    Type type = sum.getType();
    auto through16 = [&](Value scale) { return sumElem() == k.f32 ? scale : k.mul(scale, k.constant(scale.getType(), 1.0 / 16)); }; // int8 codes are 16 times the weight
    if (weight == 0 && !spec.wide && !spec.xGrouped)
      columnScale = through16(readTokenScales(row, rows, cast<RankedTensorType>(type).getDimSize(1)));
    Value rowScale = rowScales[size_t(weight)];
    if (columnScale && rowScale)
      return k.mul(sum, k.mul(k.bcast(columnScale, type), k.bcast(rowScale, type)));
    if (columnScale || rowScale)
      return k.mul(sum, k.bcast(columnScale ? columnScale : through16(rowScale), type));
    return through16(sum);
  }

  void store(Value value, const ColsItem &item, Value g, Value row, Value rows) override {
    spec.codesOut ? writeCodes(value, out, outScales, item, g, row, rows) : writeItem(value, out, item, g, row, rows);
  }

  const Int4Spec &spec;
  const ColsSource &source;
  const int64_t blocks; ///< of 128 k in a stage
  const tile::FragKind packing;
  Type xElem;
  tile::BufType xGroup, wGroup;
  SmallVector<Value, 2> w, wScales, wZeros, rowScales, rowZeros;
  SmallVector<Value> own;
  Value x, xScales, out, outScales, columnScale;
};
} // namespace

void buildInt4Kernel(TileBuilder &k, StringRef symbol, const Int4Spec &spec, const ColsSource &source) {
  Int4Kernel(k, spec, source).build(symbol);
}

} // namespace dsv3::codegen
