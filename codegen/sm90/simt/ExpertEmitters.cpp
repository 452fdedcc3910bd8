// The router, the work list of the experts, and the sum of what they return.
#include "codegen/sm90/simt/SimtEmitter.h"

#include <limits>

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// kernel.route: logits, bias, ids, weights; one warp a token, expert e in lane e % 32. Every float operation is that of
/// the x86 kernel in the same order, so equal logits give equal bits.
class RouteEmitter : public SimtEmitter {
public:
  RouteEmitter() : SimtEmitter("kernel.route", "sm90.route") {}
  std::string whyIllegal(Operation *op) const override {
    auto route = cast<kernel::RouteOp>(op);
    for (Value v : {route.getLogits(), route.getBias()})
      if (!tensorType(v).getElementType().isF32())
        return "logits and bias must be f32";
    if (experts(op) > 32 * SimtBuilder::kWarp)
      return "more than 1024 experts";
    return route.getGroups() > 32 || route.getTop() > 32 ? "more than 32 groups, or experts per token" : "";
  }

protected:
  static constexpr int64_t kWarps = 4;
  static int64_t experts(Operation *op) { return tensorType(op->getOperand(0)).getDimSize(1); }
  int64_t threads(Operation *) const override { return kWarps * SimtBuilder::kWarp; }
  int64_t blocks(Operation *op) const override { return llvm::divideCeil(rowCapacity(op->getOperand(0)), kWarps); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    int64_t bytes = 4 * (2 * experts(op) + 2 * SimtBuilder::kWarp);
    Value scratch = k.element(k.shared(kWarps * bytes), k.warp(), bytes);
    Value token = k.add(k.mul(k.block(), kWarps), k.warp());
    k.when(k.lt(token, rowCount(k, op->getOperand(0))), [&] { Token(k, op, refs, scratch).choose(token); });
  }

private:
  /// What one warp does. Shared memory: scores [E], biased scores [E + 32], scores of groups [32].
  struct Token {
    Token(SimtBuilder &k, Operation *op, const RefMap &refs, Value scratch)
        : k(k), route(cast<kernel::RouteOp>(op)), n(experts(op)), scores(scratch), biased(k.at(scratch, 4 * n)),
          groups(k.at(scratch, 8 * n + 4 * SimtBuilder::kWarp)), logits(rows(k, refs, op, 0)), bias(rows(k, refs, op, 1)), ids(rows(k, refs, op, 2)),
          weights(rows(k, refs, op, 3)) {}

    void choose(Value token) {
      loadScores(token);
      k.syncWarp();
      if (choosesGroups())
        groupIsRegister() ? keepRegisters() : keepGroups();
      takeBest(token);
    }

    int64_t size() { return n / int64_t(route.getGroups()); }
    bool choosesGroups() { return int64_t(route.getKeep()) != int64_t(route.getGroups()); }
    /// Groups of 32 experts: group g is every lane's register g.
    bool groupIsRegister() { return size() == SimtBuilder::kWarp; }
    /// Lanes that share a group: as many as there are, a power of two.
    int64_t sharers() {
      int64_t lanes = 1;
      while (lanes * 2 * int64_t(route.getGroups()) <= SimtBuilder::kWarp)
        lanes *= 2;
      return lanes;
    }
    /// Groups are set apart by a word per lane that reads them, so that lanes of different groups use different banks.
    Value biasedAt(Value group, Value expert) { return k.element(biased, k.add(expert, k.mul(group, sharers())), 4); }

    Value minusInfinity() { return k.cf(k.f32, -std::numeric_limits<double>::infinity()); }
    Value expert(int64_t i) { return k.add(k.lane(), i * SimtBuilder::kWarp); }
    /// Whether `expert(i)` exists; null if it does in every lane.
    Value exists(int64_t i) { return (i + 1) * SimtBuilder::kWarp <= n ? Value() : k.lt(expert(i), k.idx(n)); }

    void loadScores(Value token) {
      for (int64_t i = 0; i < int64_t(llvm::divideCeil(n, SimtBuilder::kWarp)); ++i) {
        Value e = expert(i), valid = exists(i), from = valid ? k.minI(e, k.idx(n - 1)) : e;
        Value s = k.sigmoid(logits.load(k, logits.at(k, token, from), 1)[0]);
        Value c = k.fadd(s, bias.load(k, k.element(bias.base, from, 4), 1)[0]);
        auto keep = [&] {
          k.store(s, k.element(scores, e, 4));
          if (choosesGroups() && !groupIsRegister())
            k.store(c, biasedAt(k.div(e, size()), e));
        };
        valid ? k.when(valid, keep) : keep();
        own.push_back(valid ? k.select(valid, c, minusInfinity()) : c);
      }
    }

