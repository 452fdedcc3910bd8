#include "codegen/sm90/gemm/RowsKernel.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {
class RowsKernel {
public:
  RowsKernel(TileBuilder &k, const RowsSpec &spec) : k(k), spec(spec), s(spec.schedule) {
    Type elem = spec.scaled ? k.f8 : k.bf16;
    a = k.buf({s.bm(), s.bk}, elem);
    b = k.buf({s.bn, s.bk}, elem);
  }

  void build(StringRef symbol) {
    constexpr int64_t any = ShapedType::kDynamic;
    SmallVector<Type> types{k.scalars};
    for (tile::BufType operand : {a, b}) {
      types.push_back(k.tma(operand.getElement(), operand.getShape()));
      if (spec.scaled)
        types.push_back(k.gmem({any, kBlocks()}, k.f32));
    }
    types.push_back(k.gmem({any, spec.outPitch}, spec.outElem));
    k.kernel(symbol, types, /*cluster=*/1, [&](Values args) {
      const size_t step = spec.scaled ? 2 : 1;
      x = args[1], w = args[1 + step], out = args.back();
      if (spec.scaled)
        xScales = args[2], wScales = args[4];
      ring = k.ring("ab", s.stages, {a, b}, {"mma"}, tile::Arrive::Warpgroup);
      rows = k.mul(k.count(args[0], spec.rowScalar), spec.rowFactor);
      work = k.raster({rows, spec.n}, {s.bm(), s.bn}, s.group, {"m", "n"});
      k.producer("load", s.warpgroups == 2 ? 40 : 0, [&] { load(); });
      k.consumers("mma", s.warpgroups, s.warpgroups == 2 ? 232 : 0, [&](Value g) { consume(g); });
    });
  }

private:
  void load() {
    k.foreach(work, {k.next(ring)}, [&](Values at, Values v) {
      return k.loop(0, spec.k, s.bk, v, [&](Value kk, Values v) {
        k.fill(v[0], [&](Values buf) {
          k.copy(x, {at[0], kk}, buf[0]);
          k.copy(w, {at[1], kk}, buf[1]);
        });
        return Values{k.next(v[0])};
      });
    });
  }

  int64_t kBlocks() const { return (spec.k + 127) / 128; }

  void consume(Value g) {
    Value row = k.mul(g, 64);
    k.foreach(work, {k.next(ring)}, [&](Values at, Values v) {
      Value m = k.add(at[0], row);
      if (!spec.scaled) {
        Values r = multiply(row, v[0]);
        store(ArrayRef<Value>(r).drop_front(), s.bn, m, at[1]);
        return Values{r[0]};
      }
      Values r = multiplyScaled(row, m, at[1], v[0]);
      store(ArrayRef<Value>(r).drop_front(), 64, m, at[1]);
      return Values{r[0]};
    });
  }

  Value mine(Value buffer, Value row) {
    return s.warpgroups == 1 ? buffer : k.view(k.buf({64, s.bk}, a.getElement()), buffer, {row, 0});
  }

  /// The next slot and the sum. The k-block before is awaited and released while this one is in flight.
  Values multiply(Value row, Value slot) {
    Value noSlot = k.none(slotType()), noToken = k.none(tile::TokenType::get(k.b.getContext()));
    Value fresh = k.none(k.acc(s.bn, k.f32));
    Values r = k.peeled(tile::Peel::First, 0, spec.k, s.bk, {slot, noSlot, fresh, noToken}, [&](Value, Value, Values v) {
      Values ab = k.wait(v[0]);
      TileBuilder::Mma mma = k.mma(tile::Form::Nt, mine(ab[0], row), ab[1], v[2]);
      k.await(v[3]);
      k.release(v[1]);
      return Values{k.next(v[0]), v[0], mma.acc, mma.token};
    });
    Value sum = k.await(r[2]);
    k.release(r[1]);
    return {r[0], sum};
  }

  /// FP8: every 128 of K a fresh accumulator, added times its scales. The next slot and the sums of 64 columns each, as
  /// weights have a scale per 64 rows. Scales are read before the product is waited for.
  Values multiplyScaled(Value row, Value m, Value n, Value slot) {
    Type sumType = k.frag(64, k.f32), rowType = k.row(k.f32);
    const size_t parts = size_t(s.bn / 64);
    Value left = k.sub(rows, m), firstBlock = k.shr(n, 6), lastBlock = k.ci((spec.n + 63) / 64 - 1);
    Values inits{slot};
    inits.append(parts, k.constant(sumType, 0));
    return k.loop(0, spec.k, s.bk, inits, [&](Value kk, Values v) {
      Value kBlock = k.shr(kk, 7), xs = k.read(xScales, {m, kBlock}, rowType, left, {}, /*trans=*/true);
      SmallVector<Value> scales;
      for (size_t i = 0; i < parts; ++i) {
        Value ws = k.read(wScales, {k.min(k.add(firstBlock, int64_t(i)), lastBlock), kBlock}, k.f32);
        scales.push_back(k.bcast(k.mul(xs, k.bcast(ws, rowType)), sumType));
      }
      Values ab = k.wait(v[0]);
      Value part = k.await(k.mma(tile::Form::Nt, mine(ab[0], row), ab[1], k.none(k.acc(s.bn, k.f32))).acc);
      k.release(v[0]);
      Values next{k.next(v[0])};
      for (size_t i = 0; i < parts; ++i)
        next.push_back(k.fma(k.slice(part, int64_t(i) * 64, 64), scales[i], v[1 + i]));
      return next;
    });
  }

  /// `sums` of `width` columns each. Rows past the true count and columns past N are not written. Where no 64 columns are
  /// cut by the edge, they are stored or left out as a whole, in 16-byte pieces.
  void store(ArrayRef<Value> sums, int64_t width, Value m, Value n) {
    Value left = k.sub(rows, m);
    for (auto [i, sum] : llvm::enumerate(sums)) {
      Value value = k.cast(sum, spec.outElem), first = k.add(n, int64_t(i) * width);
      if (spec.n % 64) {
        k.write(value, out, {m, first}, left, k.sub(k.ci(spec.n), first));
        continue;
      }
      bool whole = spec.n % s.bn == 0;
      for (int64_t c = 0, piece; c < width; c += piece) {
        piece = whole ? std::max<int64_t>((width - c) / 32 * 32, std::min<int64_t>(width - c, 32)) : 64; // 16 bytes a thread by 32
        Value column = k.add(first, c);
        k.write(k.slice(value, c, piece), out, {m, column}, whole ? left : k.select(k.lt(column, spec.n), left, k.ci(0)));
      }
    }
  }

  Type slotType() { return tile::slotOf(ring.getType()); }

  TileBuilder &k;
  const RowsSpec &spec;
  const RowsSchedule &s;
  tile::BufType a, b;
  Value x, w, out, ring, rows, work;
  Value xScales, wScales; ///< of FP8
};
} // namespace

void buildRowsKernel(TileBuilder &k, StringRef symbol, const RowsSpec &spec) { RowsKernel(k, spec).build(symbol); }

} // namespace dsv3::codegen
