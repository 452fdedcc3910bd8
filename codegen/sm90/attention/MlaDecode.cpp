#include "codegen/sm90/attention/MlaDecode.h"

#include "runtime/core/Abi.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

using tile::Form;
using Shape = MlaDecodeShape;

constexpr int64_t kProducerRegs = 40, kConsumerRegs = 232;
constexpr int64_t kHalf = Shape::kLatent / 2; ///< columns of O that a warpgroup has
constexpr std::array<StringLiteral, 2> kSide = {"wg0", "wg1"};

/// Columns of a buffer that one warpgroup reads as V in one product and then frees.
struct Group {
  int side;
  SmallVector<int64_t, 4> cols; ///< pairs [from, to)
};

/// The groups of buffer 0 or 1 in the order of loading. The warpgroup that reads this page's P from registers comes
/// first; the other one frees the lanes where P is parked with its last group.
SmallVector<Group> groupsOf(int buffer, int64_t chunks) {
  SmallVector<Group> groups;
  int64_t width = kHalf / chunks;
  for (int64_t c = 0; c < chunks; ++c)
    for (int side : {buffer, 1 - buffer}) {
      int64_t from = side * kHalf + c * width, to = from + width;
      bool parked = side != buffer && c == chunks - 1;
      if (parked && to == Shape::kLatent)
        groups.push_back({side, {from, Shape::kRow}});
      else if (parked)
        groups.push_back({side, {from, to, Shape::kLatent, Shape::kRow}});
      else
        groups.push_back({side, {from, to}});
    }
  return groups;
}
int64_t groupOf(int buffer, int side, int64_t chunk) { return 2 * chunk + (side == buffer ? 0 : 1); }

class MlaDecode {
public:
  MlaDecode(TileBuilder &t, const Shape &shape) : t(t), shape(shape), softmax(t, shape.scale) {}

  tile::KernelOp build(StringRef symbol) {
    return t.kernel(symbol, arguments(), 1, [&](Values args) {
      setup(args);
      t.producer("load", kProducerRegs, [&] { produce(); });
      for (int side : {0, 1})
        t.consumers(kSide[side], 1, kConsumerRegs, [&](Value) { consume(side); });
    });
  }

private:
  TileBuilder &t;
  const Shape &shape;
  OnlineSoftmax softmax;

  tile::BufType page, p, vector;
  Type scores, part; ///< fragments of S and of O's columns
  Type scoresAcc, partAcc;

  // Arguments.
  Value qLatent, qRope, kv, table, out, partial, lse;
  // Made in front of the roles.
  Value firstRow, work, qRing;
  std::array<Value, 2> rings, maxima, sums, gates; ///< a buffer's ring; hand-over A is gates[0]
  Value gateEnd;

  struct Item {
    Value head, seq, begin, end, slot, context, pairs;
  };

  SmallVector<Type> arguments() {
    page = t.buf({Shape::kPage, Shape::kRow}, t.bf16);
    p = t.buf({Shape::kHeads, Shape::kPage}, t.bf16);
    vector = t.buf({Shape::kHeads}, t.f32, tile::SmemKind::Linear);
    scores = t.frag(Shape::kPage, t.f32), scoresAcc = t.acc(Shape::kPage, t.f32);
    part = t.frag(kHalf / shape.chunks, t.f32), partAcc = t.acc(kHalf / shape.chunks, t.f32);
    int64_t any = ShapedType::kDynamic, h = shape.heads;
    return {t.gmem({DSV3_SCALAR_COUNT}, t.b.getI64Type()),
            t.tma(t.bf16, {1, Shape::kHeads, 64}),
            t.tma(t.bf16, {1, Shape::kHeads, 64}),
            t.tma(t.bf16, {Shape::kPage, 64}),
            t.gmem({any, shape.pages}, t.i32),
            t.gmem({any, Shape::kItemFields}, t.i32),
            t.gmem({any}, t.i32),
            t.gmem({any, h, Shape::kLatent}, t.bf16),
            t.gmem({any, h, Shape::kLatent}, t.f32),
            t.gmem({any, h}, t.f32),
            t.b.getI64Type()};
  }

