// One cluster of blocks a row, and nothing is sorted. Every row is read twice: for the greatest logit, then for the sum of
// weights; the second time it lies in the first-level caches. Rows that draw are read a third time, by warps with a range of
// ids each, so that the draw knows where to look. Rows with top-k or top-p collect candidates on that way: a threshold that
// the first pass found leaves some 1500 of 129280 whatever their distribution, which nearly always hold every token that
// may be kept. The cluster's first block fetches them; the thresholds of top-k and top-p, and the draw itself, are bisections
// over the bits of a number, one sum over the candidates a step. Where they do not suffice (a flat row), the whole cluster does
// the same bisections over the row: slower, to the same token. Sums are of integers: no order, no matter how many blocks.
#include "codegen/sm90/simt/Sampling.h"

#include "codegen/sm90/simt/ClusterReduce.h"
#include "runtime/core/TokenChoice.h"

#include <cstddef>
#include <limits>
#include <optional>

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr int64_t kMostI32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kInfinity = 0x7f800000; ///< bits of a float32

/// What one cluster does. A token's key is the bits of its `below`, which order as it does: it is not negative.
class Sampling {
public:
  static constexpr int64_t kSlots = 4; ///< candidates of a thread

  Sampling(SimtBuilder &k, const Rows &logits, Value row, Value how, Value out, int64_t vocab, int64_t width)
      : k(k), logits(logits), row(row), how(how), out(out), vocab(vocab), width(width), vectors(vocab / width),
        warps(k.threads / SimtBuilder::kWarp), perBlock(llvm::divideCeil(vectors, k.cluster)), perWarp(llvm::divideCeil(perBlock, warps)),
        capacity(kSlots * k.threads) {}

  void run() {
    Value flags = k.loadScalar(k.i32, k.at(how, offsetof(dsv3_sampling, flags)), /*readOnly=*/true);
    k.when(isSet(flags, DSV3_SAMPLE_ROW), [&] {
      rank = k.clusterRank();
      reduce.emplace(k);
      findGreatest();
      k.when(
          k.lt(magnitude, k.idx(kInfinity)), [&] { choose(isSet(flags, DSV3_SAMPLE_DRAW)); },
          [&] {
            Value none = k.cf(k.f32, 0);
            write(isFirst(), {k.idx(0), k.add(firstNotFinite(), 1), none, none, zero()});
          });
      if (k.cluster > 1)
        k.syncCluster(); // nobody ends while others read its shared memory
    });
  }

private:
  using State = SmallVector<Value>;
  /// Contribution of one token to a sum, i64, or to a count, i32. `alive`: min-p keeps it; else its weight is 0.
  using Measure = llvm::function_ref<Value(Value key, Value id, Value weight, Value alive)>;
  using Kind = ClusterReduce::Kind;
  /// A sum over the tokens of a source, the same in all threads that take part.
  using Source = llvm::function_ref<Value(Measure, Kind)>;
  using Vectors = llvm::function_ref<void(Value id, ArrayRef<Value> x, State &state)>;

