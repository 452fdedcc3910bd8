#include "codegen/sm90/attention/MlaDecodeCodes.h"

#include "runtime/core/Abi.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

using tile::Form;
using Shape = MlaDecodeCodesShape;

constexpr int64_t kProducerRegs = 40, kConsumerRegs = 232;
constexpr int64_t kHalf = Shape::kLatent / 2, kParts = kHalf / 64; ///< lanes of O that a warpgroup has, in tiles of 64
constexpr std::array<StringLiteral, 2> kSide = {"wg0", "wg1"};

class MlaDecodeCodes {
public:
  MlaDecodeCodes(TileBuilder &t, const Shape &shape) : t(t), shape(shape), softmax(t, shape.scale) {}

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

  tile::BufType queries, keys, rope, vector, weights;
  Type scores, scoresAcc, part;

  // Arguments.
  Value qCodes, qRope, qScales, kvCodes, kvRope, kvPages, table, out, partial, lse;
  // Made in front of the roles.
  Value firstPage, work, qRing, factors, gateMax, gateWeights, gateEnd;
  std::array<Value, 2> rings, maxima, sums, w; ///< a page's ring, and what its warpgroup shares

  struct Item {
    Value head, seq, begin, end, slot, context;
  };

  SmallVector<Type> arguments() {
    queries = t.buf({Shape::kHeads, Shape::kLatent}, t.f8);
    keys = t.buf({Shape::kPage, Shape::kLatent}, shape.codes);
    rope = t.buf({Shape::kPage, Shape::kRope}, t.bf16); // and the query's
    vector = t.buf({Shape::kHeads}, t.f32, tile::SmemKind::Linear);
    weights = t.buf({Shape::kHeads, Shape::kPage}, t.bf16);
    scores = t.frag(Shape::kPage, t.f32), scoresAcc = t.acc(Shape::kPage, t.f32);
    part = t.frag(shape.columns(), t.f32);
    int64_t any = ShapedType::kDynamic, h = shape.heads;
    return {t.gmem({DSV3_SCALAR_COUNT}, t.b.getI64Type()),
            t.tma(t.f8, {1, Shape::kHeads, 128}),
            t.tma(t.bf16, {1, Shape::kHeads, 64}),
            t.gmem({any, h}, t.f32),
            t.tma(shape.codes, {1, Shape::kPage, 128}),
            t.tma(t.bf16, {1, Shape::kPage, 64}),
            t.gmem({any, Shape::kPageBytes / 4}, t.f32),
            t.gmem({any, shape.pages}, t.i32),
            t.gmem({any, Shape::kItemFields}, t.i32),
            t.gmem({any}, t.i32),
            t.gmem({any, h, Shape::kLatent}, t.bf16),
            t.gmem({any, h, Shape::kLatent}, t.f32),
            t.gmem({any, h}, t.f32),
            t.b.getI64Type()};
  }

  void setup(const Values &args) {
    qCodes = args[1], qRope = args[2], qScales = args[3], kvCodes = args[4], kvRope = args[5], kvPages = args[6], table = args[7];
    out = args[10], partial = args[11], lse = args[12];
    Value stride = t.read(args[0], {DSV3_SCALAR_KV_LAYER_STRIDE}, t.b.getI64Type());
    firstPage = arith::TruncIOp::create(t.b, t.i32, t.div(t.mul(args[13], stride), Shape::kPageBytes));
    qRing = t.ring("q", 1, {queries, rope}, {kSide[0], kSide[1]});
    for (int side : {0, 1})
      rings[side] = t.ring(side ? "odd" : "even", Shape::kStages, {keys, rope, vector}, {kSide[0], kSide[1]});
    for (std::array<Value, 2> *pair : {&maxima, &sums})
      for (Value &buffer : *pair)
        buffer = t.alloc(vector);
    for (Value &buffer : w)
      buffer = t.alloc(weights);
    factors = t.alloc(vector);
    for (Value *gate : {&gateMax, &gateWeights, &gateEnd})
      *gate = t.memoryGate(kSide[0], kSide[1], /*mutual=*/true);
    work = t.list(args[8], args[9], t.ci(shape.headTiles()), {"tile", "seq", "begin", "end", "part", "context"});
  }

  Item item(const Values &fields) {
    return {t.mul(fields[0], Shape::kHeads), fields[1], fields[2], fields[3], fields[4], fields[5]};
  }

  //===-- The copying thread ----------------------------------------------===//

