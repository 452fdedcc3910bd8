#include "codegen/sm90/gemm/RowsKernel.h"

#include "codegen/sm90/gemm/CodesOut.h"
#include "codegen/sm90/gemm/Gated.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {
/// A tile of y: rows from `m` of x, columns from `n`.
struct Item {
  Value expert; ///< null without
  Value m, n;
  Value left;   ///< rows from m that exist
  Value tokens = {};    ///< where they are gathered, of the rows of a warpgroup
  Value rowScales = {}; ///< one per row, gathered: read ahead of the products
};

class RowsKernel {
public:
  RowsKernel(TileBuilder &k, const RowsSpec &spec) : k(k), spec(spec), s(this->spec.schedule) {
    elem = integer() ? k.i8 : scaled() ? k.f8 : k.bf16;
    a = k.buf({s.bm(), s.bk}, elem);
    b = k.buf({s.bn, s.bk}, elem);
  }

  void build(StringRef symbol) {
    k.kernel(symbol, parameters(), /*cluster=*/1, [&](Values args) {
      takeParameters(ArrayRef<Value>(args).drop_front());
      ring = k.ring("ab", s.stages, {a, b}, {"mma"}, tile::Arrive::Warpgroup);
      if (spec.ahead())
        scaleRing = k.ring("scales", s.kScaleItems, SmallVector<Type>(size_t(spec.weights), k.buf({spec.columns()}, k.f32, tile::SmemKind::Linear)), {"mma"});
      if (spec.staged())
        staging = k.alloc(k.buf({4 * s.warpgroups, 16, spec.piece()}, spec.outElem, spec.piece() == 64 ? tile::SmemKind::Sw128 : tile::SmemKind::Sw64));
      makeWork(args[0]);
      // One warpgroup has what it needs; two or three need more than the launch gives (pitfalls 15 and 25).
      const int64_t producer[] = {0, 40, 40}, gathering[] = {0, 40, 56}, consumer[] = {0, 232, 152};
      k.producer("load", (spec.gathers ? gathering : producer)[s.warpgroups - 1], [&] { load(); });
      k.consumers("mma", s.warpgroups, consumer[s.warpgroups - 1], [&](Value g) { consume(g); });
    });
  }

private:
  bool scaled() const { return scalesRows(spec.operands); }
  bool integer() const { return isInteger(spec.operands); }

  //===-- Parameters and items --------------------------------------------===//

  SmallVector<Type> parameters() {
    constexpr int64_t any = ShapedType::kDynamic;
    SmallVector<Type> types{k.scalars};
    auto operand = [&](ArrayRef<int64_t> box, ArrayRef<int64_t> scales, bool gathered = false) {
      types.push_back(gathered ? Type(k.gmem({any, spec.k}, elem)) : k.tma(elem, box));
      if (scaled())
        types.push_back(k.gmem(scales, k.f32));
    };
    operand({s.bm(), s.bk}, {any, promotes(spec.operands) ? spec.kBlocks() : 1}, spec.gathers);
    SmallVector<int64_t> box{spec.boxRows(), s.bk}, scales{any};
    if (spec.experts)
      box.insert(box.begin(), 1);
    if (!integer())
      scales.push_back(spec.kBlocks());
    for (int64_t i = 0; i < spec.weights; ++i)
      operand(box, scales);
    types.push_back(k.gmem({any, spec.outPitch}, spec.codes ? k.i8 : spec.outElem));
    if (spec.codes)
      types.push_back(k.gmem({any, spec.n / kCodeGroup}, k.f32));
    if (spec.experts)
      types.append(spec.gathers ? 2 : 1, k.gmem({any}, k.i32));
    return types;
  }

  void takeParameters(ArrayRef<Value> args) {
    auto take = [&] { return args.consume_front(); };
    x = take();
    if (scaled())
      xScales = take();
    for (int64_t i = 0; i < spec.weights; ++i) {
      w.push_back(take());
      if (scaled())
        wScales.push_back(take());
    }
    out = take();
    if (spec.codes)
      outScales = take();
    if (spec.experts)
      offsets = take();
    if (spec.gathers)
      tokenOf = take();
  }