  Value isSet(Value flags, int64_t bit) { return k.eq(k.bitAnd(flags, k.idx(bit)), k.idx(bit)); }
  Value isFirst() { return k.eq(rank, k.idx(0)); } ///< block of the cluster
  /// Parameters are read where they are used: held in registers all the time they would push others out.
  Value parameter(Type type, size_t offset) { return k.loadScalar(type, k.at(how, int64_t(offset))); }
  Value topK() { return parameter(k.i32, offsetof(dsv3_sampling, top_k)); }
  Value topP() { return parameter(k.i64, offsetof(dsv3_sampling, top_p)); }
  Value random() { return parameter(k.i64, offsetof(dsv3_sampling, random)); }
  Value leastWeight() { return parameter(k.i64, offsetof(dsv3_sampling, min_weight)); }
  Value scale() { return parameter(k.f32, offsetof(dsv3_sampling, scale)); }
  Value zero() { return k.cint(k.i64, 0); }
  Value minusInfinity() { return k.cf(k.f32, -std::numeric_limits<double>::infinity()); }
  Value bits(Value f) { return k.bitcast(k.i32, f); }
  Value atMost(Value a, Value c) { return k.ge(c, a); }
  Value atMostU(Value a, Value c) { return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ule, a, c); }
  Value nonZero(Value v) { return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne, v, k.cint(v.getType(), 0)); }
  Value toU64(Value v) { return arith::ExtUIOp::create(k.b, k.i64, v); }
  Value toU32(Value condition) { return arith::ExtUIOp::create(k.b, k.i32, condition); }
  Value nothing(Kind kind) { return k.cint(kind == Kind::Count ? k.i32 : k.i64, 0); }
  Value only(Value condition, Value v) { return k.select(condition, v, k.cint(v.getType(), 0)); }
  Value pick(Value condition, llvm::function_ref<Value()> a, llvm::function_ref<Value()> c, Type type) {
    return k.pick(type, condition, [&] { return State{a()}; }, [&] { return State{c()}; })[0];
  }

  /// Float order as unsigned order, and back.
  Value ordered(Value f) {
    Value b = bits(f), sign = arith::ShRSIOp::create(k.b, b, k.idx(31));
    return k.bitXor(b, k.bitOr(sign, k.idx(std::numeric_limits<int32_t>::min())));
  }
  Value fromOrdered(Value key) {
    Value negative = arith::ShRSIOp::create(k.b, k.bitXor(key, k.idx(-1)), k.idx(31));
    return k.bitcast(k.f32, k.bitXor(key, k.bitOr(negative, k.idx(std::numeric_limits<int32_t>::min()))));
  }

  //===-- The row ---------------------------------------------------------===//

  Lanes vectorAt(Value index) {
    return logits.load(k, k.element(row, k.minI(index, k.idx(vectors - 1)), width * elemBytes(logits.elem)), width);
  }

  /// Vectors first, first + stride, ... below `end`, `ahead` loads at a time: `body` gets the first id of each and its logits.
  /// Past the end it gets minus infinities, which weigh nothing and are below everything, or with `repeat` the last vector again.
  State overVectors(Value first, Value end, int64_t stride, int64_t ahead, bool repeat, ValueRange init, Vectors body) {
    return k.loop(first, end, stride * ahead, init, [&](Value start, ValueRange in) {
      State state(in), index;
      SmallVector<Lanes> values;
      for (int64_t i = 0; i < ahead; ++i) {
        index.push_back(k.add(start, i * stride));
        values.push_back(vectorAt(index.back()));
        if (!repeat)
          for (Value &x : values.back())
            x = k.select(k.lt(index.back(), end), x, minusInfinity());
      }
      for (int64_t i = 0; i < ahead; ++i)
        body(k.mul(index[size_t(i)], width), values[size_t(i)], state);
      return state;
    });
  }

  /// The whole row by the cluster; a thread's vectors come from all of it.
  State overRow(bool repeat, ValueRange init, Vectors body) {
    Value first = k.add(k.mul(rank, k.threads), k.thread());
    return overVectors(first, k.idx(vectors), k.threads * k.cluster, 4, repeat, init, body);
  }

  /// Vectors of this block [first, end), next to each other, and of this warp among them.
  std::pair<Value, Value> blockRange() {
    Value first = k.mul(rank, perBlock);
    return {first, k.minI(k.add(first, perBlock), k.idx(vectors))};
  }
  State overRange(ValueRange init, Vectors body) {
    auto [begin, end] = blockRange();
    Value first = k.add(begin, k.mul(k.warp(), perWarp)), last = k.minI(k.add(first, perWarp), end);
    return overVectors(k.add(first, k.lane()), last, SimtBuilder::kWarp, 2, /*repeat=*/false, init, body);
  }

  /// The greatest logit, the greatest magnitude as bits, and the reach of candidates: the least of what groups of threads have
  /// seen most. With 256 groups about 6 logits of each are not less, whatever the distribution: 1500 in all.
  void findGreatest() {
    State seen = overRow(/*repeat=*/true, {minusInfinity(), k.idx(0)}, [&](Value, ArrayRef<Value> xs, State &state) {
      for (Value x : xs) {
        state[0] = k.fmax(x, state[0]); // passes over a NaN: the magnitude does not
        state[1] = k.maxI(state[1], k.bitAnd(bits(x), k.idx(kMostI32)));
      }
    });
    Value group = seen[0];
    for (int64_t mask = 1; mask < 4 * k.cluster; mask *= 2)
      group = k.fmax(group, k.shuffleXor(group, mask));
    State found = reduce->ofCluster({{ordered(seen[0]), Kind::Most}, {ordered(group), Kind::Least}, {seen[1], Kind::Most}}).all;
    top = k.fadd(fromOrdered(found[0]), k.cf(k.f32, 0)); // never -0
    reach = bits(k.fsub(top, fromOrdered(found[1])));
    magnitude = found[2];
  }

  Value firstNotFinite() {
    State first = overRow(/*repeat=*/false, k.idx(kMostI32), [&](Value id, ArrayRef<Value> xs, State &state) {
      for (auto [i, x] : llvm::enumerate(xs)) { // padding is infinite, but its ids are past the row
        Value bad = k.ge(k.bitAnd(bits(x), k.idx(kMostI32)), k.idx(kInfinity));
        state[0] = k.select(bad, k.minI(state[0], k.add(id, int64_t(i))), state[0]);
      }
    });
    return reduce->ofCluster({{first[0], Kind::Least}}).all[0];
  }

  //===-- Weights ---------------------------------------------------------===//

  /// runtime/core/TokenChoice.cpp's weightOf, operation by operation.
  Value weight(Value below, Value scale) {
    Value most = k.cf(k.f32, 63), magic = k.cf(k.f32, 12582912.0), t = k.fmul(below, scale);
    t = k.select(k.gt(most, t), t, most);
    Value shifted = k.fadd(t, magic), f = k.fsub(t, k.fsub(shifted, magic));
    Value p = k.cf(k.f32, -0x1.5bba0ep-10);
    for (double c : {0x1.3cea88p-7, -0x1.c6b752p-5, 0x1.ebf9bcp-3, -0x1.62e42ap-1, 1.0})
      p = k.fma(p, f, k.cf(k.f32, c));
    Value q = toU64(arith::FPToSIOp::create(k.b, k.i32, k.fmul(p, k.cf(k.f32, 0x1p30))));
    Value by = toU64(k.sub(bits(shifted), k.idx(0x4b400000)));
    return arith::ShRUIOp::create(k.b, k.shl(q, kWeightBits - 30), by);
  }

  /// Calls `body(key, id, weight, alive)` for the tokens of a vector under the row's own temperature and min-p. Padding, and
  /// what is infinitely far below, weighs nothing and is not alive.
  void weighed(Value id, ArrayRef<Value> xs, llvm::function_ref<void(Value, Value, Value, Value)> body) {
    Value factor = scale(), least = leastWeight();
    for (auto [i, x] : llvm::enumerate(xs)) {
      Value below = k.fsub(top, x), w = weight(below, factor), key = bits(below);
      Value alive = k.bitAnd(atMostU(least, w), k.lt(key, k.idx(kInfinity)));
      body(key, k.add(id, int64_t(i)), only(alive, w), alive);
    }
  }

  void choose(Value draws) {
    // What draw() finds: id, whether this block found it, and the mass where it has that at hand, else 0.
    State drawn = k.pick({k.i32, k.i1, k.i64}, draws, [&] { return draw(); }, [&] { return State{k.idx(-1), isFirst(), zero()}; });
    State known = k.pick({k.i32, k.i64}, nonZero(drawn[2]), [&] { return State{drawn[0], drawn[2]}; },
                         [&] {
                           State greedy = massAndFirst();
                           return State{k.select(draws, drawn[0], greedy[1]), greedy[0]};
                         });
    // Blocks that found nothing have an id of -1, and write none.
    Value id = k.maxI(known[0], k.idx(0)), logit = logits.load(k, k.element(row, id, elemBytes(logits.elem)), 1)[0];
    write(drawn[1], {id, k.idx(0), top, logit, known[1]});
  }

  /// Sum of the weights at temperature 1, and the first of the greatest.
  State massAndFirst() {
    State stats = overRow(/*repeat=*/false, {zero(), k.idx(kMostI32)}, [&](Value id, ArrayRef<Value> xs, State &state) {
      for (auto [i, x] : llvm::enumerate(xs)) {
        Value below = k.fsub(top, x);
        state[0] = k.add(state[0], weight(below, k.cf(k.f32, kScaleOfOne)));
        state[1] = k.select(k.eq(bits(below), k.idx(0)), k.minI(state[1], k.add(id, int64_t(i))), state[1]);
      }
    });
    return reduce->ofCluster({{stats[0], Kind::Sum}, {stats[1], Kind::Least}}).all;
  }

  void write(Value writes, const State &v) {
    k.when(k.bitAnd(writes, k.eq(k.thread(), k.idx(0))), [&] {
      static constexpr size_t places[] = {offsetof(dsv3_sampled, id), offsetof(dsv3_sampled, fault), offsetof(dsv3_sampled, top),
                                          offsetof(dsv3_sampled, logit), offsetof(dsv3_sampled, mass)};
      for (auto [value, place] : llvm::zip_equal(v, places))
        k.store(value, k.at(out, int64_t(place)));
      k.store(zero(), k.at(out, offsetof(dsv3_sampled, reserved)));
    });
  }

  //===-- Drawing ---------------------------------------------------------===//

  /// What top-k and top-p keep: keys below `key`, and of equal ones ids up to `id`.
  struct Cut {
    Value key, id;
  };
  Value keeps(const Cut &cut, Value key, Value id) {
    return k.bitOr(k.lt(key, cut.key), k.bitAnd(k.eq(key, cut.key), atMost(id, cut.id)));
  }

  State draw() {
    Value filters = k.bitOr(nonZero(topK()), nonZero(topP()));
    masses = k.shared(8 * SimtBuilder::kWarp), candidates = k.shared(8 * capacity), counter = k.shared(4);
    k.when(k.eq(k.thread(), k.idx(0)), [&] { k.store(k.idx(0), counter); });
    k.syncBlock();
    Value byBlock = weighRow(k.select(filters, reach, k.idx(-1)));
    Value ofCandidates = pick(filters, [&] { return drawFromCandidates(); }, [&] { return k.idx(-1); }, k.i32);
    State drawn = k.pick({k.i32, k.i1}, k.ge(ofCandidates, k.idx(0)), [&] { return State{ofCandidates, isFirst()}; },
                         [&] { return drawFromRow(filters, byBlock); });
    // At temperature 1 without min-p the weights are those of the log probability.
    Value isMass = k.bitAnd(k.eq(bits(scale()), bits(k.cf(k.f32, kScaleOfOne))), k.eq(leastWeight(), zero()));
    return {drawn[0], drawn[1], only(isMass, total)};
  }

  /// Weights of the warps' ranges, what min-p leaves, and tokens with keys up to `limit` as candidates. Lane c gets block c's weight.
  Value weighRow(Value limit) {
    State sums = overRange({zero(), k.idx(0)}, [&](Value id, ArrayRef<Value> xs, State &state) {
      State near, nearKeys; // of this vector: most have none
      Value any;
      weighed(id, xs, [&](Value key, Value, Value w, Value alive) {
        state[0] = k.add(state[0], w);
        state[1] = k.add(state[1], toU32(alive));
        near.push_back(k.bitAnd(alive, atMost(key, limit)));
        nearKeys.push_back(key);
        any = any ? k.bitOr(any, near.back()) : near.back();
      });
      k.when(any, [&] {
        for (auto [i, key] : llvm::enumerate(nearKeys))
          k.when(near[i], [&, i = i, key = key] { addCandidate(key, k.add(id, int64_t(i))); });
      });
    });
    keepMasses(sums[0]);
    k.syncBlock();
    Value own = only(k.eq(k.thread(), k.idx(0)), k.loadScalar(k.i32, counter));
    ClusterReduce::Combined c = reduce->ofCluster({{sums[0], Kind::Sum}, {sums[1], Kind::Count}, {own, Kind::Count}});
    total = c.all[0], left = c.all[1], count = c.all[2], countByBlock = c.byBlock[2];
    return c.byBlock[0];
  }

  void addCandidate(Value key, Value id) {
    Value place = k.fetchAddShared(counter, k.idx(1));
    k.when(k.lt(place, k.idx(capacity)), [&] {
      Value at = k.element(candidates, place, 8);
      k.store(key, at);
      k.store(id, k.at(at, 4));
    });
  }

  void keepMasses(Value v) {
    Value sum = k.sumWarp64(v);
    k.when(k.eq(k.lane(), k.idx(0)), [&] { k.store(sum, k.element(masses, k.warp(), 8)); });
  }

  /// The id, known to all blocks, or -1 when the candidates may not hold every token that is kept.
  Value drawFromCandidates() {
    if (k.cluster == 1)
      return drawFromList();
    Value id = pick(isFirst(), [&] { return drawFromList(); }, [&] { return k.idx(kMostI32); }, k.i32);
    Value known = reduce->ofCluster({{k.add(id, 1), Kind::Least}}).all[0]; // -1 as 0, kMostI32 as 2^31: unsigned
    return k.add(known, -1);
  }

  /// By the cluster's first block alone.
  Value drawFromList() {
    SmallVector<State> slots = loadCandidates();
    auto fromList = [&](Measure measure, Kind kind) {
      Value part = nothing(kind);
      for (const State &s : slots)
        part = k.add(part, measure(s[0], s[1], s[2], s[3]));
      return reduce->ofBlock({{part, kind}})[0];
    };
    Value held = fromList([&](Value, Value, Value w, Value) { return w; }, Kind::Sum);
    Value enough = k.select(nonZero(topK()), atMost(topK(), count), atMostU(k.mulHigh(topP(), total, true), held));
    Value complete = k.bitAnd(atMost(count, k.idx(capacity)), k.bitOr(enough, k.eq(count, left)));
    return pick(
        complete,
        [&] {
          Cut cut = select(fromList, reach);
          auto kept = [&](Value last) {
            return fromList([&](Value key, Value id, Value w, Value) { return only(k.bitAnd(keeps(cut, key, id), atMost(id, last)), w); }, Kind::Sum);
          };
          Value target = k.add(k.mulHigh(random(), kept(k.idx(kMostI32))), k.cint(k.i64, 1));
          return leastWith(k.idx(0), k.idx(vocab - 1), target, kept);
        },
        [&] { return k.idx(-1); }, k.i32);
  }

  /// This thread's candidates, out of all blocks' lists one after the other: key, id, weight, whether there is one.
  SmallVector<State> loadCandidates() {
    Value starts = k.shared(4 * SimtBuilder::kWarp);
    if (k.cluster > 1) {
      Value before = k.sub(k.scanWarp(countByBlock), countByBlock);
      k.when(k.lt(k.thread(), k.idx(k.cluster)), [&] { k.store(before, k.element(starts, k.lane(), 4)); });
      k.syncBlock();
    }
    SmallVector<State> slots;
    for (int64_t s = 0; s < kSlots; ++s) {
      Value index = k.add(k.thread(), s * k.threads), valid = k.bitAnd(k.lt(index, count), atMost(count, k.idx(capacity)));
      Value list = candidates, place = index;
      if (k.cluster > 1) {
        Value owner = k.idx(0);
        for (int64_t c = 1; c < k.cluster; ++c)
          owner = k.select(k.ge(index, k.loadScalar(k.i32, k.at(starts, 4 * c))), k.idx(c), owner);
        place = k.sub(index, k.loadScalar(k.i32, k.element(starts, owner, 4)));
        list = k.remote(candidates, owner);
      }
      Value at = k.element(list, k.select(valid, place, k.idx(0)), 8);
      Value key = k.select(valid, k.loadScalar(k.i32, at), k.idx(kInfinity)), id = k.loadScalar(k.i32, k.at(at, 4));
      slots.push_back({key, id, only(valid, weight(k.bitcast(k.f32, key), scale())), valid});
    }
    return slots;
  }

  /// Top-k, then top-p over what it leaves. `most` is a key that none of the source exceeds; the source holds all that is kept.
  Cut select(Source source, Value most) {
    auto upTo = [&](Value key) { return source([&](Value other, Value, Value w, Value) { return only(atMost(other, key), w); }, Kind::Sum); };
    State first = k.pick({k.i32, k.i64}, k.bitAnd(nonZero(topK()), k.ult(topK(), left)),
                         [&] {
                           Value kth = leastWith(k.idx(0), most, topK(), [&](Value key) {
                             return source([&](Value other, Value, Value, Value alive) { return toU32(k.bitAnd(alive, atMost(other, key))); }, Kind::Count);
                           });
                           return State{kth, upTo(kth)};
                         },
                         [&] { return State{most, total}; });
    State cut = k.pick({k.i32, k.i32}, nonZero(topP()),
                       [&] {
                         Value limit = k.mulHigh(topP(), first[1], /*roundUp=*/true), last = leastWith(k.idx(0), first[0], limit, upTo);
                         return State{last, lastOfEquals(source, last, limit, upTo)};
                       },
                       [&] { return State{first[0], k.idx(kMostI32)}; });
    return {cut[0], cut[1]};
  }

  /// Of the tokens with this key, the last id that top-p keeps.
  Value lastOfEquals(Source source, Value key, Value limit, llvm::function_ref<Value(Value)> upTo) {
    Value one = weight(k.bitcast(k.f32, key), scale()); // of each of them
    return pick(
        k.ult(k.sub(upTo(key), one), limit), [&] { return k.idx(kMostI32); }, // none can go
        [&] {
          return leastWith(k.idx(0), k.idx(vocab - 1), limit, [&](Value last) {
            return source([&](Value other, Value id, Value w, Value) { return only(keeps({key, last}, other, id), w); }, Kind::Sum);
          });
        },
        k.i32);
  }

  /// The least number in [low, high] for which the measure, which grows with it, is at least `target`; `high` if only it may be.
  Value leastWith(Value low, Value high, Value target, llvm::function_ref<Value(Value)> measure) {
    Value steps = k.sub(k.idx(32), k.leadingZeros(k.sub(high, low)));
    return k.loop(k.idx(0), steps, 1, {low, high}, [&](Value, ValueRange in) {
      Value middle = k.add(in[0], k.shr(k.sub(in[1], in[0]), 1)), enough = atMostU(target, measure(middle));
      return State{k.select(enough, in[0], k.add(middle, 1)), k.select(enough, middle, in[1])};
    })[1];
  }

  //===-- Drawing from the row ----------------------------------------------===//

  /// {id, whether this block found it}: the block whose range holds the number, then the warp's range, then the thread's
  /// vectors, then the id. Other blocks get -1.
  State drawFromRow(Value filters, Value byBlock) {
    State cut = k.pick({k.i32, k.i32, k.i64}, filters,
                       [&] {
                         auto fromRow = [&](Measure measure, Kind kind) {
                           State sums = overRow(/*repeat=*/false, nothing(kind), [&](Value id, ArrayRef<Value> xs, State &state) {
                             weighed(id, xs, [&](Value key, Value token, Value w, Value alive) { state[0] = k.add(state[0], measure(key, token, w, alive)); });
                           });
                           return reduce->ofCluster({{sums[0], kind}}).all[0];
                         };
                         Cut found = select(fromRow, k.idx(kInfinity - 1));
                         State kept = overRange(zero(), [&](Value id, ArrayRef<Value> xs, State &state) {
                           weighed(id, xs, [&](Value key, Value token, Value w, Value) { state[0] = k.add(state[0], only(keeps(found, key, token), w)); });
                         });
                         keepMasses(kept[0]);
                         return State{found.key, found.id, reduce->ofCluster({{kept[0], Kind::Sum}}).byBlock[0]};
                       },
                       [&] { return State{k.idx(kMostI32), k.idx(kMostI32), byBlock}; });
    Value target = k.mulHigh(random(), k.sumWarp64(cut[2]));
    State block = part(cut[2], target);
    Value mine = k.eq(rank, block[0]);
    Value id = pick(mine, [&] { return findInBlock({cut[0], cut[1]}, block[1]); }, [&] { return k.idx(-1); }, k.i32);
    return {id, mine};
  }

  /// Lanes have parts of a sum: the lane in whose part `target` lies, and how far into it.
  State part(Value mine, Value target) {
    Value index = k.popcount(k.ballot(atMostU(k.scanWarp64(mine), target)));
    return {index, k.sub(target, k.sumWarp64(only(k.lt(k.lane(), index), mine)))};
  }

  Value findInBlock(const Cut &cut, Value target) {
    k.syncBlock();
    Value mine = k.loadScalar(k.i64, k.element(masses, k.minI(k.lane(), k.idx(warps - 1)), 8));
    State warp = part(only(k.lt(k.lane(), k.idx(warps)), mine), target);
    return findInRange(cut, warp[0], warp[1]);
  }

  Value findInRange(const Cut &cut, Value range, Value target) {
    int64_t each = llvm::divideCeil(perWarp, k.threads); // vectors of a thread, next to each other
    auto [begin, blockEnd] = blockRange();
    Value first = k.add(begin, k.mul(range, perWarp)), end = k.minI(k.add(first, perWarp), blockEnd), start = k.add(first, k.mul(k.thread(), each));
    State parts;
    for (int64_t i = 0; i < each; ++i) {
      Value index = k.add(start, i);
      Lanes xs = vectorAt(index);
      for (Value &x : xs)
        x = k.select(k.lt(index, end), x, minusInfinity());
      weighed(k.mul(index, width), xs, [&](Value key, Value token, Value w, Value) { parts.push_back(only(keeps(cut, key, token), w)); });
    }
    Value own = zero();
    for (Value p : parts)
      own = k.add(own, p);
    Value upTo = k.scanWarp64(own), found = k.shared(4), sums = k.shared(8 * SimtBuilder::kWarp);
    k.when(k.eq(k.lane(), k.idx(SimtBuilder::kWarp - 1)), [&] { k.store(upTo, k.element(sums, k.warp(), 8)); });
    k.syncBlock();
    Value others = k.loadScalar(k.i64, k.element(sums, k.minI(k.lane(), k.idx(warps - 1)), 8));
    Value running = k.sub(k.add(k.sumWarp64(only(k.lt(k.lane(), k.warp()), others)), upTo), own);
    Value mine = k.bitAnd(atMostU(running, target), k.ult(target, k.add(running, own))), index = k.idx(0);
    for (Value p : parts) {
      running = k.add(running, p);
      index = k.add(index, arith::ExtUIOp::create(k.b, k.i32, atMostU(running, target)).getResult());
    }
    k.when(mine, [&] { k.store(k.add(k.mul(start, width), index), found); });
    k.syncBlock();
    return k.loadScalar(k.i32, found);
  }

  SimtBuilder &k;
  Rows logits;
  Value row, how, out; ///< this row's logits, dsv3_sampling and dsv3_sampled
  int64_t vocab, width, vectors, warps, perBlock, perWarp, capacity;
  Value rank; ///< of the block in its cluster
  Value top, reach, magnitude;
  Value total, left;                               ///< weight and number of tokens that min-p leaves
  Value count, countByBlock;                       ///< candidates
  Value masses, candidates, counter;               ///< shared memory
  std::optional<ClusterReduce> reduce;
};
} // namespace

void buildSampling(SimtBuilder &k, const Rows &logits, Value row, Value how, Value out, int64_t vocab, int64_t width) {
  Sampling(k, logits, row, how, out, vocab, width).run();
}

} // namespace dsv3::codegen