  void produce() {
    t.foreach(work, {t.next(qRing), t.next(rings[0]), t.next(rings[1])}, [&](Values fields, Values slots) {
      Item it = item(fields);
      t.fill(slots[0], [&](Values buf) {
        t.copy(qCodes, {it.seq, it.head, 0}, buf[0]);
        t.copy(qRope, {it.seq, it.head, 0}, buf[1]);
      });
      // Page numbers are read a pair ahead, so that their latency is not that of the copies.
      Values carried = {slots[1], slots[2], page(it, it.begin), page(it, t.add(it.begin, 1))};
      Values after = t.loop(it.begin, it.end, 2, carried, [&](Value i, Values v) {
        Value even = page(it, t.add(i, 2)), odd = page(it, t.add(i, 3));
        for (int side : {0, 1})
          t.fill(v[side], [&](Values buf) {
            t.copy(kvCodes, {v[2 + side], 0, 0}, buf[0], tile::Hint::First);
            t.copy(kvRope, {v[2 + side], 0, 0}, buf[1], tile::Hint::First);
            t.copy(kvPages, {v[2 + side], Shape::kScaleAt / 4}, buf[2]);
          });
        return Values{t.next(v[0]), t.next(v[1]), even, odd};
      });
      return Values{t.next(slots[0]), after[0], after[1]};
    });
  }

  /// Where page `index` of the sequence stands in the pool; an index beyond the item is that of its last page.
  Value page(const Item &it, Value index) {
    return t.call("page", {table, firstPage, it.seq, index, it.end}, [&](Values in) {
      Value at = t.min(in[3], t.sub(in[4], 1));
      return Values{t.add(in[1], t.read(in[0], {in[2], at}, t.i32))};
    })[0];
  }

  //===-- A consumer ------------------------------------------------------===//

  /// What a warpgroup carries from pair to pair.
  struct State {
    std::array<Value, 2> pages; ///< even and odd slot
    Value maximum, sums;
    Values parts; ///< O^T
    Value s;      ///< the next scores, in flight

    Values pack() const {
      Values v = {pages[0], pages[1], maximum, sums};
      v.append(parts.begin(), parts.end());
      v.push_back(s);
      return v;
    }
    static State unpack(ArrayRef<Value> v) { return {{v[0], v[1]}, v[2], v[3], Values(v.begin() + 4, v.end() - 1), v.back()}; }
  };

  struct Pair {
    const Item &it;
    Value index, qSlot, qScale, fin; ///< `index` of the even page
    Values q;
    int side;
  };

  void consume(int side) {
    t.foreach(work, {t.next(qRing), t.next(rings[0]), t.next(rings[1])}, [&](Values fields, Values slots) {
      Item it = item(fields);
      Value some = shape.heads % Shape::kHeads ? t.sub(t.ci(shape.heads), it.head) : Value();
      Value qScale = t.read(qScales, {it.seq, it.head}, t.row(t.f32), {}, some);
      Values q = t.wait(slots[0]);
      State first{{slots[1], slots[2]}, softmax.startMaximum(), softmax.startSums(), {}, nextScores(q, slots[1 + side])};
      first.parts.assign(kParts, t.constant(part, 0));
      Values last = t.peeled(tile::Peel::Last, it.begin, it.end, 2, first.pack(), [&](Value i, Value fin, Values v) {
        return pair({it, i, slots[0], qScale, fin, q, side}, State::unpack(v)).pack();
      });
      State end = State::unpack(last);
      finish(it, side, end);
      return Values{t.next(slots[0]), end.pages[0], end.pages[1]};
    });
  }

  Value nextScores(const Values &q, Value slot) { return t.mma(Form::Nt, q[0], t.wait(slot)[0], t.none(scoresAcc)).acc; }

  State pair(const Pair &pair, const State &in) {
    const int side = pair.side;
    Values own = t.peek(in.pages[side]);
    Value s = finalScores(pair, scaledScores(pair, t.await(in.s), own), own);
    Value blockMax = softmax.rowMaximum(s);
    t.store(blockMax, maxima[side]);
    t.meet(gateMax);
    Value both = t.max(blockMax, t.load(maxima[1 - side], blockMax.getType()));
    Value m = softmax.moved(in.maximum, both), f = softmax.factor(in.maximum, m);
    auto [p, more] = softmax.probabilities(s, m);
    State next{{t.next(in.pages[0]), t.next(in.pages[1])}, m, softmax.carry(in.sums, f, more), {}, {}};
    Value scales = t.load(own[2], t.col(Shape::kPage, t.f32)); // again: through the softmax there are no registers for them
    t.store(t.cast(t.mul(p, t.bcast(scales, p.getType())), t.bf16), w[side]);
    if (side == 0)
      t.store(f, factors);
    t.meet(gateWeights);
    next.parts = softmax.rescaled(in.parts, column(factors));
    for (int of : {0, 1})
      next.parts = added(next.parts, in.pages[of], of, side);
    next.s = t.choose(pair.fin, {scoresAcc}, [&] { return Values{t.none(scoresAcc)}; },
                      [&] { return Values{nextScores(pair.q, next.pages[side])}; })[0];
    return next;
  }

  /// A value per head as columns of O^T.
  Value column(Value buffer) {
    tile::BufType some = t.buf({shape.columns()}, t.f32, tile::SmemKind::Linear);
    return t.load(shape.columns() == Shape::kHeads ? buffer : t.view(some, buffer, {0}), t.col(shape.columns(), t.f32));
  }