  void makeWork(Value scalars) {
    if (spec.experts) {
      work = k.groups(offsets, k.ci(spec.experts), s.bm(), k.ci(spec.n), spec.columns(), spec.rowTiles, {"expert", "rows", "row", "n"});
      return;
    }
    rows = k.mul(k.count(scalars, spec.rowScalar), spec.rowFactor);
    work = k.raster({rows, spec.n - s.narrow}, {s.bm(), spec.columns()}, s.group, {"m", "n"});
    if (s.narrow)
      narrowWork = k.raster({rows, s.narrow}, {s.bm(), spec.columns() / 2}, s.group, {"m", "n"});
  }

  /// Writes a role's loop over tiles, and if there are such over narrow ones. `body` takes and returns slots.
  void everyTile(Values slots, llvm::function_ref<Values(Value work, Values slots)> body) {
    slots = body(work, slots);
    if (!narrowWork)
      return;
    const RowsSchedule whole = s;
    s.bn /= 2, s.parts = 1, firstColumn = spec.n - s.narrow;
    body(narrowWork, slots);
    s = whole, firstColumn = 0;
  }

  Item item(Values at) {
    if (spec.experts)
      return {at[0], at[2], at[3], at[1]};
    return {Value(), at[0], firstColumn ? k.add(at[1], firstColumn) : at[1], k.sub(rows, at[0])};
  }

  //===-- Producer --------------------------------------------------------===//

  void load() {
    Values slots{k.next(ring)};
    if (scaleRing)
      slots.push_back(k.next(scaleRing));
    everyTile(slots, [&](Value work, Values slots) {
      return k.foreach(work, slots, [&](Values at, Values v) {
        Item it = item(at);
        if (scaleRing)
          k.fill(v[1], [&](Values buf) {
            for (int64_t i = 0; i < spec.weights; ++i)
              k.copy(wScales[size_t(i)], {firstScale(it, it.n)}, scalesOf(buf[size_t(i)], 0, spec.columns()));
          });
        Values next = loadTile(it, v[0]);
        if (scaleRing)
          next.push_back(k.next(v[1]));
        return next;
      });
    });
  }

  Values loadTile(const Item &it, Value slot) {
    Value tokens = spec.gathers ? k.read(tokenOf, {it.m}, k.line(s.bm()), {}, it.left) : Value();
    return k.loop(0, spec.k, s.bk, {slot}, [&](Value kk, Values v) {
      k.fill(v[0], [&](Values buf) {
        if (!spec.gathers)
          k.copy(x, {it.m, kk}, buf[0]);
        for (int64_t i = 0; i < spec.weights; ++i)
          copyWeight(i, it, kk, rowsOf(buf[1], i * spec.columns(), spec.columns()));
        if (spec.gathers) // by all threads, behind what one of them issues
          k.gather(x, tokens, kk, it.left, buf[0]);
      });
      return Values{k.next(v[0])};
    });
  }

  void copyWeight(int64_t i, const Item &it, Value kk, Value dest) {
    if (spec.experts)
      k.copy(w[size_t(i)], {it.expert, it.n, kk}, dest);
    else
      k.copy(w[size_t(i)], {it.n, kk}, dest);
  }

  /// Rows [first, first + count) of a stage's operand.
  Value rowsOf(Value buffer, Num first, int64_t count) {
    if (cast<tile::BufType>(buffer.getType()).getShape()[0] == count)
      return buffer;
    return k.view(k.buf({count, s.bk}, elem), buffer, {first, 0});
  }

  //===-- Consumers -------------------------------------------------------===//

  void consume(Value g) {
    Value row = k.mul(g, 64);
    Values slots{k.next(ring)};
    if (scaleRing)
      slots.push_back(k.next(scaleRing));
    everyTile(slots, [&](Value work, Values slots) {
      const size_t count = slots.size();
      if (spec.later())
        appendNothing(slots);
      Values end = k.foreach(work, slots, [&](Values at, Values v) { return consumeTile(row, item(at), v, ArrayRef<Value>(v).drop_front(count)); });
      if (spec.later())
        storePending(ArrayRef<Value>(end).drop_front(count));
      end.truncate(count);
      return end;
    });
  }

