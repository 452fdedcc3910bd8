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
    Value head, seq, begin, end, slot, context;
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
    gates = {t.memoryGate(kSide[0], kSide[1]), t.memoryGate(kSide[1], kSide[0])};
    gateEnd = t.memoryGate(kSide[0], kSide[1], /*mutual=*/true);
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
    return {t.mul(fields[0], Shape::kHeads), fields[1], fields[2], fields[3], fields[4], fields[5]};
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
      Values after = t.loop(it.begin, it.end, 2, carried, [&](Value i, Values v) {
        Value even = row(it, t.add(i, 2)), odd = row(it, t.add(i, 3));
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
    return t.call("page_row", {table, firstRow, it.seq, index, it.end}, [&](Values in) {
      Value at = t.min(in[3], t.sub(in[4], 1));
      return Values{t.add(in[1], t.mul(t.read(in[0], {in[2], at}, t.i32), Shape::kPage))};
    })[0];
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
      Value q = t.wait(slots[0])[0];
      State first{slots[1], slots[2], softmax.startMaximum(), softmax.startSums(), {}, t.mma(Form::Nt, q, slots[1 + side], none).acc};
      first.parts.assign(shape.chunks, t.constant(part, 0));
      Values last = t.peeled(tile::Peel::Last, it.begin, it.end, 2, first.pack(), [&](Value i, Value fin, Values v) {
        Pair pair{it, i, q, slots[0], none, fin};
        State in = State::unpack(v);
        return (side == 0 ? evenPair(pair, in) : oddPair(pair, in)).pack();
      });
      State end = State::unpack(last);
      finish(it, side, end);
      return Values{t.next(slots[0]), end.even, end.odd};
    });
  }

  struct Pair {
    const Item &it;
    Value page, q, qSlot, none, fin; ///< the even page
  };

  /// wg0's share of a pair of pages.
  State evenPair(const Pair &pair, const State &in) {
    Value even = t.peek(in.even)[0];
    Value s = finalScores(pair, t.await(in.s), even, 0);
    auto [m0, p0, r0] = softened(s, softmax.rowMaximum(s), in.maximum);
    t.sync(); // all four warps have their scores: nobody reads this page's lanes of rope any more
    park(p0, even);
    t.store(m0, maxima[0]);
    t.signal(gates[0]);
    Value f0 = factor(in.maximum, m0), l0 = softmax.carry(in.sums, f0, r0);
    Values o = drained(product(p0, even, 0, rescaled(in.parts, f0)), in.even, 0, 0);

    t.meet(gates[1]);
    Value m1 = t.load(maxima[1], m0.getType()), f1 = factor(m0, m1);
    Value l1 = t.mul(l0, t.bcast(f1, l0.getType())), odd = t.peek(in.odd)[0];
    Values flying = product(parked(odd), odd, 0, rescaled(o, f1));
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
    Value m0 = t.load(maxima[0], blockMax.getType()), f0 = factor(in.maximum, m0);
    Value even = t.peek(in.even)[0];
    Values flying = product(parked(even), even, 1, rescaled(in.parts, f0)); // flies under the softmax
    auto [m1, p1, r1] = softened(s, blockMax, m0);
    park(p1, odd);
    t.store(m1, maxima[1]);
    t.signal(gates[1]);
    Value f1 = factor(m0, m1), l1 = softmax.carry(in.sums, t.mul(f0, f1), r1);
    Values o = rescaled(drained(flying, in.even, 0, 1), f1);
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
                      Values args = {s, page, side ? t.add(pair.page, side) : pair.page, pair.it.end, pair.it.context};
                      Values kept = t.call("last_page", args, [&](Values in) { return lastPage(in[0], in[1], in[2], in[3], in[4]); });
                      if (side == 1)
                        t.sync(); // wg0 has one of its own before its first product
                      return kept;
                    },
                    [&] { return Values{s}; })[0];
  }

  /// Scores of the keys that exist in page `number`: maybe more than a page has, maybe none or fewer. V rows of the others are cleared.
  Values lastPage(Value s, Value page, Value number, Value end, Value context) {
    Value keys = t.sub(t.min(context, t.mul(end, Shape::kPage)), t.mul(number, Shape::kPage));
    Type index = t.frag(Shape::kPage, t.i32);
    Value kept = softmax.masked(t.lt(t.iota(1, index), t.bcast(keys, index)), s);
    t.sync(); // every warp is past its scores
    t.zero(t.view(t.buf({Shape::kPage, Shape::kLatent}, t.bf16), page, {0, 0}), t.max(keys, 0), Shape::kPage);
    return {kept};
  }

  struct Softened {
    Value maximum, p, sums; ///< the reference after this page; P as operand A; its sums
  };
  Softened softened(Value s, Value blockMax, Value maximum) {
    Values out = t.call("softmax", {s, blockMax, maximum}, [&](Values in) {
      Value moved = softmax.moved(in[2], in[1]);
      auto [exact, sums] = softmax.probabilities(in[0], moved);
      return Values{moved, softmax.rounded(exact), sums};
    });
    return {out[0], out[1], out[2]};
  }
  Value factor(Value before, Value after) {
    return t.call("factor", {before, after}, [&](Values in) { return Values{softmax.factor(in[0], in[1])}; })[0];
  }
  Values rescaled(const Values &parts, Value factor) {
    Values args = parts;
    args.push_back(factor);
    return t.call("rescale", args, [&](Values in) {
      Value f = in.pop_back_val();
      return softmax.rescaled(in, f);
    });
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
    Value total = t.add(mine, t.load(sums[1 - side], mine.getType())), whole = t.lt(it.slot, 0);
    for (auto [c, o] : llvm::enumerate(end.parts)) {
      Value column = t.ci(side * kHalf + int64_t(c) * kHalf / shape.chunks);
      t.call("write", {o, total, whole, it.seq, it.slot, it.head, column, out, partial}, [&](Values in) {
        writePart(softmax.normalised(in[0], in[1]), in);
        return Values{};
      });
    }
    if (side == 1)
      t.when(t.ge(it.slot, 0), [&] { t.write(softmax.logSum(end.maximum, total), lse, {it.slot, it.head}, {}, rowsFrom(it.head)); });
  }

  Value rowsFrom(Value head) { return shape.heads % Shape::kHeads ? t.sub(t.ci(shape.heads), head) : Value(); }

  void writePart(Value o, const Values &in) {
    Value whole = in[2], seq = in[3], slot = in[4], head = in[5], column = in[6], rows = rowsFrom(head);
    t.choose(
        whole, {},
        [&] {
          t.write(t.cast(o, t.bf16), in[7], {seq, head, column}, rows);
          return Values{};
        },
        [&] {
          t.write(o, in[8], {slot, head, column}, rows);
          return Values{};
        });
  }
};

} // namespace

tile::KernelOp buildMlaDecode(TileBuilder &t, StringRef symbol, const MlaDecodeShape &shape) { return MlaDecode(t, shape).build(symbol); }

} // namespace dsv3::codegen
