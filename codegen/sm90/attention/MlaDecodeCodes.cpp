#include "codegen/sm90/attention/MlaDecodeCodes.h"

#include "runtime/core/Abi.h"

#include <array>
#include <cmath>

using namespace mlir;

namespace dsv3::codegen {

namespace {

using tile::Form;
using Shape = MlaDecodeCodesShape;

constexpr int64_t kProducerRegs = 32, kScoreRegs = 128, kValueRegs = 176;
constexpr std::array<StringLiteral, 2> kValues = {"lower", "upper"}; ///< half of the lanes
constexpr int64_t kHalf = Shape::kLatent / 2, kParts = kHalf / 64; ///< lanes of O that a warpgroup has, in tiles of 64
constexpr int64_t kAtom = 128;                                      ///< codes that lie together in a row of a swizzled buffer

class MlaDecodeCodes {
public:
  MlaDecodeCodes(TileBuilder &t, const Shape &shape) : t(t), shape(shape), softmax(OnlineSoftmax::ofExponents(t)) {}

  tile::KernelOp build(StringRef symbol) {
    return t.kernel(symbol, arguments(), 1, [&](Values args) {
      setup(args);
      t.producer("load", kProducerRegs, [&] { produce(); });
      t.consumers("scores", 1, kScoreRegs, [&](Value) { score(); });
      for (int64_t half : {0, 1})
        t.consumers(kValues[half], 1, kValueRegs, [&](Value) { multiply(half * kHalf); });
    });
  }

private:
  TileBuilder &t;
  const Shape &shape;
  OnlineSoftmax softmax; ///< of exponents: W is 2 to its argument

  tile::BufType queries, keys, rope, vector, weights;
  Type scores, scoresAcc, part;

  // Arguments.
  Value qCodes, qRope, qScales, kvCodes, kvRope, kvPages, table, out, partial, lse;
  // Made in front of the roles. A stage of `wRing` is W, cut along tokens, and factors of O.
  Value firstPage, work, qRing, pageRing, wRing, sumRing;
  Value logs, inverses; ///< log2 sk and 1 / sk of two pages: of the scores alone

  struct Item {
    Value head, seq, begin, end, slot, context;
  };

  SmallVector<Type> arguments() {
    queries = t.buf({Shape::kHeads, Shape::kLatent}, t.f8);
    keys = t.buf({Shape::kPage, Shape::kLatent}, shape.codes);
    rope = t.buf({Shape::kPage, Shape::kRope}, t.bf16); // and the query's
    vector = t.buf({Shape::kHeads}, t.f32, tile::SmemKind::Linear);
    weights = t.buf({Shape::kHeads, Shape::kPage / 2}, t.f16, tile::SmemKind::Sw64);
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
    qRing = t.ring("q", 1, {queries, rope}, {"scores"});
    pageRing = t.ring("pages", Shape::kStages, {keys, rope, vector}, {"scores", kValues[0], kValues[1]});
    wRing = storedRing("weights", Shape::kWeights, {weights, weights, vector});
    sumRing = storedRing("sums", 1, {vector, vector});
    for (Value *both : {&logs, &inverses})
      *both = t.alloc(t.buf({2, Shape::kPage}, t.f32, tile::SmemKind::Linear));
    work = t.list(args[8], args[9], t.ci(shape.headTiles()), {"tile", "seq", "begin", "end", "part", "context"});
  }

  /// What the four warps of the scores hand to the values.
  Value storedRing(StringRef name, int64_t stages, ArrayRef<Type> bufs) {
    return t.ring(tile::RingAttr::get(t.b.getContext(), name, stages, /*lanes=*/1, bufs, tile::Landed::All, /*landedCols=*/0,
                                      {tile::FreeAttr::get(t.b.getContext(), {kValues[0], kValues[1]})}, /*fillWarps=*/4, tile::Arrive::Warp));
  }

  Item item(const Values &fields) {
    return {t.mul(fields[0], Shape::kHeads), fields[1], fields[2], fields[3], fields[4], fields[5]};
  }

  //===-- The copying thread ----------------------------------------------===//

