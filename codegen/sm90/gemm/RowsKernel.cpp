#include "codegen/sm90/gemm/RowsKernel.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {
class RowsKernel {
public:
  RowsKernel(TileBuilder &k, const RowsSpec &spec) : k(k), spec(spec), s(spec.schedule) {
    a = k.buf({s.bm(), s.bk}, k.bf16);
    b = k.buf({s.bn, s.bk}, k.bf16);
  }

  void build(StringRef symbol) {
    SmallVector<Type> types{k.scalars, k.tma(k.bf16, {s.bm(), s.bk}), k.tma(k.bf16, {s.bn, s.bk}),
                            k.gmem({ShapedType::kDynamic, spec.outPitch}, spec.outElem)};
    k.kernel(symbol, types, /*cluster=*/1, [&](Values args) {
      x = args[1], w = args[2], out = args[3];
      ring = k.ring("ab", s.stages, {a, b}, {"mma"}, tile::Arrive::Warpgroup);
      rows = k.mul(k.count(args[0], spec.rowScalar), spec.rowFactor);
      work = k.raster({rows, spec.n}, {s.bm(), s.bn}, s.group, {"m", "n"});
      k.producer("load", s.warpgroups == 2 ? 40 : 0, [&] { load(); });
      k.consumers("mma", s.warpgroups, s.warpgroups == 2 ? 232 : 0, [&](Value g) { multiply(g); });
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

  void multiply(Value g) {
    Value row = k.mul(g, 64), noSlot = k.none(slotType()), noToken = k.none(tile::TokenType::get(k.b.getContext()));
    Value fresh = k.none(k.acc(s.bn, k.f32));
    k.foreach(work, {k.next(ring)}, [&](Values at, Values v) {
      // The k-block before this one is awaited and released while this one is in flight.
      Values r = k.peeled(tile::Peel::First, 0, spec.k, s.bk, {v[0], noSlot, fresh, noToken}, [&](Value, Value, Values v) {
        Values ab = k.wait(v[0]);
        Value mine = s.warpgroups == 1 ? ab[0] : k.view(k.buf({64, s.bk}, k.bf16), ab[0], {row, 0});
        TileBuilder::Mma mma = k.mma(tile::Form::Nt, mine, ab[1], v[2]);
        k.await(v[3]);
        k.release(v[1]);
        return Values{k.next(v[0]), v[0], mma.acc, mma.token};
      });
      Value sum = k.await(r[2]);
      k.release(r[1]);
      store(sum, k.add(at[0], row), at[1]);
      return Values{r[0]};
    });
  }

  /// Rows past the true count and columns past N are not written. Where no 64 columns are cut by the edge, they are
  /// stored or left out as a whole, in 16-byte pieces.
  void store(Value sum, Value m, Value n) {
    Value value = k.cast(sum, spec.outElem), left = k.sub(rows, m);
    if (spec.n % 64)
      return k.write(value, out, {m, n}, left, k.sub(k.ci(spec.n), n));
    if (spec.n % s.bn == 0)
      return k.write(value, out, {m, n}, left);
    for (int64_t c = 0; c < s.bn; c += 64) {
      Value column = k.add(n, c);
      k.write(k.slice(value, c, 64), out, {m, column}, k.select(k.lt(column, spec.n), left, k.ci(0)));
    }
  }

  Type slotType() { return tile::slotOf(ring.getType()); }

  TileBuilder &k;
  const RowsSpec &spec;
  const RowsSchedule &s;
  tile::BufType a, b;
  Value x, w, out, ring, rows, work;
};
} // namespace

void buildRowsKernel(TileBuilder &k, StringRef symbol, const RowsSpec &spec) { RowsKernel(k, spec).build(symbol); }

} // namespace dsv3::codegen