    /// As keepGroups, where the warp finds the two best of each group at once: the best, then the best without one lane that
    /// has it.
    void keepRegisters() {
      SmallVector<Value> score;
      Value below = k.lanesBelow();
      for (Value v : own) {
        Value key = orderKey(v), first = k.maxWarpU32(key), has = k.eq(key, first);
        Value lowest = k.bitAnd(has, k.eq(k.bitAnd(k.ballot(has), below), k.idx(0)));
        score.push_back(k.fadd(fromKey(first), fromKey(k.maxWarpU32(k.select(lowest, k.idx(0), key)))));
      }
      Value mine = score[0];
      for (size_t g = 1; g < score.size(); ++g)
        mine = k.select(k.eq(k.lane(), k.idx(int64_t(g))), score[g], mine);
      Value kept = keptGroups(int64_t(score.size()), mine, [&](int64_t g) { return score[size_t(g)]; });
      for (auto [g, v] : llvm::enumerate(own))
        v = k.select(k.eq(k.bitAnd(kept, k.cint(k.i32, int32_t(1u << g))), k.idx(0)), minusInfinity(), v);
    }

    /// Makes minus infinity of the biased scores outside the best groups. A group's score is the sum of its two best.
    void keepGroups() {
      int64_t count = route.getGroups(), lanes = sharers();
      Value group = k.div(k.lane(), lanes), part = k.rem(k.lane(), lanes), read = k.minI(group, k.idx(count - 1));
      SmallVector<Value> two = k.loop(part, k.idx(size()), lanes, {minusInfinity(), minusInfinity()}, [&](Value i, ValueRange best) {
        Value v = k.loadScalar(k.f32, biasedAt(read, k.add(k.mul(read, size()), i)));
        return SmallVector<Value>{k.fmax(v, best[0]), k.fmax(lesser(v, best[0]), best[1])};
      });
      for (int64_t mask = lanes / 2; mask; mask /= 2) {
        Value first = k.shuffleXor(two[0], mask), second = k.shuffleXor(two[1], mask);
        two = {k.fmax(two[0], first), k.fmax(lesser(two[0], first), k.fmax(two[1], second))};
      }
      k.when(k.bitAnd(k.eq(part, k.idx(0)), k.lt(group, k.idx(count))),
             [&] { k.store(k.fadd(two[0], two[1]), k.element(groups, group, 4)); });
      k.syncWarp();
      Value me = k.minI(k.lane(), k.idx(count - 1)), mine = k.loadScalar(k.f32, k.element(groups, me, 4));
      Value kept = keptGroups(count, mine, [&](int64_t g) { return k.loadScalar(k.f32, k.at(groups, 4 * g)); });
      for (auto [i, v] : llvm::enumerate(own)) {
        Value bit = arith::ShRUIOp::create(k.b, kept, k.div(expert(int64_t(i)), size()));
        v = k.select(k.eq(k.bitAnd(bit, k.idx(1)), k.idx(1)), v, minusInfinity());
      }
    }

    /// Mask of the groups that fewer than `keep` groups beat; of equals the lower one wins. `mine`: the score of group `lane`.
    Value keptGroups(int64_t count, Value mine, llvm::function_ref<Value(int64_t)> scoreOf) {
      Value beaten = k.idx(0);
      for (int64_t g = 0; g < count; ++g) {
        Value other = scoreOf(g);
        Value equal = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, other, mine);
        Value wins = k.bitOr(k.gt(other, mine), k.bitAnd(equal, k.lt(k.idx(g), k.lane())));
        beaten = k.add(beaten, arith::ExtUIOp::create(k.b, k.i32, wins));
      }
      return k.ballot(k.bitAnd(k.lt(k.lane(), k.idx(count)), k.lt(beaten, k.idx(route.getKeep()))));
    }

    Value lesser(Value a, Value c) { return k.select(k.gt(a, c), c, a); }

