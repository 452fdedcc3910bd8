#include "codegen/sm90/gemm/ColsKernel.h"

#include "codegen/sm90/gemm/CodesOut.h"
#include "codegen/sm90/gemm/Gated.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;

namespace dsv3::codegen {

/// K of a promoted block and the unit in which a split cuts K: a multiple of every stage's K, so that where a part begins
/// does not depend on the schedule.
static constexpr int64_t kUnit = 128;

bool ColsSpec::staged() const { return !codesOut && outElem.isBF16() && n % 64 == 0 && outPitch % 8 == 0; }

int64_t sharedBytes(const ColsSpec &spec) {
  const ColsSchedule &s = spec.schedule;
  int64_t stage = (spec.weights * s.bm() * bytesOfWeight(spec.operands) + s.tokens * bytesOfX(spec.operands)) * s.bk;
  int64_t list = spec.rowTiles ? 16 * (1 + spec.rowTiles) : 0;
  return s.stages * (stage + 16) + list + s.exchangeBytes(spec.weights) + spec.epilogueBytes();
}

ColsKernel::ColsKernel(TileBuilder &k, const ColsSpec &spec) : k(k), spec(spec), s(spec.schedule) {
  xBuf = k.buf({s.tokens, s.bk}, elem());
  wBuf = expands() ? k.fragBuf({s.warpgroups, 64, s.bk}, k.f8) : k.buf({s.bm(), s.bk}, elem());
}

Type ColsKernel::elem() const { return isInteger(spec.operands) ? k.i8 : spec.rowsScaled() ? k.f8 : k.bf16; }

void ColsKernel::build(StringRef symbol) {
  SmallVector<Type> types{scalarsType()};
  llvm::append_range(types, params());
  k.kernel(symbol, types, s.split, [&](Values args) {
    takeParams(ArrayRef<Value>(args).drop_front());
    SmallVector<Type> bufs(size_t(held()), wBuf);
    bufs.push_back(xBuf);
    llvm::append_range(bufs, moreBuffers());
    ring = k.ring("wx", s.stages, bufs, roles(), loadsWeights() ? tile::Arrive::Warp : tile::Arrive::Warpgroup);
    for (int64_t i = 0; s.split > 1 && i < spec.weights; ++i) // partial sums
      exchange.push_back(k.alloc(k.fragBuf({s.warpgroups, 64, s.summed() * s.split}, exchangeElem())));
    allocateForRoles();
    if (spec.codesOut)
      maxima = k.alloc(k.buf({4 * s.warpgroups, spec.piece()}, k.f32, tile::SmemKind::Linear));
    work = makeWork(args[0]);
    k.producer("load", producerRegs(s, spec.gathers), [&] { load(); });
    addConsumers();
  });
}

Type ColsKernel::mapType(int64_t rows, bool stacked) {
  int64_t lanes = 128 / bytesOfX(spec.operands); // a swizzle atom
  return stacked ? k.tma(elem(), {1, rows, lanes}) : k.tma(elem(), {rows, lanes});
}

void ColsKernel::addWeightParams(SmallVectorImpl<Type> &types, bool stacked) {
  if (expands())
    types.push_back(k.gmem({ShapedType::kDynamic, spec.kBlocks() * kUnit * 64}, k.f8)); // a row of blocks a row
  else
    types.push_back(mapType(s.bm(), stacked));
  if (spec.weightsScaled())
    types.push_back(k.gmem({ShapedType::kDynamic, isInteger(spec.operands) ? 1 : spec.kBlocks()}, k.f32));
}

// Two consumer warpgroups need more registers than the launch gives, four share what there is (pitfalls 15 and 25).
int64_t producerRegs(const ColsSchedule &s, bool gathers) {
  if (s.warpgroups == 1)
    return 0;
  if (gathers) { // tokens of its rows stay in registers: all that the launch gives and consumers leave
    const int64_t threads = 128 * (s.warpgroups + 1), atLaunch = 65536 / threads / 8 * 8;
    return (s.warpgroups + 1) * atLaunch - s.warpgroups * consumerRegs(s);
  }
  return s.split > 1 ? 56 : s.warpgroups == 4 ? 32 : 40;
}
int64_t consumerRegs(const ColsSchedule &s) {
  bool cluster = s.split > 1;
  return s.warpgroups == 1 ? 0 : s.warpgroups == 3 ? 152 : s.warpgroups == 4 ? (cluster ? 104 : 112) : (cluster ? 224 : 232);
}

int64_t ColsKernel::unit() const { return kUnit; }

/// [from, to) of the item's part: whole units, the last part ends at K.
std::pair<Num, Num> ColsKernel::range(const ColsItem &item) {
  return item.part && !s.apart ? rangeOfPart(item.part, s.split) : std::pair<Num, Num>{0, spec.k};
}

std::pair<Num, Num> ColsKernel::rangeOfPart(Value part, int64_t parts) {
  int64_t units = (spec.k + unit() - 1) / unit();
  auto bound = [&](Value part) { return k.mul(k.div(k.mul(part, units), parts), unit()); };
  return {bound(part), k.min(bound(k.add(part, 1)), spec.k)};
}

//===-- Producer ------------------------------------------------------------===//

void ColsKernel::load() {
  k.foreach(work, {k.next(ring)}, [&](Values at, Values v) {
    ColsItem it = item(at);
    prepare(it);
    return Values{loadItem(it, v[0])};
  });
}

Value ColsKernel::loadItem(const ColsItem &item, Value slot) {
  auto [from, to] = range(item);
  return k.loop(from, to, s.bk, {slot}, [&](Value kk, Values v) {
    k.fill(v[0], [&](Values buf) {
      for (int64_t i = 0; i < held(); ++i)
        copyWeight(i, item, kk, buf[size_t(i)]);
      copyRows(item, kk, buf[size_t(held())]);
      copyMore(item, kk, ArrayRef<Value>(buf).drop_front(size_t(held()) + 1));
    });
    return Values{k.next(v[0])};
  })[0];
}

void ColsKernel::copyTile(Value map, Value stack, Value row, Value kk, Value dest, tile::Hint hint) {
  if (stack)
    k.copy(map, {stack, row, kk}, dest, hint);
  else
    k.copy(map, {row, kk}, dest, hint);
}

void ColsKernel::prepare(const ColsItem &item) {
  if (tokenOf)
    tokens = k.read(tokenOf, {item.row}, k.line(s.tokens), {}, item.rows);
}

void ColsKernel::copyRowsOf(Value x, Value stack, const ColsItem &item, Value kk, Value dest) {
  if (tokenOf)
    return k.gather(x, tokens, kk, item.rows, dest);
  copyTile(x, stack, item.row, kk, dest);
}

void ColsKernel::copyBlocks(Value data, const ColsItem &item, Value kk, Value dest) {
  for (int64_t g = 0; g < s.warpgroups; ++g)
    k.copy(data, {weightBlock(item, k.ci(g)), k.mul(kk, 64)}, k.view(k.fragBuf({64, s.bk}, k.f8), dest, {g}));
}

/// The row of blocks of a warpgroup. Past the last one that stands in, and nothing of it is stored.
Value ColsKernel::weightBlock(const ColsItem &item, Value g) {
  Value block = k.add(k.shr(item.n, 6), g);
  if (spec.nBlocks() % s.warpgroups)
    block = k.min(block, spec.nBlocks() - 1);
  return spec.stacked ? k.add(k.mul(item.stack, spec.nBlocks()), block) : block;
}

//===-- Consumers -----------------------------------------------------------===//

void ColsKernel::consume(Value g) {
  k.foreach(work, {k.next(ring)}, [&](Values at, Values v) {
    ColsItem it = item(at);
    begin(it, rowsOf(g));
    Values scales = spec.operands == Operands::Int8 ? readScales(it, g, spec.piece() == s.columns()) : Values(); // ahead of the products
    Values r = multiplyItem(it, g, v[0]);
    finish(it, rowsOf(g), Values(ArrayRef<Value>(r).drop_front()), scales);
    return Values{r[0]};
  });
}

Values ColsKernel::multiplyItem(const ColsItem &item, Value g, Value slot) {
  return promotes(spec.operands) ? multiplyScaled(item, g, slot) : multiply(item, g, slot);
}

/// The next slot and the sums of every weight, from shared memory, as they are. The k-block before is awaited and released while
/// this one is in flight.
Values ColsKernel::multiply(const ColsItem &item, Value g, Value slot) {
  auto [from, to] = range(item);
  size_t weights = size_t(spec.weights);
  Values inits{slot, k.none(tile::slotOf(ring.getType())), k.none(tile::TokenType::get(k.b.getContext()))};
  for (size_t i = 0; i < weights; ++i)
    inits.push_back(k.none(k.acc(s.tokens, isInteger(spec.operands) ? k.i32 : k.f32)));
  Values r = k.peeled(tile::Peel::First, from, to, s.bk, inits, [&](Value, Value, Values v) {
    Values bufs = k.wait(v[0]);
    Values next{k.next(v[0]), v[0], Value()};
    for (size_t i = 0; i < weights; ++i) {
      TileBuilder::Mma mma = k.mma(tile::Form::Nt, operandA(bufs[i], g), bufs.back(), v[3 + i]);
      next.push_back(mma.acc);
      next[2] = mma.token;
    }
    k.await(v[2]);
    k.release(v[1]);
    return next;
  });
  Values sums{r[0]};
  for (size_t i = 0; i < weights; ++i)
    sums.push_back(k.await(r[3 + i]));
  k.release(r[1]);
  return sums;
}

Value ColsKernel::operandA(Value buffer, Value g) {
  if (expands()) {
    Value codes = k.load(k.view(k.fragBuf({64, s.bk}, k.f8), buffer, {g}), k.frag(s.bk, k.f8));
    return k.expand(codes, k.frag(s.bk, k.bf16));
  }
  return s.warpgroups == 1 ? buffer : k.view(k.buf({64, s.bk}, elem()), buffer, {k.mul(g, 64), 0});
}

/// Every 128 of K a fresh accumulator, which is added times its scales. Those of int8 weights are the same for all of K, and
/// multiply in the end.
Values ColsKernel::multiplyScaled(const ColsItem &item, Value g, Value slot) {
  auto [from, to] = range(item);
  const bool integer = isInteger(spec.operands);
  const size_t weights = size_t(spec.weights), firstScale = 1 + weights;
  Type sumType = k.frag(s.tokens, k.f32), partType = k.acc(s.tokens, integer ? k.i32 : k.f32);
  Values rowScales;
  for (size_t i = 0; integer && i < weights; ++i)
    rowScales.push_back(readScale(int64_t(i), item, g, Value()));
  // Scales are read one block ahead, so that the loads are over before they are needed: of the weights, then of x.
  auto scalesAt = [&](Value kBlock, Values &into) {
    for (size_t i = 0; !integer && i < weights; ++i)
      into.push_back(readScale(int64_t(i), item, g, kBlock));
    if (spec.rowsScaled())
      into.push_back(readRowScales(item.row, item.rows, s.tokens, kBlock));
  };
  Values inits{slot};
  inits.append(weights, k.constant(sumType, 0));
  scalesAt(k.div(k.index(from), kUnit), inits);
  Value last = k.ci(spec.kBlocks() - 1);
  Values r = k.loop(from, to, kUnit, inits, [&](Value kk, Values v) {
    Values ahead;
    scalesAt(k.min(k.add(k.shr(kk, 7), 1), last), ahead);
    Values bufs = k.wait(v[0]), next{k.next(v[0])};
    SmallVector<Value> parts;
    for (size_t i = 0; i < weights; ++i)
      parts.push_back(k.mma(tile::Form::Nt, operandA(bufs[i], g), bufs.back(), k.none(partType)).acc);
    for (Value &part : parts)
      part = k.await(part);
    k.release(v[0]);
    for (auto [i, part] : llvm::enumerate(parts)) {
      Value scale = integer ? v.back() : v[firstScale + i];
      if (!integer && spec.rowsScaled())
        scale = k.mul(v.back(), k.bcast(scale, v.back().getType()));
      next.push_back(k.fma(integer ? k.toFloat(part) : part, k.bcast(scale, sumType), v[1 + i]));
    }
    next.append(ahead);
    return next;
  });
  for (auto [i, scale] : llvm::enumerate(rowScales))
    r[1 + i] = k.mul(r[1 + i], k.bcast(scale, sumType));
  return Values(ArrayRef<Value>(r).take_front(firstScale));
}

//===-- Epilogue ------------------------------------------------------------===//

ColsKernel::Share ColsKernel::shareOf(const ColsItem &item) {
  if (!item.part && !(s.beside && side))
    return {item.row, item.rows};
  Value first = item.part ? k.mul(item.part, s.summed()) : k.ci(s.columns());
  return {k.add(item.row, first), k.sub(k.min(item.rows, s.tokens), first)};
}

Values ColsKernel::readScales(const ColsItem &item, Value g, bool rows) {
  Values scales;
  for (int64_t i = 0; i < spec.weights; ++i)
    scales.push_back(readScale(i, item, g, Value()));
  Share share = shareOf(item);
  if (rows)
    scales.push_back(readRowScales(share.row, share.rows, s.columns(), k.ci(0)));
  return scales;
}

void ColsKernel::finish(const ColsItem &item, Value g, Values sums, ArrayRef<Value> scales) {
  if (s.apart) { // what this block has of each weight: all or nothing
    Value mine = sums[0], nothing = k.constant(mine.getType(), 0), first = k.eq(item.part, 0);
    sums = {k.select(first, mine, nothing), k.select(first, nothing, mine)};
  }
  if (s.beside)
    sums = swapped(sums[0]);
  for (auto [sum, buffer] : llvm::zip(sums, exchange)) {
    Type elem = cast<tile::BufType>(buffer.getType()).getElement();
    sum = k.clusterSum(sum, k.view(k.fragBuf({64, s.summed() * s.split}, elem), buffer, {g}), s.summed());
  }
  auto [row, rows] = shareOf(item);
  const int64_t all = s.columns(side), width = s.beside ? all : spec.piece();
  const bool inPieces = !scales.empty() && width != all;
  Value ahead = inPieces ? readRowScales(row, rows, width, k.ci(0)) : Value();
  for (int64_t c = 0; c < all; c += width) {
    Value first = c ? k.add(row, c) : row, left = c ? k.sub(rows, c) : rows;
    Values parts;
    for (Value sum : sums)
      parts.push_back(width == all ? sum : k.slice(sum, c, width));
    if (!scales.empty()) {
      Type type = k.frag(width, k.f32);
      Value ofRows = inPieces ? ahead : scales.back();
      if (inPieces && c + width < all) // while this piece is stored
        ahead = readRowScales(k.add(row, c + width), k.sub(rows, c + width), width, k.ci(0));
      for (auto [i, part] : llvm::enumerate(parts))
        part = k.mul(k.toFloat(part), k.mul(k.bcast(ofRows, type), k.bcast(scales[i], type)));
    }
    for (auto [i, part] : llvm::enumerate(parts))
      part = scaled(part, int64_t(i), first, left);
    store(k.cast(spec.weights == 2 ? gatedProduct(k, parts[0], parts[1], spec.via) : parts[0], spec.outElem), item, g, first, left);
  }
}

void ColsKernel::writeRows(Value value, Value out, Value row, Value column, Value rows, Value cols) {
  if (stages.empty())
    return k.write(value, out, {row, column}, rows, cols, /*trans=*/true);
  int64_t all = cast<RankedTensorType>(value.getType()).getDimSize(1), piece = std::min(all, s.stagedTokens(side));
  for (int64_t c = 0; c < all; c += piece)
    k.write(k.slice(value, c, piece), out, {k.add(row, c), column}, k.sub(rows, c), cols, /*trans=*/true, stages[size_t(side)]);
}

void ColsKernel::writeItem(Value value, Value out, const ColsItem &item, Value g, Value row, Value rows) {
  Value n = k.add(item.n, k.mul(g, 64)), column = item.column ? k.add(item.column, n) : n, cols;
  if (spec.n % 64) // an edge cuts a warpgroup's rows
    cols = k.sub(k.ci(spec.n), n);
  else
    rows = presentRows(item, g, rows);
  writeRows(value, out, row, column, rows, cols);
}

/// Two warpgroups share the scales of their columns.
void ColsKernel::writeCodes(Value value, Value out, Value scales, const ColsItem &item, Value g, Value row, Value rows) {
  value = k.cast(value, k.f32);
  Type codes = spec.codes(k);
  Value scale = codeScale(k, codes, k.reduceRows(tile::Combine::Max, math::AbsFOp::create(k.b, value), kCodeGroup / 64, maxima));
  Value column = k.add(item.n, k.mul(g, 64)), present = presentRows(item, g, rows);
  k.write(codesOf(k, codes, value, scale), out, {row, column}, present, {}, /*trans=*/true);
  k.when(k.eq(k.rem(g, kCodeGroup / 64), 0), [&] { k.write(scale, scales, {row, k.shr(column, 7)}, present, {}, /*trans=*/true); });
}

Value ColsKernel::presentRows(const ColsItem &item, Value g, Value rows) {
  return spec.n % s.bm() ? k.select(k.lt(k.add(item.n, k.mul(g, 64)), spec.n), rows, k.ci(0)) : rows;
}

//===-- Products over plain rows --------------------------------------------===//

namespace {
class PlainColsKernel : public ColsKernel {
public:
  PlainColsKernel(TileBuilder &k, const ColsSpec &spec, const ColsSource &source) : ColsKernel(k, spec), source(source) {}

private:
  SmallVector<Type> params() override {
    SmallVector<Type> types{spec.gathers ? Type(k.gmem({ShapedType::kDynamic, spec.k}, elem())) : mapType(s.tokens, spec.xHeads)};
    if (spec.rowsScaled())
      types.push_back(k.gmem({ShapedType::kDynamic, spec.rowScales()}, k.f32));
    for (int64_t i = 0; i < spec.weights; ++i)
      addWeightParams(types, spec.stacked);
    types.push_back(k.gmem({ShapedType::kDynamic, spec.outPitch}, spec.codesOut ? k.i8 : spec.outElem));
    if (spec.codesOut)
      types.push_back(k.gmem({ShapedType::kDynamic, spec.n / kCodeGroup}, k.f32));
    types.append(source.params);
    if (spec.gathers)
      types.push_back(k.gmem({ShapedType::kDynamic}, k.i32));
    return types;
  }