  /// The product of codes times both scales, then the rotated lanes on top.
  Value scaledScores(const Pair &pair, Value product, const Values &own) {
    Value scales = t.load(own[2], t.col(Shape::kPage, t.f32));
    Value scaled = t.call("scaled", {product, pair.qScale, scales}, [&](Values in) {
      return Values{t.mul(t.mul(in[0], t.bcast(in[1], scores)), t.bcast(in[2], scores))};
    })[0];
    return t.await(t.mma(Form::Nt, pair.q[1], own[1], scaled).acc);
  }

  /// Scores of the page; in the last pair, without those of keys that do not exist. Then Q is free.
  Value finalScores(const Pair &pair, Value s, const Values &own) {
    return t.choose(pair.fin, {scores},
                    [&] {
                      t.release(pair.qSlot);
                      Value number = pair.side ? t.add(pair.index, pair.side) : pair.index;
                      Values args = {s, own[0], own[2], number, pair.it.end, pair.it.context};
                      return t.call("last_page", args, [&](Values in) { return Values{lastPage(in)}; });
                    },
                    [&] { return Values{s}; })[0];
  }

  /// Scores of the keys that exist in page `number`: maybe more than a page has, maybe none or fewer. Rows of codes of the
  /// others are cleared, and their scales: both may be NaN.
  Value lastPage(const Values &in) {
    Value keysLeft = t.sub(t.min(in[5], t.mul(in[4], Shape::kPage)), t.mul(in[3], Shape::kPage));
    Type index = t.frag(Shape::kPage, t.i32), place = t.col(Shape::kPage, t.i32), columns = t.col(Shape::kPage, t.f32);
    Value kept = softmax.masked(t.lt(t.iota(1, index), t.bcast(keysLeft, index)), in[0]);
    Value scales = t.select(t.lt(t.iota(0, place), t.bcast(keysLeft, place)), t.load(in[2], columns), t.constant(columns, 0));
    t.sync(); // every warp is past its scores
    t.zero(in[1], t.max(keysLeft, 0), Shape::kPage);
    t.store(scales, in[2]);
    return kept;
  }

  /// O^T += V^T W^T of one page, for this side's lanes; then the page is free. At most two products are in flight, each with
  /// registers of its own.
  Values added(const Values &parts, Value slot, int of, int side) {
    Value codes = t.peek(slot)[0], right = w[of];
    if (shape.columns() != Shape::kHeads)
      right = t.view(t.buf({shape.columns(), Shape::kPage}, t.bf16), right, {0, 0});
    Values flying, done;
    for (int64_t c = 0; c < kParts; ++c) {
      Value left = t.expand(t.loadPaired(codes, side * kHalf + c * 64, t.frag(Shape::kPage, shape.codes)), t.frag(Shape::kPage, t.bf16));
      flying.push_back(t.mma(Form::Nt, left, right, parts[c]).acc);
      if (c)
        done.push_back(t.await(flying[c - 1]));
    }
    done.push_back(t.await(flying.back()));
    t.release(slot);
    return done;
  }

  /// Sums of even and odd pages joined, then the item's rows written.
  void finish(const Item &it, int side, const State &end) {
    Value mine = softmax.total(end.sums);
    t.store(mine, sums[side]);
    t.meet(gateEnd);
    Value total = t.add(column(sums[0]), column(sums[1])), whole = t.lt(it.slot, 0);
    for (auto [c, o] : llvm::enumerate(end.parts)) {
      Value lane = t.ci(side * kHalf + int64_t(c) * 64);
      t.call("write", {o, total, whole, it.seq, it.slot, it.head, lane, out, partial}, [&](Values in) {
        writePart(softmax.normalised(in[0], in[1]), in);
        return Values{};
      });
    }
    if (side == 1)
      t.when(t.ge(it.slot, 0), [&] {
        Value rows = t.add(mine, t.load(sums[0], mine.getType()));
        t.write(softmax.logSum(end.maximum, rows), lse, {it.slot, it.head}, {}, shape.heads % Shape::kHeads ? t.sub(t.ci(shape.heads), it.head) : Value());
      });
  }

  void writePart(Value o, const Values &in) {
    Value whole = in[2], seq = in[3], slot = in[4], head = in[5], lane = in[6];
    Value heads = shape.heads % shape.columns() ? t.sub(t.ci(shape.heads), head) : Value();
    t.choose(
        whole, {},
        [&] {
          t.writePaired(t.cast(o, t.bf16), in[7], {seq, head, lane}, heads);
          return Values{};
        },
        [&] {
          t.writePaired(o, in[8], {slot, head, lane}, heads);
          return Values{};
        });
  }
};

} // namespace

tile::KernelOp buildMlaDecodeCodes(TileBuilder &t, StringRef symbol, const MlaDecodeCodesShape &shape) {
  return MlaDecodeCodes(t, shape).build(symbol);
}

} // namespace dsv3::codegen