  void produce() {
    t.foreach(work, {t.next(qRing), t.next(pageRing)}, [&](Values fields, Values slots) {
      Item it = item(fields);
      t.fill(slots[0], [&](Values buf) {
        t.copy(qCodes, {it.seq, it.head, 0}, buf[0]);
        t.copy(qRope, {it.seq, it.head, 0}, buf[1]);
      });
      // A page's number is read a page ahead, so that its latency is not that of the copies.
      Values after = t.loop(it.begin, it.end, 1, {slots[1], page(it, it.begin)}, [&](Value i, Values v) {
        Value coming = page(it, t.add(i, 1));
        t.fill(v[0], [&](Values buf) {
          t.copy(kvCodes, {v[1], 0, 0}, buf[0], tile::Hint::First);
          t.copy(kvRope, {v[1], 0, 0}, buf[1], tile::Hint::First);
          t.copy(kvPages, {v[1], Shape::kScaleAt / 4}, buf[2]);
        });
        return Values{t.next(v[0]), coming};
      });
      return Values{t.next(slots[0]), after[0]};
    });
  }

  /// Where page `index` of the sequence stands in the pool; an index beyond the item is that of its last page.
  Value page(const Item &it, Value index) {
    return t.call("page", {table, firstPage, it.seq, index, it.end}, [&](Values in) {
      Value at = t.min(in[3], t.sub(in[4], 1));
      return Values{t.add(in[1], t.read(in[0], {in[2], at}, t.i32))};
    })[0];
  }

  //===-- Scores ----------------------------------------------------------===//

  /// What is carried from page to page.
  struct State {
    Value page, w; ///< slots
    Value maximum, sums;
    Value s, r; ///< the first half of the page's Q K^T, and its Q_r K_r^T, in flight

    Values pack() const { return {page, w, maximum, sums, s, r}; }
    static State unpack(ArrayRef<Value> v) { return {v[0], v[1], v[2], v[3], v[4], v[5]}; }
  };

  struct Page {
    const Item &it;
    Value index, qSlot, qScale, fin;
    Values q;
  };

  void score() {
    t.foreach(work, {t.next(qRing), t.next(pageRing), t.next(wRing), t.next(sumRing)}, [&](Values fields, Values slots) {
      Item it = item(fields);
      Value qScale = t.read(qScales, {it.seq, it.head}, t.row(t.f32), {}, headsFrom(it, Shape::kHeads));
      Values q = t.wait(slots[0]);
      t.sync(); // nobody reads logarithms and inverses of the item before
      State first{slots[1], slots[2], softmax.startMaximum(), softmax.startSums(), nextScores(it, it.begin, q, slots[1]), {}};
      first.r = rotatedScores(q, slots[1]);
      State end = State::unpack(t.peeled(tile::Peel::Last, it.begin, it.end, 1, first.pack(), [&](Value i, Value fin, Values v) {
        return scorePage({it, i, slots[0], qScale, fin, q}, State::unpack(v)).pack();
      }));
      Value total = softmax.total(end.sums);
      Values sums = t.waitFree(slots[3]);
      t.store(total, sums[0]);
      t.store(softmax.logSum(end.maximum, total), sums[1]);
      t.releaseFull(slots[3]);
      return Values{t.next(slots[0]), end.page, end.w, t.next(slots[3])};
    });
  }

  /// Heads that exist from the tile's first on; null: as many as the tile has.
  Value headsFrom(const Item &it, int64_t tile) { return shape.heads % tile ? t.sub(t.ci(shape.heads), it.head) : Value(); }

  /// Q K^T over one half of the latent lanes of a page that has landed.
  Value halfScores(const Values &q, Value slot, int64_t half) {
    Value acc = t.none(scoresAcc);
    for (int64_t lane = half * kHalf; lane < (half + 1) * kHalf; lane += kAtom) {
      auto lanes = [&](Value whole, Type element) { return t.view(t.buf({Shape::kPage, kAtom}, element), whole, {0, lane}); };
      acc = t.mma(Form::Nt, lanes(q[0], t.f8), lanes(t.peek(slot)[0], shape.codes), acc).acc;
    }
    return acc;
  }