    /// Float order as unsigned order. 0 is below minus infinity: an expert that is taken, or none.
    Value orderKey(Value v) {
      Value bits = k.bitcast(k.i32, v), sign = arith::ShRSIOp::create(k.b, bits, k.idx(31));
      return k.bitXor(bits, k.bitOr(sign, k.idx(int64_t(std::numeric_limits<int32_t>::min()))));
    }

    Value fromKey(Value key) {
      Value sign = arith::ShRSIOp::create(k.b, key, k.idx(31)), flip = k.bitXor(sign, k.idx(-1));
      return k.bitcast(k.f32, k.bitXor(key, k.bitOr(flip, k.idx(int64_t(std::numeric_limits<int32_t>::min())))));
    }

    /// Combines values in a tree, so that few wait for each other.
    Value tree(SmallVector<Value> values, arith::CmpIPredicate keepsFirst) {
      for (; values.size() > 1; values.truncate((values.size() + 1) / 2))
        for (size_t i = 0; i < values.size() / 2; ++i) {
          Value a = values[i], c = values[values.size() - 1 - i];
          values[i] = k.select(arith::CmpIOp::create(k.b, keepsFirst, a, c), a, c);
        }
      return values[0];
    }

    void takeBest(Value token) {
      int64_t top = route.getTop(), count = int64_t(own.size());
      SmallVector<Value> state; // order keys, then the sum of weights, this lane's id and weight
      for (auto [i, v] : llvm::enumerate(own)) {
        Value key = orderKey(v), valid = exists(int64_t(i));
        state.push_back(valid ? k.select(valid, key, k.idx(0)) : key);
      }
      state.append({k.cf(k.f32, 0), k.idx(0), k.cf(k.f32, 0)});
      state = k.loop(k.idx(0), k.idx(top), 1, state, [&](Value round, ValueRange in) {
        Value most = k.maxWarpU32(tree(SmallVector<Value>(in.take_front(count)), arith::CmpIPredicate::ugt));
        SmallVector<Value> ids, next;
        for (int64_t i = 0; i < count; ++i) // of equals the lower expert is taken
          ids.push_back(k.select(k.eq(in[i], most), expert(i), k.idx(std::numeric_limits<int32_t>::max())));
        Value id = k.minWarpU32(tree(ids, arith::CmpIPredicate::ult));
        for (int64_t i = 0; i < count; ++i)
          next.push_back(k.select(k.eq(expert(i), id), k.idx(0), in[i]));
        Value weight = k.loadScalar(k.f32, k.element(scores, id, 4)), mine = k.eq(k.lane(), round);
        next.append({k.fadd(in[count], weight), k.select(mine, id, in[count + 1]), k.select(mine, weight, in[count + 2])});
        return next;
      });
      k.when(k.lt(k.lane(), k.idx(top)), [&] {
        Value w = state[count + 2];
        if (route.getNorm())
          w = k.fdiv(w, k.fadd(state[count], k.cf(k.f32, 1e-20)));
        k.store(k.fmul(w, k.cf(k.f32, route.getScale().convertToDouble())), weights.at(k, token, k.lane()));
        k.store(state[count + 1], ids.at(k, token, k.lane()));
      });
    }

    SimtBuilder &k;
    kernel::RouteOp route;
    int64_t n;
    Value scores, biased, groups;
    Rows logits, bias, ids, weights;
    SmallVector<Value> own; ///< biased scores of this lane's experts
  };
};

/// kernel.dispatch: ids, offsets, token_of, row_of; one block, a stable counting sort. Each warp has a range of routed
/// rows and a histogram of its own; lanes with the same expert find each other, so no place depends on who is first.
class DispatchEmitter : public SimtEmitter {
public:
  DispatchEmitter() : SimtEmitter("kernel.dispatch", "sm90.dispatch") {}
  std::string whyIllegal(Operation *op) const override {
    return experts(op) <= 1024 ? "" : "more than 1024 experts";
  }

protected:
  static int64_t experts(Operation *op) { return tensorType(op->getOperand(1)).getDimSize(0) - 1; }
  /// As many warps as histograms fit into 40 KB.
  static int64_t warps(Operation *op) {
    int64_t warps = 32;
    while (warps > 1 && warps * experts(op) * 4 > 40 * 1024)
      warps /= 2;
    return warps;
  }
  int64_t threads(Operation *op) const override { return warps(op) * SimtBuilder::kWarp; }
  int64_t blocks(Operation *) const override { return 1; }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override { Sort(k, op, refs).run(); }

private:
  static constexpr int64_t kAhead = 8; ///< vectors of a warp whose experts are loaded together
  struct Sort {
    Sort(SimtBuilder &k, Operation *op, const RefMap &refs)
        : k(k), experts(DispatchEmitter::experts(op)), warps(DispatchEmitter::warps(op)), top(tensorType(op->getOperand(0)).getDimSize(1)),
          ids(k.param(refs.of(0))), offsets(k.param(refs.of(1))), tokenOf(k.param(refs.of(2))), rowOf(k.param(refs.of(3))) {
      counts = k.shared(warps * experts * 4), starts = k.shared(experts * 4);
      mine = k.element(counts, k.warp(), experts * 4);
      int64_t step = warps * SimtBuilder::kWarp;
      Value count = k.mul(k.scalarI32(DSV3_SCALAR_TOKENS), top), share = k.mul(k.divUp(count, step), SimtBuilder::kWarp);
      first = k.minI(k.mul(k.warp(), share), count), last = k.minI(k.add(first, share), count);
    }

