// kernel.sample: the next token of a sequence from its row of logits, as runtime/core/TokenChoice.h defines it.
//
// One block a row, and nothing is sorted. Every row is read twice: for the greatest logit, then for the sum of weights. Rows
// that draw read it a third time, by warps with a range of ids each, so that the draw knows where to look. Rows with top-k or
// top-p collect candidates on that way: a threshold that the first pass found leaves a good thousand of 129280 whatever
// their distribution, which nearly always hold every token that may be kept. The thresholds of top-k and top-p, and the draw
// itself, are then bisections over the bits of a number, one sum over the candidates a step. Where the candidates do
// not suffice (a flat row), the same bisections read the row: slower, to the same token.
#include "codegen/sm90/simt/SimtEmitter.h"
#include "runtime/core/TokenChoice.h"

#include <cstddef>
#include <limits>

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr int64_t kMostI32 = std::numeric_limits<int32_t>::max();
constexpr int64_t kInfinity = 0x7f800000; ///< bits of a float32

/// What one block does. A token's key is the bits of its `below`, which order as it does: it is not negative.
class Sampling {
public:
  static constexpr int64_t kSlots = 4; ///< candidates of a thread

  Sampling(SimtBuilder &k, const Rows &logits, Value row, Value how, Value out, int64_t vocab, int64_t width)
      : k(k), logits(logits), row(row), how(how), out(out), vocab(vocab), width(width), vectors(vocab / width),
        warps(k.threads / SimtBuilder::kWarp), perWarp(llvm::divideCeil(vectors, warps)) {}

  void run() {
    Value flags = k.loadScalar(k.i32, k.at(how, offsetof(dsv3_sampling, flags)), /*readOnly=*/true);
    k.when(isSet(flags, DSV3_SAMPLE_ROW), [&] {
      scratch = k.shared(8 * SimtBuilder::kWarp), words = k.shared(4 * SimtBuilder::kWarp);
      findGreatest();
      k.when(
          k.lt(magnitude, k.idx(kInfinity)), [&] { choose(isSet(flags, DSV3_SAMPLE_DRAW)); },
          [&] { write(k.idx(0), k.add(firstNotFinite(), 1), k.cf(k.f32, 0), k.cf(k.f32, 0), zero()); });
    });
  }

private:
  using State = SmallVector<Value>;
  /// Contribution of one token to a sum, i64. `alive`: min-p keeps it; else its weight is 0.
  using Measure = llvm::function_ref<Value(Value key, Value id, Value weight, Value alive)>;
  /// A sum over the tokens of a source, the same in all threads.
  using Source = llvm::function_ref<Value(Measure)>;