  /// Begins the product of a page, and makes its scales ready.
  Value nextScores(const Item &it, Value index, const Values &q, Value slot) {
    Values own = t.wait(slot);
    Value s = halfScores(q, slot, 0);
    t.call("scales", {own[2], keysLeft(it, index), t.rem(index, 2), logs, inverses}, [&](Values in) {
      storeScales(in);
      return Values{};
    });
    return s;
  }

  Value rotatedScores(const Values &q, Value slot) { return t.mma(Form::Nt, q[1], t.peek(slot)[1], t.none(scoresAcc)).acc; }

  /// log2 sk and 1 / sk, once per token: a thread needs 16 of them, the same as 31 others. 1 for tokens that do not exist.
  void storeScales(const Values &in) {
    Type row = t.row(t.f32), place = t.row(t.i32);
    Value scale = t.select(t.lt(t.iota(0, place), t.bcast(in[1], place)), t.load(in[0], row), t.constant(row, 1));
    Value log = t.log2(scale);
    t.store(log, ofPage(in[3], in[2]));
    t.store(t.exp2(t.neg(log)), ofPage(in[4], in[2]));
  }
  Value ofPage(Value both, Value parity) { return t.view(vector, both, {parity, 0}); }
  Value columnOf(Value both, const Page &page) { return t.load(ofPage(both, t.rem(page.index, 2)), t.col(Shape::kPage, t.f32)); }

  State scorePage(const Page &page, const State &in) {
    Values own = t.peek(in.page), w = t.waitFree(in.w);
    t.sync(); // logarithms and inverses of this page are there, and nobody reads those of the page before
    Value rotated = t.await(in.r), first = t.await(in.s); // the later one first: ptxas serialises what is read before the last wait
    Value product = t.add(first, t.await(halfScores(page.q, in.page, 1)));
    Value scales = t.load(own[2], t.col(Shape::kPage, t.f32));
    Value whole = t.fma(t.mul(product, t.bcast(page.qScale, scores)), t.bcast(scales, scores), rotated);
    State next{t.next(in.page), t.next(in.w), {}, {}, {}, {}};
    next.s = t.choose(page.fin, {scoresAcc}, [&] { return Values{t.none(scoresAcc)}; },
                      [&] { return Values{nextScores(page.it, t.add(page.index, 1), page.q, next.page)}; })[0];
    Value s = exponents(page, whole, own);
    next.maximum = softmax.moved(in.maximum, softmax.rowMaximum(s));
    Value f = softmax.factor(in.maximum, next.maximum), before = t.mul(in.sums, t.bcast(f, t.quad(t.f32)));
    t.store(f, w[2]);
    Value p = t.exp2(t.sub(s, t.bcast(next.maximum, scores)));
    Value more = t.reduce(tile::Combine::Add, t.mul(p, t.bcast(columnOf(inverses, page), scores)), t.quad(t.f32));
    next.sums = t.add(before, more);
    Value rounded = t.cast(p, t.f16);
    for (int64_t half : {0, 1})
      t.store(t.slice(rounded, half * Shape::kPage / 2, Shape::kPage / 2), w[half]);
    t.release(in.page);
    t.releaseFull(in.w);
    next.r = t.choose(page.fin, {scoresAcc}, [&] { return Values{t.none(scoresAcc)}; },
                      [&] { return Values{rotatedScores(page.q, next.page)}; })[0];
    return next;
  }

  /// Keys of an item from page `index` on.
  Value keysLeft(const Item &it, Value index) { return t.sub(t.min(it.context, t.mul(it.end, Shape::kPage)), t.mul(index, Shape::kPage)); }

  /// S c + log2 sk; in the last page -inf for keys that do not exist, whose codes are cleared, as they may be NaN. Then Q is free.
  Value exponents(const Page &page, Value s, const Values &own) {
    Value log = columnOf(logs, page);
    Value c = t.constant(scores, shape.scale * std::log2(std::exp(1.0)));
    Value all = t.fma(s, c, t.bcast(log, scores));
    return t.choose(page.fin, {scores},
                    [&] {
                      t.release(page.qSlot);
                      Value left = keysLeft(page.it, page.index);
                      Type index = t.frag(Shape::kPage, t.i32);
                      t.sync(); // every warp is past its scores
                      t.zero(own[0], t.max(left, 0), Shape::kPage);
                      return Values{softmax.masked(t.lt(t.iota(1, index), t.bcast(left, index)), all)};
                    },
                    [&] { return Values{all}; })[0];
  }