  /// Rows of a warpgroup, from `row` of the tile on: the next slots, and what is stored later.
  Values consumeTile(Value row, Item it, const Values &v, ArrayRef<Value> pending) {
    it.m = k.add(it.m, row), it.left = k.sub(it.left, row);
    if (spec.gathers && scaled())
      it.tokens = k.read(tokenOf, {it.m}, k.row(k.i32), {}, it.left);
    // Read in front of the products: ptxas moves loads behind the wait for them.
    if (it.tokens && !promotes(spec.operands))
      it.rowScales = k.lookup(xScales, it.tokens, 0);
    else if (scaleRing)
      it.rowScales = readRowScales(it, k.ci(0));
    scaleSlot = scaleRing ? v[1] : Value();
    Values r = promotes(spec.operands) ? multiplyScaled(row, it, v[0]) : multiply(row, it, v[0], pending);
    Values sums(ArrayRef<Value>(r).drop_front()), next{r[0]};
    if (scaleRing)
      next.push_back(k.next(scaleSlot));
    if (spec.codes)
      writeCodes(products(sums), it);
    else if (spec.later())
      appendPending(resultsOf(sums), it, next);
    else
      writeResults(resultsOf(sums), it, lastPart());
    return next;
  }

  /// The next slot and the sum, of int8 scaled. The k-block before is awaited and released while this one is in flight.
  Values multiply(Value row, const Item &it, Value slot, ArrayRef<Value> pending) {
    const int64_t parts = spec.parts(), columns = s.bn / parts;
    Value noSlot = k.none(slotType()), noToken = k.none(tile::TokenType::get(k.b.getContext()));
    Values inits{slot, noSlot, noToken};
    inits.append(size_t(parts), k.none(k.acc(columns, integer() ? k.i32 : k.f32)));
    Values r = k.peeled(tile::Peel::First, 0, spec.k, s.bk, inits, [&](Value, Value first, Values v) {
      Values ab = k.wait(v[0]), next{Value(), v[0], Value()};
      for (int64_t i = 0; i < parts; ++i) {
        TileBuilder::Mma mma = k.mma(tile::Form::Nt, rowsOf(ab[0], row, 64), rowsOf(ab[1], i * columns, columns), v[size_t(3 + i)]);
        next.push_back(mma.acc), next[2] = mma.token;
      }
      if (spec.later())
        k.when(first, [&] { storePending(pending); });
      k.await(v[2]);
      k.release(v[1]);
      next[0] = k.next(v[0]);
      return next;
    });
    // While the last k-block is in flight.
    Value rowScales = integer() ? readRowScales(it, k.ci(0)) : Value();
    Values columnScales = scaleRing ? loadColumnScales(scaledColumns()) : integer() ? readColumnScales(it, scaledColumns()) : Values();
    Values next{r[0]};
    for (int64_t part = 0; part < parts; ++part) {
      Value sum = k.await(r[size_t(3 + part)]);
      if (part + 1 == parts)
        k.release(r[1]);
      Values sums{sum};
      if (integer()) {
        sums.clear();
        for (int64_t c = 0; c < columns; c += scaledColumns()) {
          Type type = k.frag(scaledColumns(), k.f32);
          Value scales = columnScales[size_t((part * columns + c) / scaledColumns())];
          sums.push_back(k.mul(k.toFloat(k.slice(sum, c, scaledColumns())), k.mul(k.bcast(rowScales, type), k.bcast(scales, type))));
        }
      }
      if (part + 1 < parts) // while the others' products go on
        writeResults(resultsOf(sums), it, part * columns);
      else
        next.append(sums);
    }
    if (scaleRing)
      k.release(scaleSlot);
    return next;
  }

  /// Of an expert's matrix, or of the one there is.
  Value firstScale(const Item &it, Value n) { return it.expert ? k.add(k.mul(it.expert, spec.paddedScales()), n) : n; }

  Value scalesOf(Value buffer, int64_t first, int64_t count) { return k.view(k.buf({count}, k.f32, tile::SmemKind::Linear), buffer, {first}); }

  Values loadColumnScales(int64_t width) {
    Values into;
    for (Value buf : k.wait(scaleSlot))
      for (int64_t i = 0; i < spec.columns(); i += width)
        into.push_back(k.load(scalesOf(buf, i, width), k.col(width, k.f32)));
    return into;
  }