  void setup(const Values &args) {
    qLatent = args[1], qRope = args[2], kv = args[3], table = args[4], out = args[7], partial = args[8], lse = args[9];
    firstRow = layerRow(args[0], args[10]);
    qRing = t.ring("q", 1, {page}, {kSide[0], kSide[1]});
    for (int buffer : {0, 1})
      rings[buffer] = t.ring(pageRing(buffer));
    for (int side : {0, 1})
      maxima[side] = t.alloc(vector);
    for (int side : {0, 1})
      sums[side] = t.alloc(vector);
    gates = {t.gate(kSide[0], kSide[1]), t.gate(kSide[1], kSide[0])};
    gateEnd = t.gate(kSide[0], kSide[1], /*mutual=*/true);
    work = t.list(args[5], args[6], t.ci(shape.headTiles()), {"tile", "seq", "begin", "end", "part", "context"});
  }

  /// Row of the cache, as rows of 576 lanes, where the layer begins. Only bytes need 64 bits.
  Value layerRow(Value scalars, Value layer) {
    Type i64 = t.b.getI64Type();
    Value stride = t.read(scalars, {DSV3_SCALAR_KV_LAYER_STRIDE}, i64);
    Value rows = t.div(t.mul(layer, stride), Shape::kRow * 2);
    return arith::TruncIOp::create(t.b, t.i32, rows);
  }

  tile::RingAttr pageRing(int buffer) {
    SmallVector<tile::FreeAttr> free;
    for (const Group &g : groupsOf(buffer, shape.chunks))
      free.push_back(tile::FreeAttr::get(t.b.getContext(), {kSide[g.side]}, g.cols));
    return tile::RingAttr::get(t.b.getContext(), buffer ? "odd" : "even", /*stages=*/1, /*lanes=*/1, {page}, tile::Landed::Cols,
                               /*landedCols=*/64, free, /*fillWarps=*/0, tile::Arrive::Warp);
  }

  Item item(const Values &fields) {
    Item it{t.mul(fields[0], Shape::kHeads), fields[1], fields[2], fields[3], fields[4], fields[5], {}};
    it.pairs = t.shr(t.add(t.sub(it.end, it.begin), 1), 1);
    return it;
  }

  //===-- The copying thread ----------------------------------------------===//

  void produce() {
    t.foreach(work, {t.next(qRing), t.next(rings[0]), t.next(rings[1])}, [&](Values fields, Values slots) {
      Item it = item(fields);
      t.fill(slots[0], [&](Values buf) {
        t.copy(qLatent, {it.seq, it.head, 0}, t.view(t.buf({Shape::kHeads, Shape::kLatent}, t.bf16), buf[0], {0, 0}));
        t.copy(qRope, {it.seq, it.head, 0}, t.view(p, buf[0], {0, Shape::kLatent}));
      });
      // Page numbers are read a pair ahead, so that their latency is not that of the copies.
      Values carried = {slots[1], slots[2], row(it, it.begin), row(it, t.add(it.begin, 1))};
      Values after = t.loop(0, it.pairs, 1, carried, [&](Value i, Values v) {
        Value next = t.add(t.add(it.begin, t.mul(i, 2)), 2);
        Value even = row(it, next), odd = row(it, t.add(next, 1));
        for (int buffer : {0, 1})
          for (int64_t g = 0; g < 2 * shape.chunks; ++g)
            t.fill(v[buffer], [&](Values buf) { t.copy(kv, {v[2 + buffer], tile::kStar}, buf[0], tile::Hint::First); }, g);
        return Values{t.next(v[0]), t.next(v[1]), even, odd};
      });
      return Values{t.next(slots[0]), after[0], after[1]};
    });
  }

  /// First row of the cache that page `index` of the sequence occupies; an index beyond the item is that of its last page.
  Value row(const Item &it, Value index) {
    Value at = t.min(index, t.sub(it.end, 1));
    return t.add(firstRow, t.mul(t.read(table, {it.seq, at}, t.i32), Shape::kPage));
  }

  //===-- A consumer ------------------------------------------------------===//

  /// What a warpgroup carries from pair to pair.
  struct State {
    Value even, odd, maximum, sums;
    Values parts; ///< O
    Value s;      ///< the next scores, in flight

    Values pack() const {
      Values v = {even, odd, maximum, sums};
      v.append(parts.begin(), parts.end());
      v.push_back(s);
      return v;
    }
    static State unpack(ArrayRef<Value> v) {
      return {v[0], v[1], v[2], v[3], Values(v.begin() + 4, v.end() - 1), v.back()};
    }
  };