  void takeParams(ArrayRef<Value> args) override {
    if (spec.gathers)
      tokenOf = args.consume_back();
    x = args[0], args = args.drop_front();
    if (spec.rowsScaled())
      rowScales = args[0], args = args.drop_front();
    for (int64_t i = 0; i < spec.weights; ++i) {
      w.push_back(args[0]);
      if (spec.weightsScaled())
        scales.push_back(args[1]);
      args = args.drop_front(spec.weightsScaled() ? 2 : 1);
    }
    out = args.consume_front();
    if (spec.codesOut)
      outScales = args.consume_front();
    own = llvm::to_vector(args);
  }

  Value makeWork(Value scalars) override { return source.work(k, scalars, own); }
  ColsItem item(ArrayRef<Value> fields) override { return source.item(k, fields); }

  void copyRows(const ColsItem &item, Value kk, Value dest) override { copyRowsOf(x, spec.xHeads ? item.stack : Value(), item, kk, dest); }
  void copyWeight(int64_t i, const ColsItem &item, Value kk, Value dest) override {
    if (expands())
      return copyBlocks(w[size_t(i)], item, kk, dest);
    copyTile(w[size_t(i)], spec.stacked ? item.stack : Value(), item.n, kk, dest, s.once ? tile::Hint::First : tile::Hint::Normal);
  }
  Value readScale(int64_t i, const ColsItem &item, Value g, Value kBlock) override {
    if (!isInteger(spec.operands))
      return k.read(scales[size_t(i)], {weightBlock(item, g), kBlock}, k.f32);
    Value first = k.add(item.n, k.mul(g, 64));
    if (spec.paddedScales() % s.bm()) // past the last one that stands in, and nothing of it is stored
      first = k.min(first, spec.paddedScales() - 64);
    return k.read(scales[size_t(i)], {item.stack ? k.add(k.mul(item.stack, spec.paddedScales()), first) : first, 0}, k.row(k.f32), {}, {}, /*trans=*/true);
  }
  /// Scales per 128 k are looked up in the loop over K, by tokens that stay.
  void begin(const ColsItem &item, Value) override {
    if (spec.gathers && spec.rowsScaled() && promotes(spec.operands))
      scaledTokens = k.read(tokenOf, {item.row}, k.col(s.tokens, k.i32), {}, item.rows);
  }
  Value readRowScales(Value row, Value rows, int64_t tokens, Value kBlock) override {
    if (spec.gathers)
      return k.lookup(rowScales, scaledTokens ? scaledTokens : k.read(tokenOf, {row}, k.col(tokens, k.i32), {}, rows), kBlock);
    return k.read(rowScales, {row, kBlock}, k.col(tokens, k.f32), rows, {}, /*trans=*/true);
  }