  Value readRowScales(const Item &it, Value kBlock) {
    if (it.rowScales)
      return it.rowScales;
    if (it.tokens)
      return k.lookup(xScales, it.tokens, kBlock);
    return k.read(xScales, {it.m, kBlock}, k.row(k.f32), it.left, {}, /*trans=*/true);
  }

  /// int8: the scales of the tile's columns, `width` of them at a time. Past the last ones those stand in, and nothing of it is
  /// stored.
  Values readColumnScales(const Item &it, int64_t width) {
    Values into;
    for (Value scales : wScales)
      for (int64_t i = 0; i < spec.columns() / width; ++i) {
        Value first = k.add(it.n, i * width);
        if (spec.paddedScales() % spec.columns())
          first = k.min(first, spec.paddedScales() - width);
        into.push_back(k.read(scales, {firstScale(it, first)}, k.col(width, k.f32)));
      }
    return into;
  }

  /// Columns of a tile that are scaled together. FP8 weights have a scale per 64 rows, and tiles begin at multiples of theirs.
  int64_t scaledColumns() const { return spec.columns() % 64 == 0 ? 64 : spec.columns() % 32 == 0 ? 32 : 16; }

  /// Every 128 of K a fresh accumulator, added times its scales. The next slot and the sums of columns that are scaled
  /// together. Scales are read before the product is waited for; those of int8 weights multiply in the end.
  Values multiplyScaled(Value row, const Item &it, Value slot) {
    const int64_t width = scaledColumns();
    Type sumType = k.frag(width, k.f32);
    const size_t parts = size_t(s.bn / width);
    Values inits{slot};
    inits.append(parts, k.constant(sumType, 0));
    Values r = k.loop(0, spec.k, s.bk, inits, [&](Value kk, Values v) {
      Value kBlock = k.shr(kk, 7), xScale = readRowScales(it, kBlock);
      Values scales = integer() ? Values() : weightScales(it, kBlock);
      Values ab = k.wait(v[0]);
      Value part = k.await(k.mma(tile::Form::Nt, rowsOf(ab[0], row, 64), rowsOf(ab[1], 0, s.bn), k.none(k.acc(s.bn, integer() ? k.i32 : k.f32))).acc);
      k.release(v[0]);
      Values next{k.next(v[0])};
      for (size_t i = 0; i < parts; ++i) {
        Value scale = integer() ? xScale : k.mul(xScale, k.bcast(scales[i], xScale.getType())), sum = k.slice(part, int64_t(i) * width, width);
        next.push_back(k.fma(integer() ? k.toFloat(sum) : sum, k.bcast(scale, sumType), v[1 + i]));
      }
      return next;
    });
    for (auto [i, scales] : llvm::enumerate(integer() ? readColumnScales(it, width) : Values()))
      r[1 + i] = k.mul(r[1 + i], k.bcast(scales, sumType));
    return r;
  }

  /// One for every sum.
  Values weightScales(const Item &it, Value kBlock) {
    const int64_t width = scaledColumns(), blocks = (spec.n + 63) / 64;
    Values into;
    for (Value scales : wScales)
      for (int64_t i = 0; i < spec.columns() / width; ++i) {
        Value block = width == 64 ? k.add(k.shr(it.n, 6), i) : k.shr(k.add(it.n, i * width), 6);
        if (spec.n % spec.columns()) // past the last one that stands in, and nothing of it is stored
          block = k.min(block, blocks - 1);
        into.push_back(k.read(scales, {it.expert ? k.add(k.mul(it.expert, blocks), block) : block, kBlock}, k.f32));
      }
    return into;
  }

  //===-- Epilogue --------------------------------------------------------===//

  /// `sums`: columns of the tile from left to right, equally wide. Of a pair the first half is the gate's.
  Values products(Values sums) {
    if (spec.weights == 1)
      return sums;
    if (sums.size() == 1) {
      const int64_t width = spec.columns();
      sums = {k.slice(sums[0], 0, width), k.slice(sums[0], width, width)};
    }
    Values products;
    for (size_t i = 0; i < sums.size() / 2; ++i)
      products.push_back(gatedProduct(k, sums[i], sums[sums.size() / 2 + i], spec.via));
    return products;
  }

  /// Columns of y from left to right, rounded.
  Values resultsOf(Values sums) {
    Values results = products(sums);
    for (Value &value : results)
      value = k.cast(value, spec.outElem);
    return results;
  }