  Value isSet(Value flags, int64_t bit) { return k.eq(k.bitAnd(flags, k.idx(bit)), k.idx(bit)); }
  Value how64(size_t offset) { return k.loadScalar(k.i64, k.at(how, int64_t(offset)), /*readOnly=*/true); }
  Value zero() { return k.cint(k.i64, 0); }
  Value bits(Value f) { return k.bitcast(k.i32, f); }
  Value atMost(Value a, Value c) { return k.ge(c, a); }
  Value atMostU(Value a, Value c) { return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ule, a, c); }
  Value nonZero(Value v) { return arith::CmpIOp::create(k.b, arith::CmpIPredicate::ne, v, k.cint(v.getType(), 0)); }
  Value toU64(Value v) { return arith::ExtUIOp::create(k.b, k.i64, v); }
  Value sum(Value v) { return k.sumBlock64(v, scratch); }
  Value only(Value condition, Value v) { return k.select(condition, v, zero()); }
  Value pick(Value condition, llvm::function_ref<Value()> a, llvm::function_ref<Value()> c, Type type) {
    return k.pick(type, condition, [&] { return State{a()}; }, [&] { return State{c()}; })[0];
  }

  /// The least or greatest non-negative i32 of the block.
  Value extreme(Value v, bool greatest) {
    auto ofWarp = [&](Value x) { return greatest ? k.maxWarpU32(x) : k.minWarpU32(x); };
    v = ofWarp(v);
    k.syncBlock();
    k.when(k.eq(k.lane(), k.idx(0)), [&] { k.store(v, k.element(words, k.warp(), 4)); });
    k.syncBlock();
    return ofWarp(k.loadScalar(k.i32, k.element(words, k.minI(k.lane(), k.idx(warps - 1)), 4)));
  }

  //===-- The row ---------------------------------------------------------===//

  Lanes vectorAt(Value index) {
    return logits.load(k, k.element(row, k.minI(index, k.idx(vectors - 1)), width * elemBytes(logits.elem)), width);
  }

  /// Vectors first, first + stride, ... below `end`, some loads ahead: `body` gets the first id of each and its logits.
  /// Past the end it gets minus infinities, which weigh nothing and are below everything, or with `repeat` the last vector again.
  State overVectors(Value first, Value end, int64_t stride, bool repeat, ValueRange init,
                    llvm::function_ref<void(Value id, ArrayRef<Value> x, State &state)> body) {
    constexpr int64_t ahead = 4;
    Value nothing = k.cf(k.f32, -std::numeric_limits<double>::infinity());
    return k.loop(first, end, stride * ahead, init, [&](Value start, ValueRange in) {
      State state(in), index;
      SmallVector<Lanes> values;
      for (int64_t i = 0; i < ahead; ++i) {
        index.push_back(k.add(start, i * stride));
        values.push_back(vectorAt(index.back()));
        if (!repeat)
          for (Value &x : values.back())
            x = k.select(k.lt(index.back(), end), x, nothing);
      }
      for (int64_t i = 0; i < ahead; ++i)
        body(k.mul(index[size_t(i)], width), values[size_t(i)], state);
      return state;
    });
  }

  /// The whole row; a thread's vectors come from all of it.
  State overRow(bool repeat, ValueRange init, llvm::function_ref<void(Value id, ArrayRef<Value> x, State &state)> body) {
    return overVectors(k.thread(), k.idx(vectors), k.threads, repeat, init, body);
  }

  /// The greatest logit, the greatest magnitude as bits, and the reach of candidates: the least of what groups of four threads
  /// have seen most. With 256 groups about 5.5 logits of each are not less (the harmonic number of 256 less its mean gap).
  void findGreatest() {
    Value least = k.cf(k.f32, -std::numeric_limits<double>::infinity());
    State seen = overRow(/*repeat=*/true, {least, k.idx(0)}, [&](Value, ArrayRef<Value> xs, State &state) {
      for (Value x : xs) {
        state[0] = k.fmax(x, state[0]); // passes over a NaN: the magnitude does not
        state[1] = k.maxI(state[1], k.bitAnd(bits(x), k.idx(kMostI32)));
      }
    });
    Value group = seen[0];
    for (int64_t mask : {1, 2})
      group = k.fmax(group, k.shuffleXor(group, mask));
    top = k.fadd(k.maxBlock(seen[0], k.shared(4 * SimtBuilder::kWarp)), k.cf(k.f32, 0)); // never -0
    reach = bits(k.fsub(top, k.minBlock(group, k.shared(4 * SimtBuilder::kWarp))));
    magnitude = extreme(seen[1], /*greatest=*/true);
  }

  Value firstNotFinite() {
    State first = overRow(/*repeat=*/false, k.idx(kMostI32), [&](Value id, ArrayRef<Value> xs, State &state) {
      for (auto [i, x] : llvm::enumerate(xs)) { // padding is infinite, but its ids are past the row
        Value bad = k.ge(k.bitAnd(bits(x), k.idx(kMostI32)), k.idx(kInfinity));
        state[0] = k.select(bad, k.minI(state[0], k.add(id, int64_t(i))), state[0]);
      }
    });
    return extreme(first[0], /*greatest=*/false);
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
    for (auto [i, x] : llvm::enumerate(xs)) {
      Value below = k.fsub(top, x), w = weight(below, scale), key = bits(below);
      Value alive = k.bitAnd(atMostU(leastWeight, w), k.lt(key, k.idx(kInfinity)));
      body(key, k.add(id, int64_t(i)), only(alive, w), alive);
    }
  }

  void choose(Value draws) {
    State stats = overRow(/*repeat=*/false, {zero(), k.idx(kMostI32)}, [&](Value id, ArrayRef<Value> xs, State &state) {
      for (auto [i, x] : llvm::enumerate(xs)) {
        Value below = k.fsub(top, x);
        state[0] = k.add(state[0], weight(below, k.cf(k.f32, kScaleOfOne)));
        state[1] = k.select(k.eq(bits(below), k.idx(0)), k.minI(state[1], k.add(id, int64_t(i))), state[1]);
      }
    });
    Value mass = sum(stats[0]);
    Value id = pick(draws, [&] { return draw(); }, [&] { return extreme(stats[1], /*greatest=*/false); }, k.i32);
    Value logit = logits.load(k, k.element(row, id, elemBytes(logits.elem)), 1)[0];
    write(id, k.idx(0), top, logit, mass);
  }

  void write(Value id, Value fault, Value greatest, Value logit, Value mass) {
    k.when(k.eq(k.thread(), k.idx(0)), [&] {
      k.store(id, k.at(out, offsetof(dsv3_sampled, id)));
      k.store(fault, k.at(out, offsetof(dsv3_sampled, fault)));
      k.store(greatest, k.at(out, offsetof(dsv3_sampled, top)));
      k.store(logit, k.at(out, offsetof(dsv3_sampled, logit)));
      k.store(mass, k.at(out, offsetof(dsv3_sampled, mass)));
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

  Value draw() {
    scale = k.loadScalar(k.f32, k.at(how, offsetof(dsv3_sampling, scale)), /*readOnly=*/true);
    leastWeight = how64(offsetof(dsv3_sampling, min_weight)), topP = how64(offsetof(dsv3_sampling, top_p));
    random = how64(offsetof(dsv3_sampling, random));
    topK = k.loadScalar(k.i32, k.at(how, offsetof(dsv3_sampling, top_k)), /*readOnly=*/true);
    Value filters = k.bitOr(nonZero(topK), nonZero(topP));
    masses = k.shared(8 * SimtBuilder::kWarp), candidates = k.shared(8 * kSlots * k.threads), counter = k.shared(4), found = k.shared(4);
    k.when(k.eq(k.thread(), k.idx(0)), [&] { k.store(k.idx(0), counter); });
    k.syncBlock();
    weighRow(k.select(filters, reach, k.idx(-1)));
    Cut all{k.idx(kMostI32), k.idx(kMostI32)};
    State cut = k.pick({k.i32, k.i32, k.i32}, filters, [&] { return filter(); }, [&] { return State{k.idx(-1), all.key, all.id}; });
    return pick(k.ge(cut[0], k.idx(0)), [&] { return cut[0]; }, [&] { return drawFromRow({cut[1], cut[2]}); }, k.i32);
  }

  /// Weights of the warps' ranges, the number of tokens that min-p leaves, and those with keys up to `limit` as candidates.
  void weighRow(Value limit) {
    SmallVector<Value> sums = overRange({zero(), zero()}, [&](Value id, ArrayRef<Value> xs, State &state) {
      weighed(id, xs, [&](Value key, Value token, Value w, Value alive) {
        state[0] = k.add(state[0], w);
        state[1] = k.add(state[1], toU64(alive));
        k.when(k.bitAnd(alive, atMost(key, limit)), [&] {
          Value place = k.fetchAddShared(counter, k.idx(1));
          k.when(k.lt(place, k.idx(kSlots * k.threads)), [&] {
            Value at = k.element(candidates, place, 8);
            k.store(key, at);
            k.store(token, k.at(at, 4));
          });
        });
      });
    });
    keepMasses(sums[0]);
    total = sum(sums[0]), left = sum(sums[1]);
  }

  /// This warp's range of ids.
  State overRange(ValueRange init, llvm::function_ref<void(Value id, ArrayRef<Value> x, State &state)> body) {
    Value first = k.mul(k.warp(), perWarp), end = k.minI(k.add(first, perWarp), k.idx(vectors));
    return overVectors(k.add(first, k.lane()), end, SimtBuilder::kWarp, /*repeat=*/false, init, body);
  }
  void keepMasses(Value v) {
    Value ofWarp = k.sumWarp64(v);
    k.when(k.eq(k.lane(), k.idx(0)), [&] { k.store(ofWarp, k.element(masses, k.warp(), 8)); });
  }

  /// {id, -, -} from the candidates, or {-1, cut} when they may not hold every token that is kept.
  State filter() {
    k.syncBlock();
    Value count = k.loadScalar(k.i32, counter), fits = atMost(count, k.idx(kSlots * k.threads));
    SmallVector<State> slots = loadCandidates(count);
    auto fromList = [&](Measure measure) {
      Value part = zero();
      for (const State &s : slots)
        part = k.add(part, measure(s[0], s[1], s[2], s[3]));
      return sum(part);
    };
    Value held = fromList([&](Value, Value, Value w, Value) { return w; });
    Value enough = k.select(nonZero(topK), atMost(topK, count), atMostU(k.mulHigh(topP, total, true), held));
    Value complete = k.bitAnd(fits, k.bitOr(enough, k.eq(toU64(count), left)));
    return k.pick({k.i32, k.i32, k.i32}, complete,
                  [&] {
                    Cut cut = select(fromList, reach);
                    auto kept = [&](Value last) {
                      return fromList([&](Value key, Value id, Value w, Value) { return only(k.bitAnd(keeps(cut, key, id), atMost(id, last)), w); });
                    };
                    Value target = k.add(k.mulHigh(random, kept(k.idx(kMostI32))), 1);
                    return State{leastWith(k.idx(0), k.idx(vocab - 1), target, kept), cut.key, cut.id};
                  },
                  [&] {
                    auto fromRow = [&](Measure measure) {
                      return sum(overRow(/*repeat=*/false, zero(), [&](Value id, ArrayRef<Value> xs, State &state) {
                        weighed(id, xs, [&](Value key, Value token, Value w, Value alive) { state[0] = k.add(state[0], measure(key, token, w, alive)); });
                      })[0]);
                    };
                    Cut cut = select(fromRow, k.idx(kInfinity - 1));
                    return State{k.idx(-1), cut.key, cut.id};
                  });
  }

  /// This thread's candidates: key, id, weight, whether there is one.
  SmallVector<State> loadCandidates(Value count) {
    SmallVector<State> slots;
    for (int64_t s = 0; s < kSlots; ++s) {
      Value index = k.add(k.thread(), s * k.threads), valid = k.lt(index, count), at = k.element(candidates, index, 8);
      Value key = k.loadScalar(k.i32, at), id = k.loadScalar(k.i32, k.at(at, 4));
      key = k.select(valid, key, k.idx(kInfinity)); // else what lies there is no number
      slots.push_back({key, id, only(valid, weight(k.bitcast(k.f32, key), scale)), valid});
    }
    return slots;
  }

  /// Top-k, then top-p over what it leaves. `most` is a key that none of the source exceeds; the source holds all that is kept.
  Cut select(Source source, Value most) {
    auto upTo = [&](Value key) { return source([&](Value other, Value, Value w, Value) { return only(atMost(other, key), w); }); };
    State first = k.pick({k.i32, k.i64}, k.bitAnd(nonZero(topK), k.ult(toU64(topK), left)),
                         [&] {
                           Value kth = leastWith(k.idx(0), most, toU64(topK), [&](Value key) {
                             return source([&](Value other, Value, Value, Value alive) { return toU64(k.bitAnd(alive, atMost(other, key))); });
                           });
                           return State{kth, upTo(kth)};
                         },
                         [&] { return State{most, total}; });
    State cut = k.pick({k.i32, k.i32}, nonZero(topP),
                       [&] {
                         Value limit = k.mulHigh(topP, first[1], /*roundUp=*/true), last = leastWith(k.idx(0), first[0], limit, upTo);
                         return State{last, lastOfEquals(source, last, limit, upTo)};
                       },
                       [&] { return State{first[0], k.idx(kMostI32)}; });
    return {cut[0], cut[1]};
  }

  /// Of the tokens with this key, the last id that top-p keeps.
  Value lastOfEquals(Source source, Value key, Value limit, llvm::function_ref<Value(Value)> upTo) {
    Value one = weight(k.bitcast(k.f32, key), scale); // of each of them
    return pick(
        k.ult(k.sub(upTo(key), one), limit), [&] { return k.idx(kMostI32); }, // none can go
        [&] {
          return leastWith(k.idx(0), k.idx(vocab - 1), limit, [&](Value last) {
            return source([&](Value other, Value id, Value w, Value) { return only(keeps({key, last}, other, id), w); });
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

  /// The draw over the kept tokens of the row: first the warp's range, then the vectors of it that a thread has, then the id.
  Value drawFromRow(const Cut &cut) {
    Value isCut = k.lt(cut.key, k.idx(kMostI32));
    k.when(isCut, [&] { // masses are those of all tokens
      State kept = overRange(zero(), [&](Value id, ArrayRef<Value> xs, State &state) {
        weighed(id, xs, [&](Value key, Value token, Value w, Value) { state[0] = k.add(state[0], only(keeps(cut, key, token), w)); });
      });
      keepMasses(kept[0]);
    });
    k.syncBlock();
    Value mine = k.loadScalar(k.i64, k.element(masses, k.minI(k.lane(), k.idx(warps - 1)), 8));
    mine = only(k.lt(k.lane(), k.idx(warps)), mine);
    Value upTo = k.scanWarp64(mine), target = k.mulHigh(random, k.sumWarp64(mine));
    Value range = k.popcount(k.ballot(atMostU(upTo, target)));
    target = k.sub(target, k.sumWarp64(only(k.lt(k.lane(), range), mine)));
    findInRange(cut, range, target);
    k.syncBlock();
    return k.loadScalar(k.i32, found);
  }

  void findInRange(const Cut &cut, Value range, Value target) {
    int64_t each = llvm::divideCeil(perWarp, k.threads); // vectors of a thread, next to each other
    Value first = k.mul(range, perWarp), end = k.minI(k.add(first, perWarp), k.idx(vectors)), start = k.add(first, k.mul(k.thread(), each));
    State parts;
    eachVector(start, end, each, [&](Value id, ArrayRef<Value> xs) {
      weighed(id, xs, [&](Value key, Value token, Value w, Value) { parts.push_back(only(keeps(cut, key, token), w)); });
    });
    Value own = zero();
    for (Value p : parts)
      own = k.add(own, p);
    Value upTo = k.scanWarp64(own);
    k.when(k.eq(k.lane(), k.idx(SimtBuilder::kWarp - 1)), [&] { k.store(upTo, k.element(scratch, k.warp(), 8)); });
    k.syncBlock();
    Value warpsBefore = k.loadScalar(k.i64, k.element(scratch, k.minI(k.lane(), k.idx(warps - 1)), 8));
    Value running = k.sub(k.add(k.sumWarp64(only(k.lt(k.lane(), k.warp()), warpsBefore)), upTo), own);
    Value mine = k.bitAnd(atMostU(running, target), k.ult(target, k.add(running, own))), index = k.idx(0);
    for (Value p : parts) {
      running = k.add(running, p);
      index = k.add(index, arith::ExtUIOp::create(k.b, k.i32, atMostU(running, target)).getResult());
    }
    k.when(mine, [&] { k.store(k.add(k.mul(start, width), index), found); });
  }

  void eachVector(Value start, Value end, int64_t count, llvm::function_ref<void(Value id, ArrayRef<Value> x)> body) {
    for (int64_t i = 0; i < count; ++i) {
      Value index = k.add(start, i), valid = k.lt(index, end);
      Lanes xs = vectorAt(index);
      for (Value &x : xs)
        x = k.select(valid, x, k.cf(k.f32, -std::numeric_limits<double>::infinity()));
      body(k.mul(index, width), xs);
    }
  }

  SimtBuilder &k;
  Rows logits;
  Value row, how, out; ///< this row's logits, dsv3_sampling and dsv3_sampled
  int64_t vocab, width, vectors, warps, perWarp;
  Value top, reach, magnitude;
  Value scale, leastWeight, topP, topK, random;
  Value total, left;                                           ///< weight and number of tokens that min-p leaves
  Value scratch, words, masses, candidates, counter, found;    ///< shared memory
};

/// kernel.sample: logits, seq, out.
class SampleEmitter : public SimtEmitter {
public:
  SampleEmitter() : SimtEmitter("kernel.sample", "sm90.sample") {}
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_SAMPLING}, {}}; }
  std::string whyIllegal(Operation *op) const override {
    if (lastDim(op->getOperand(0)) > kMostTokens)
      return "a vocabulary of more than " + std::to_string(kMostTokens);
    return floatsOnly(op);
  }

protected:
  /// Sixteen tokens a thread or more: fewer threads for short rows.
  int64_t threads(Operation *op) const override {
    int64_t threads = SimtBuilder::kWarp;
    while (threads < 1024 && threads * 16 < lastDim(op->getOperand(0)))
      threads *= 2;
    return threads;
  }
  int64_t blocks(Operation *op) const override { return rowCapacity(op->getOperand(0)); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    int64_t vocab = lastDim(op->getOperand(0)), width = std::min<int64_t>(4, vectorWidth(op, {0}, {vocab}));
    Rows logits = rows(k, refs, op, 0);
    Value row = k.block();
    k.when(k.lt(row, k.scalarI32(DSV3_SCALAR_SEQS)), [&] {
      Value how = k.element(k.param(refs.of(1)), row, sizeof(dsv3_sampling)), out = k.element(k.param(refs.of(2)), row, sizeof(dsv3_sampled));
      Sampling(k, logits, logits.at(k, row), how, out, vocab, width).run();
    });
  }
};

} // namespace

void addSampleEmitters90(KernelRegistry &r) { r.add(std::make_unique<SampleEmitter>()); }

} // namespace dsv3::codegen