  void consume(int side) {
    Value none = t.none(scoresAcc);
    t.foreach(work, {t.next(qRing), t.next(rings[0]), t.next(rings[1])}, [&](Values fields, Values slots) {
      Item it = item(fields);
      Value keys = keysOfLastPage(it, side);
      Value q = t.wait(slots[0])[0];
      State first{slots[1], slots[2], softmax.startMaximum(), softmax.startSums(), {}, t.mma(Form::Nt, q, slots[1 + side], none).acc};
      first.parts.assign(shape.chunks, t.constant(part, 0));
      Values last = t.peeled(tile::Peel::Last, 0, it.pairs, 1, first.pack(), [&](Value, Value fin, Values v) {
        Pair pair{q, slots[0], none, keys, fin};
        State in = State::unpack(v);
        return (side == 0 ? evenPair(pair, in) : oddPair(pair, in)).pack();
      });
      State end = State::unpack(last);
      finish(it, side, end);
      return Values{t.next(slots[0]), end.even, end.odd};
    });
  }

  /// Keys of this side's page of the last pair that exist: maybe more than a page, maybe none or fewer.
  Value keysOfLastPage(const Item &it, int side) {
    Value limit = t.min(it.context, t.mul(it.end, Shape::kPage));
    Value page = t.add(it.begin, t.sub(t.mul(it.pairs, 2), 2 - side));
    return t.sub(limit, t.mul(page, Shape::kPage));
  }

  struct Pair {
    Value q, qSlot, none, keys, fin;
  };

  /// wg0's share of a pair of pages.
  State evenPair(const Pair &pair, const State &in) {
    Value even = t.peek(in.even)[0];
    Value s = finalScores(pair, t.await(in.s), even, 0);
    Value m0 = softmax.moved(in.maximum, softmax.rowMaximum(s));
    auto [exact0, r0] = softmax.probabilities(s, m0);
    Value p0 = softmax.rounded(exact0);
    t.sync(); // all four warps have their scores: nobody reads this page's lanes of rope any more
    park(p0, even);
    t.store(m0, maxima[0]);
    t.signal(gates[0]);
    Value f0 = softmax.factor(in.maximum, m0), l0 = softmax.carry(in.sums, f0, r0);
    Values o = drained(product(p0, even, 0, softmax.rescaled(in.parts, f0)), in.even, 0, 0);

    t.meet(gates[1]);
    Value m1 = t.load(maxima[1], m0.getType()), f1 = softmax.factor(m0, m1);
    Value l1 = t.mul(l0, t.bcast(f1, l0.getType())), odd = t.peek(in.odd)[0];
    Values flying = product(parked(odd), odd, 0, softmax.rescaled(o, f1));
    State next{t.next(in.even), t.next(in.odd), m1, l1, {}, {}};
    return withNextScores(pair, in, flying, next);
  }

  /// Drains wg0's last product; unless this is the last pair, its next scores begin before that.
  State withNextScores(const Pair &pair, const State &in, const Values &flying, State next) {
    SmallVector<Type> types(shape.chunks, part);
    types.push_back(scoresAcc);
    Values result = t.choose(
        pair.fin, types,
        [&] {
          Values v = drained(flying, in.odd, 1, 0);
          v.push_back(pair.none);
          return v;
        },
        [&] {
          Value s = pair.none;
          for (int64_t g = 0; g < shape.chunks; ++g)
            s = t.mma(Form::Nt, pair.q, next.even, s, g).acc;
          Values v = drained(flying, in.odd, 1, 0);
          for (int64_t g = shape.chunks; g < 2 * shape.chunks; ++g)
            s = t.mma(Form::Nt, pair.q, next.even, s, g).acc;
          v.push_back(s);
          return v;
        });
    next.s = result.pop_back_val();
    next.parts = result;
    return next;
  }