  void store(Value value, const ColsItem &item, Value g, Value row, Value rows) override {
    spec.codesOut ? writeCodes(value, out, outScales, item, g, row, rows) : writeItem(value, out, item, g, row, rows);
  }

  const ColsSource &source;
  SmallVector<Value, 2> w, scales;
  SmallVector<Value> own;
  Value x, rowScales, out, outScales;
  Value scaledTokens; ///< a consumer's, of an item
};
} // namespace

ColsSource denseColsSource(const ColsSpec &spec, int64_t batch, int64_t rowScalar, int64_t rowFactor) {
  ColsSource source;
  int64_t n = spec.n, split = spec.schedule.split, tokens = spec.schedule.tokens, bm = spec.schedule.bm();
  auto rows = std::make_shared<Value>(); // made with the work, read with every item
  // Fields: [head,] n, row[, part]. The part is innermost, so that the CTAs of a cluster share an item.
  source.work = [=](TileBuilder &k, Value scalars, ValueRange) {
    *rows = k.mul(k.count(scalars, rowScalar), rowFactor);
    SmallVector<Num> extents;
    SmallVector<int64_t> tile;
    SmallVector<StringRef> fields;
    auto dim = [&](Num extent, int64_t size, StringRef name) { extents.push_back(extent), tile.push_back(size), fields.push_back(name); };
    if (batch > 1)
      dim(batch, 1, "head");
    dim(n, bm, "n");
    dim(*rows, tokens, "row");
    if (split > 1)
      dim(split, 1, "part");
    // Bands of weight rows, so that few of them and all tokens share L2.
    return k.raster(extents, tile, split > 1 ? 1 : 8, fields);
  };
  source.item = [=](TileBuilder &k, ValueRange at) {
    ColsItem item;
    if (batch > 1)
      item.stack = at[0], item.column = k.mul(at[0], n), at = at.drop_front();
    item.n = at[0], item.row = at[1], item.rows = k.sub(*rows, at[1]);
    if (split > 1)
      item.part = at[2];
    return item;
  };
  return source;
}

ColsSource groupedColsSource(TileBuilder &k, const ColsSpec &spec, int64_t experts) {
  ColsSource source;
  source.params = {k.gmem({ShapedType::kDynamic}, k.i32)};
  source.work = [&spec, experts](TileBuilder &k, Value, ValueRange offsets) {
    const ColsSchedule &s = spec.schedule;
    SmallVector<StringRef> fields{"expert", "rows", "row", "n"};
    if (s.split > 1)
      fields.push_back("part");
    return k.groups(offsets[0], k.ci(experts), s.tokens, k.ci(spec.n), s.bm(), spec.rowTiles, fields);
  };
  source.item = [](TileBuilder &, ValueRange at) {
    ColsItem item;
    item.stack = at[0], item.rows = at[1], item.row = at[2], item.n = at[3];
    if (at.size() > 4)
      item.part = at[4];
    return item;
  };
  return source;
}

void buildColsKernel(TileBuilder &k, StringRef symbol, const ColsSpec &spec, const ColsSource &source) {
  PlainColsKernel(k, spec, source).build(symbol);
}

} // namespace dsv3::codegen