    void run() {
      k.loop(k.thread(), k.idx(warps * experts), k.threads, [&](Value i) { k.store(k.idx(0), k.element(counts, i, 4)); });
      k.syncBlock();
      // Counts are the same in whatever order they are added.
      eachVector([&](Value, Value valid, Value expert) {
        k.when(valid, [&] { k.addShared(k.element(mine, expert, 4), k.idx(1)); });
      });
      k.syncBlock();
      sumWarps();
      k.syncBlock();
      k.when(k.lt(k.thread(), k.idx(SimtBuilder::kWarp)), [&] { sumExperts(); });
      k.syncBlock();
      eachVector([&](Value i, Value valid, Value expert) { place(i, valid, expert); });
    }

    /// Calls `body(i, valid, expert)` for this warp's routed rows, 32 at a time; lanes past the end are not valid. Experts are
    /// loaded ahead, so that their latencies overlap.
    void eachVector(llvm::function_ref<void(Value, Value, Value)> body) {
      k.loop(first, last, kAhead * SimtBuilder::kWarp, [&](Value start) {
        SmallVector<Value> rows, found;
        for (int64_t v = 0; v < kAhead; ++v) {
          rows.push_back(k.add(k.add(start, v * SimtBuilder::kWarp), k.lane()));
          found.push_back(k.loadScalar(k.i32, k.element(ids, k.minI(rows.back(), k.add(last, -1)), 4), /*readOnly=*/true));
        }
        for (int64_t v = 0; v < kAhead; ++v) { // the same in all lanes of the warp
          auto vector = [&] { body(rows[size_t(v)], k.lt(rows[size_t(v)], last), found[size_t(v)]); };
          v ? k.when(k.lt(k.add(start, v * SimtBuilder::kWarp), last), vector) : vector();
        }
      });
    }

    /// Rows of one expert among the 32 lanes keep their order: each counts its equals below it, the lowest adds them up.
    void place(Value i, Value valid, Value expert) {
      Value peers = k.matchWarp(k.select(valid, expert, k.idx(-1))), below = k.bitAnd(peers, k.lanesBelow());
      Value count = k.element(mine, expert, 4), before = k.loadScalar(k.i32, count);
      Value row = k.add(k.add(k.loadScalar(k.i32, k.element(starts, expert, 4)), before), k.popcount(below));
      k.when(valid, [&] {
        k.store(row, k.element(rowOf, i, 4));
        k.store(k.div(i, top), k.element(tokenOf, row, 4));
      });
      k.syncWarp(); // all have read before one writes
      k.when(k.bitAnd(valid, k.eq(below, k.idx(0))), [&] { k.store(k.add(before, k.popcount(peers)), count); });
      k.syncWarp();
    }

    /// Histograms to what lower warps have of the same expert; `starts` becomes each expert's total.
    void sumWarps() {
      k.loop(k.thread(), k.idx(experts), k.threads, [&](Value expert) {
        SmallVector<Value> found;
        for (int64_t w = 0; w < warps; ++w)
          found.push_back(k.loadScalar(k.i32, k.element(k.at(counts, w * experts * 4), expert, 4)));
        Value sum = k.idx(0);
        for (int64_t w = 0; w < warps; ++w) {
          k.store(sum, k.element(k.at(counts, w * experts * 4), expert, 4));
          sum = k.add(sum, found[w]);
        }
        k.store(sum, k.element(starts, expert, 4));
      });
    }