  //===-- Values ----------------------------------------------------------===//

  /// Lanes from `lane` on of every item.
  void multiply(int64_t lane) {
    t.foreach(work, {t.next(pageRing), t.next(wRing), t.next(sumRing)}, [&](Values fields, Values slots) {
      Item it = item(fields);
      Values first{slots[0], slots[1]};
      first.append(kParts, t.constant(part, 0));
      Values end = t.loop(it.begin, it.end, 1, first, [&](Value, Values v) {
        Values next{t.next(v[0]), t.next(v[1])};
        next.append(added(Values(v.begin() + 2, v.end()), v[0], v[1], lane));
        return next;
      });
      finish(it, lane, Values(end.begin() + 2, end.end()), slots[2]);
      return Values{end[0], end[1], t.next(slots[2])};
    });
  }

  /// A value per head as columns of O^T.
  Value column(Value buffer) {
    tile::BufType some = t.buf({shape.columns()}, t.f32, tile::SmemKind::Linear);
    return t.load(shape.columns() == Shape::kHeads ? buffer : t.view(some, buffer, {0}), t.col(shape.columns(), t.f32));
  }

  /// O^T times its factors, += V^T W^T of one page; then the page is free. A product is one of 64 lanes and half of the page's
  /// tokens: one is in flight while the next one's operand is made, so that 16 registers hold both.
  Values added(Values parts, Value pageSlot, Value wSlot, int64_t lane) {
    Values w = t.wait(wSlot); // whoever made W has seen the page land
    Value codes = t.peek(pageSlot)[0];
    if (shape.columns() != Shape::kHeads)
      for (int64_t half : {0, 1})
        w[half] = t.view(t.buf({shape.columns(), Shape::kPage / 2}, t.f16, tile::SmemKind::Sw64), w[half], {0, 0});
    parts = softmax.rescaled(parts, column(w[2]));
    SmallVector<TileBuilder::Mma> flying;
    Values done;
    auto retire = [&](int64_t i) {
      if (i % 2)
        done.push_back(t.await(flying[i].acc));
      else
        t.await(flying[i].token);
    };
    for (int64_t i = 0; i < 2 * kParts; ++i) {
      const int64_t half = i % 2, first = lane + i / 2 * 64;
      Value some = t.view(t.buf({Shape::kPage / 2, kAtom}, shape.codes), codes, {half * Shape::kPage / 2, first / kAtom * kAtom});
      Value left = t.expand(t.loadPaired(some, first % kAtom, t.frag(Shape::kPage / 2, shape.codes)), t.frag(Shape::kPage / 2, t.f16));
      flying.push_back(t.mma(Form::Nt, left, w[half], half ? flying.back().acc : parts[i / 2]));
      if (i + 1 == 2 * kParts)
        t.release(pageSlot); // behind the product: loads are over for sure where their results are used
      if (i > 0)
        retire(i - 1);
    }
    retire(2 * kParts - 1);
    t.release(wSlot);
    return done;
  }

  /// The item's rows, divided by their sums.
  void finish(const Item &it, int64_t lane, const Values &parts, Value sumSlot) {
    Values sums = t.wait(sumSlot);
    Value total = column(sums[0]), whole = t.lt(it.slot, 0);
    if (lane == 0) // whoever makes the scores has no registers left for the item's slot
      t.when(t.ge(it.slot, 0), [&] { t.write(t.load(sums[1], t.row(t.f32)), lse, {it.slot, it.head}, {}, headsFrom(it, Shape::kHeads)); });
    for (auto [c, o] : llvm::enumerate(parts)) {
      Value at = t.ci(lane + int64_t(c) * 64);
      t.call("write", {o, total, whole, it.seq, it.slot, it.head, at, out, partial}, [&](Values in) {
        writePart(softmax.normalised(in[0], in[1]), in);
        return Values{};
      });
    }
    t.release(sumSlot);
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