  /// Columns in front of the last part.
  int64_t lastPart() const { return spec.columns() - spec.columns() / spec.parts(); }

  // What is stored later goes from item to item: its rows and columns, then the pieces of the last part.
  void appendNothing(Values &into) {
    into.append(3, k.ci(0));
    into.append(size_t(spec.columns() / spec.parts() / spec.piece()), k.constant(k.frag(spec.piece(), spec.outElem), 0));
  }
  void appendPending(Values results, const Item &it, Values &into) {
    into.append({it.m, it.n, it.left});
    for (Value value : results)
      for (int64_t c = 0, width = cast<RankedTensorType>(value.getType()).getDimSize(1); c < width; c += spec.piece())
        into.push_back(k.slice(value, c, spec.piece()));
  }
  void storePending(ArrayRef<Value> v) { writeResults(Values(v.drop_front(3)), Item{Value(), v[0], v[1], v[2]}, lastPart()); }

  /// Side by side, from column `from` of the tile on.
  void writeResults(Values results, const Item &it, int64_t from) {
    for (Value value : results) {
      const int64_t width = cast<RankedTensorType>(value.getType()).getDimSize(1);
      writeColumns(value, width, it, from);
      from += width;
    }
  }

  /// A tile is one group of columns.
  void writeCodes(Values products, const Item &it) {
    Type row = k.row(k.f32);
    Value most = k.constant(row, 0);
    for (Value &p : products) {
      p = k.cast(k.cast(p, spec.outElem), k.f32);
      most = k.max(most, k.reduce(tile::Combine::Max, k.max(p, k.neg(p)), row));
    }
    Value scale = codeScale(k, k.i8, most);
    k.write(scale, outScales, {it.m, k.div(it.n, kCodeGroup)}, it.left, {}, /*trans=*/true);
    int64_t from = 0;
    for (Value p : products) {
      k.write(codesOf(k, k.i8, p, scale), out, {it.m, k.add(it.n, from)}, it.left);
      from += cast<RankedTensorType>(p.getType()).getDimSize(1);
    }
  }

  /// Rows past the true count and columns past N are not written. Where no 64 columns are cut by the edge, they are stored
  /// or left out as a whole, in 16-byte pieces.
  void writeColumns(Value value, int64_t width, const Item &it, int64_t from) {
    Value first = k.add(it.n, from);
    if (spec.n % 64)
      return k.write(value, out, {it.m, first}, it.left, k.sub(k.ci(spec.n), first));
    bool whole = spec.n % spec.columns() == 0;
    for (int64_t c = 0, piece; c < width; c += piece) {
      // 16 bytes a thread by 32 columns.
      piece = staging ? spec.piece() : whole ? std::max<int64_t>((width - c) / 32 * 32, std::min<int64_t>(width - c, 32)) : std::min<int64_t>(64, width);
      Value column = k.add(first, c);
      k.write(k.slice(value, c, piece), out, {it.m, column}, whole ? it.left : k.select(k.lt(column, spec.n), it.left, k.ci(0)), {}, false, staging);
    }
  }

  Type slotType() { return tile::slotOf(ring.getType()); }

  TileBuilder &k;
  RowsSpec spec; ///< its schedule is that of the tiles which are being written
  RowsSchedule &s;
  Type elem;
  tile::BufType a, b;
  Value x, xScales, out, outScales, offsets, tokenOf, ring, rows, work, narrowWork;
  int64_t firstColumn = 0;
  Value scaleRing, scaleSlot, staging; ///< null without
  SmallVector<Value, 2> w, wScales;
};
} // namespace

int64_t sharedBytes(const RowsSpec &spec) {
  const RowsSchedule &s = spec.schedule;
  int64_t stage = (s.bm() + s.bn) * s.bk * bytesOfX(spec.operands);
  return s.stages * (stage + 16) + (spec.staged() ? s.stagingBytes(spec.columns()) : 0) + (spec.ahead() ? s.aheadBytes() : 0) + (spec.experts ? 16 * (1 + spec.rowTiles) : 0);
}

void buildRowsKernel(TileBuilder &k, StringRef symbol, const RowsSpec &spec) { RowsKernel(k, spec).build(symbol); }

} // namespace dsv3::codegen