  /// wg1's share of a pair of pages.
  State oddPair(const Pair &pair, const State &in) {
    Value odd = t.peek(in.odd)[0];
    Value s = finalScores(pair, t.await(in.s), odd, 1);
    Value blockMax = softmax.rowMaximum(s);
    t.meet(gates[0]); // also: all four warps have their scores
    Value m0 = t.load(maxima[0], blockMax.getType()), f0 = softmax.factor(in.maximum, m0);
    Value even = t.peek(in.even)[0];
    Values flying = product(parked(even), even, 1, softmax.rescaled(in.parts, f0)); // flies under the softmax
    Value m1 = softmax.moved(m0, blockMax);
    auto [exact1, r1] = softmax.probabilities(s, m1);
    Value p1 = softmax.rounded(exact1);
    park(p1, odd);
    t.store(m1, maxima[1]);
    t.signal(gates[1]);
    Value f1 = softmax.factor(m0, m1), l1 = softmax.carry(in.sums, t.mul(f0, f1), r1);
    Values o = softmax.rescaled(drained(flying, in.even, 0, 1), f1);
    State next{t.next(in.even), t.next(in.odd), m1, l1, drained(product(p1, odd, 1, o), in.odd, 1, 1), {}};
    next.s = t.choose(pair.fin, {scoresAcc}, [&] { return Values{pair.none}; },
                      [&] { return Values{t.mma(Form::Nt, pair.q, next.odd, pair.none).acc}; })[0];
    return next;
  }

  /// The scores; in the last pair, without those of keys that do not exist. Then Q is free.
  Value finalScores(const Pair &pair, Value s, Value page, int side) {
    return t.choose(pair.fin, {scores},
                    [&] {
                      t.release(pair.qSlot);
                      Type index = t.frag(Shape::kPage, t.i32);
                      Value exists = t.lt(t.iota(1, index), t.bcast(pair.keys, index));
                      Value kept = softmax.masked(exists, s);
                      t.sync(); // every warp is past its scores
                      t.zero(t.view(t.buf({Shape::kPage, Shape::kLatent}, t.bf16), page, {0, 0}), t.max(pair.keys, 0), Shape::kPage);
                      if (side == 1)
                        t.sync(); // wg0 has one of its own before its first product
                      return Values{kept};
                    },
                    [&] { return Values{s}; })[0];
  }

  void park(Value probabilities, Value page) { t.store(probabilities, parked(page)); }
  Value parked(Value page) { return t.view(p, page, {0, Shape::kLatent}); }

  /// O += P V for this side's columns, chunk by chunk; in flight.
  Values product(Value probabilities, Value page, int side, const Values &parts) {
    int64_t width = kHalf / shape.chunks;
    Values flying;
    for (auto [c, o] : llvm::enumerate(parts)) {
      Value v = t.view(t.buf({Shape::kPage, width}, t.bf16), page, {0, side * kHalf + int64_t(c) * width});
      flying.push_back(t.mma(Form::Nn, probabilities, v, o).acc);
    }
    return flying;
  }

  /// Waits for each chunk and frees its columns of the buffer.
  Values drained(const Values &flying, Value slot, int buffer, int side) {
    Values parts;
    for (auto [c, o] : llvm::enumerate(flying)) {
      parts.push_back(t.await(o));
      t.release(slot, groupOf(buffer, side, c));
    }
    return parts;
  }

  /// Sums of even and odd pages joined, then the item's rows written.
  void finish(const Item &it, int side, const State &end) {
    Value mine = softmax.total(end.sums);
    t.store(mine, sums[side]);
    t.meet(gateEnd);
    Value total = t.add(mine, t.load(sums[1 - side], mine.getType()));
    Value rows = shape.heads % Shape::kHeads ? t.sub(t.ci(shape.heads), it.head) : Value();
    Value whole = t.lt(it.slot, 0);
    int64_t width = kHalf / shape.chunks;
    auto write = [&](Value to, Value index, Type elem) {
      for (auto [c, o] : llvm::enumerate(end.parts))
        t.write(t.cast(softmax.normalised(o, total), elem), to, {index, it.head, side * kHalf + int64_t(c) * width}, rows);
    };
    t.choose(
        whole, {},
        [&] {
          write(out, it.seq, t.bf16);
          return Values{};
        },
        [&] {
          write(partial, it.slot, t.f32);
          if (side == 1)
            t.write(softmax.logSum(end.maximum, total), lse, {it.slot, it.head}, {}, rows);
          return Values{};
        });
  }
};

} // namespace

tile::KernelOp buildMlaDecode(TileBuilder &t, StringRef symbol, const MlaDecodeShape &shape) { return MlaDecode(t, shape).build(symbol); }

} // namespace dsv3::codegen