    /// Totals to first rows, by the first warp: a lane has consecutive experts.
    void sumExperts() {
      int64_t each = llvm::divideCeil(experts, SimtBuilder::kWarp);
      SmallVector<Value> place, total;
      Value sum = k.idx(0);
      for (int64_t i = 0; i < each; ++i) {
        place.push_back(k.add(k.mul(k.lane(), each), i));
        Value found = k.loadScalar(k.i32, k.element(starts, k.minI(place[i], k.idx(experts - 1)), 4));
        total.push_back(k.select(k.lt(place[i], k.idx(experts)), found, k.idx(0)));
        sum = k.add(sum, total[i]);
      }
      Value upTo = k.scanWarp(sum);
      Value start = k.sub(upTo, sum);
      for (int64_t i = 0; i < each; ++i) {
        k.when(k.lt(place[i], k.idx(experts)), [&] {
          k.store(start, k.element(starts, place[i], 4));
          k.store(start, k.element(offsets, place[i], 4));
        });
        start = k.add(start, total[i]);
      }
      k.when(k.eq(k.lane(), k.idx(SimtBuilder::kWarp - 1)), [&] { k.store(upTo, k.at(offsets, experts * 4)); });
    }

    SimtBuilder &k;
    int64_t experts, warps, top;
    Value ids, offsets, tokenOf, rowOf;
    Value counts, starts, mine; ///< shared: [warps][E], [E], this warp's row of counts
    Value first, last;          ///< this warp's routed rows
  };
};

/// kernel.combine: rows, row_of, weights[, plus], out.
class CombineEmitter : public FlatEmitter {
public:
  CombineEmitter() : FlatEmitter("kernel.combine", "sm90.combine") {}
  std::string whyIllegal(Operation *op) const override {
    if (tensorType(cast<kernel::CombineOp>(op).getWeights()).getDimSize(1) > 32)
      return "more than 32 experts per token";
    return FlatEmitter::whyIllegal(op);
  }

protected:
  static constexpr int64_t kInFlight = 8; ///< rows loaded before the first is used
  static unsigned last(Operation *op) { return op->getNumOperands() - 1; }
  int64_t width(Operation *op) const {
    SmallVector<unsigned> wide{0, last(op)};
    if (cast<kernel::CombineOp>(op).getPlus())
      wide.push_back(3);
    return vectorWidth(op, wide, {lastDim(op->getResult(0))});
  }
  int64_t items(Operation *op) const override { return lastDim(op->getResult(0)) / width(op); }

  void item(Operation *op, SimtBuilder &k, const RefMap &refs, Value token, Value item) const override {
    int64_t n = width(op), top = tensorType(op->getOperand(2)).getDimSize(1);
    Rows in = rows(k, refs, op, 0), rowOf = rows(k, refs, op, 1), weights = rows(k, refs, op, 2), out = rows(k, refs, op, last(op));
    Value lane = k.mul(item, n);
    Lanes acc(n, k.cf(k.f32, 0));
    for (int64_t first = 0; first < top; first += kInFlight) {
      int64_t count = std::min(kInFlight, top - first);
      SmallVector<Value> row, weight;
      for (int64_t j = 0; j < count; ++j) {
        row.push_back(k.loadScalar(k.i32, rowOf.at(k, token, k.idx(first + j)), /*readOnly=*/true));
        weight.push_back(weights.load(k, weights.at(k, token, k.idx(first + j)), 1)[0]);
      }
      SmallVector<Lanes> values;
      for (int64_t j = 0; j < count; ++j)
        values.push_back(in.load(k, in.at(k, row[j], lane), n));
      for (int64_t j = 0; j < count; ++j)
        for (int64_t i = 0; i < n; ++i)
          acc[i] = k.fma(weight[j], values[j][i], acc[i]);
    }
    if (cast<kernel::CombineOp>(op).getPlus()) {
      Rows plus = rows(k, refs, op, 3);
      for (auto [a, p] : llvm::zip(acc, plus.load(k, plus.at(k, token, lane), n)))
        a = k.fadd(a, p);
    }
    k.storeF32(out.elem, acc, out.at(k, token, lane));
  }
};

} // namespace

void addExpertEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<RouteEmitter>());
  r.add(std::make_unique<DispatchEmitter>());
  r.add(std::make_unique<CombineEmitter>());
}

} // namespace dsv3::codegen
