// The router: which experts a token takes, and with which weights.
#include "codegen/sm90/simt/SimtEmitter.h"

#include <limits>

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// What both ways of choosing share. Every float operation is that of the x86 kernel in the same order, so equal logits give
/// equal bits.
struct Choice {
  Choice(SimtBuilder &k, kernel::RouteOp route, Rows logits, Rows bias, Rows ids, Rows weights)
      : k(k), route(route), logits(logits), bias(bias), ids(ids), weights(weights), n(experts(route)) {}

  static int64_t experts(kernel::RouteOp op) { return cast<RankedTensorType>(op.getLogits().getType()).getDimSize(1); }
  int64_t groupCount() { return route.getGroups(); }
  int64_t groupSize() { return n / groupCount(); }
  int64_t top() { return route.getTop(); }
  Value minusInfinity() { return k.cf(k.f32, -std::numeric_limits<double>::infinity()); }

  /// Score and biased score of an expert.
  std::pair<Value, Value> scoresOf(Value token, Value expert) {
    Value s = k.sigmoid(logits.load(k, logits.at(k, token, expert), 1)[0]);
    return {s, k.fadd(s, bias.load(k, k.element(bias.base, expert, 4), 1)[0])};
  }

  /// Float order as unsigned order. 0 is below minus infinity: an expert that is taken, or none.
  Value orderKey(Value v) {
    Value bits = k.bitcast(k.i32, v), sign = arith::ShRSIOp::create(k.b, bits, k.idx(31));
    return k.bitXor(bits, k.bitOr(sign, lowest()));
  }
  Value fromKey(Value key) {
    Value sign = arith::ShRSIOp::create(k.b, key, k.idx(31)), flip = k.bitXor(sign, k.idx(-1));
    return k.bitcast(k.f32, k.bitXor(key, k.bitOr(flip, lowest())));
  }

  /// Mask of the groups that fewer than `keep` groups beat; of equals the lower one wins. `groups`: their scores, in shared memory.
  Value keptGroups(Value groups) {
    Value me = k.minI(k.lane(), k.idx(groupCount() - 1)), mine = k.loadScalar(k.f32, k.element(groups, me, 4)), beaten = k.idx(0);
    for (int64_t g = 0; g < groupCount(); ++g) {
      Value other = k.loadScalar(k.f32, k.at(groups, 4 * g));
      Value equal = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, other, mine);
      Value wins = k.bitOr(k.gt(other, mine), k.bitAnd(equal, k.lt(k.idx(g), k.lane())));
      beaten = k.add(beaten, toInt(wins));
    }
    return k.ballot(k.bitAnd(k.lt(k.lane(), k.idx(groupCount())), k.lt(beaten, k.idx(route.getKeep()))));
  }

  /// Writes choice number `place` of a token: `score`, over the sum of all chosen in the order of choice if `norm`, times `scale`.
  void write(Value token, Value place, Value id, Value score, Value sum) {
    if (route.getNorm())
      score = k.fdiv(score, k.fadd(sum, k.cf(k.f32, 1e-20)));
    k.store(k.fmul(score, k.cf(k.f32, route.getScale().convertToDouble())), weights.at(k, token, place));
    k.store(id, ids.at(k, token, place));
  }

  Value toInt(Value condition) { return arith::ExtUIOp::create(k.b, k.i32, condition); }
  Value lowest() { return k.idx(int64_t(std::numeric_limits<int32_t>::min())); }

  SimtBuilder &k;
  kernel::RouteOp route;
  Rows logits, bias, ids, weights;
  int64_t n;
};

/// Groups of 32 experts: a block has a token, warp g its group g, a thread one expert. A place is the number of those who are
/// ahead, counted at once: nobody waits for the choice before.
struct RankedChoice : Choice {
  explicit RankedChoice(Choice choice) : Choice(choice) {}
  static constexpr int64_t kWarp = SimtBuilder::kWarp;

  static bool fits(kernel::RouteOp op) {
    int64_t groups = op.getGroups(), keep = op.getKeep(), top = op.getTop();
    return experts(op) == groups * kWarp && groups <= 16 && keep < groups && top > 1 && keep * top <= kWarp;
  }

  void choose(Value token) {
    Value scores = k.shared(4 * n), keys = k.shared(4 * n), best = k.shared(4 * groupCount() * top()), bestIds = k.shared(4 * groupCount() * top());
    auto [score, biased] = scoresOf(token, k.thread());
    Value key = orderKey(biased);
    k.store(score, k.element(scores, k.thread(), 4));
    k.store(key, k.element(keys, k.thread(), 4));
    k.syncWarp();
    Value place = rank(key, k.element(keys, k.mul(k.warp(), kWarp), 4));
    k.when(k.lt(place, k.idx(top())), [&] {
      Value slot = k.add(k.mul(k.warp(), top()), place);
      k.store(key, k.element(best, slot, 4));
      k.store(k.thread(), k.element(bestIds, slot, 4));
    });
    k.syncBlock();
    k.when(k.eq(k.warp(), k.idx(0)), [&] { takeBest(token, scores, keys, best, bestIds); });
  }

private:
  /// How many of 32 keys in shared memory are ahead of this lane's: larger, or equal in a lower lane.
  Value rank(Value key, Value keys) {
    Value ahead = k.popcount(k.bitAnd(k.matchWarp(key), k.lanesBelow()));
    for (Value other : k.loadI32(keys, kWarp))
      ahead = k.add(ahead, toInt(k.ult(key, other)));
    return ahead;
  }

  /// The first warp: lane l has candidate l % top of the kept group number l / top, so that of equal candidates the lower expert
  /// has the lower lane.
  void takeBest(Value token, Value scores, Value keys, Value best, Value bestIds) {
    Value groups = k.shared(4 * kWarp), kept = k.shared(4 * kWarp), chosen = k.shared(4 * kWarp);
    Value group = k.minI(k.lane(), k.idx(groupCount() - 1)), first = k.mul(group, top());
    auto keyAt = [&](Value i) { return k.loadScalar(k.i32, k.element(best, i, 4)); };
    k.store(k.fadd(fromKey(keyAt(first)), fromKey(keyAt(k.add(first, 1)))), k.element(groups, k.lane(), 4));
    k.syncWarp();
    Value mask = keptGroups(groups), bit = arith::ShRUIOp::create(k.b, mask, k.lane());
    k.when(k.eq(k.bitAnd(bit, k.idx(1)), k.idx(1)),
           [&] { k.store(k.lane(), k.element(kept, k.popcount(k.bitAnd(mask, k.lanesBelow())), 4)); });
    k.syncWarp();
    int64_t candidates = int64_t(route.getKeep()) * top();
    Value mine = k.minI(k.lane(), k.idx(candidates - 1));
    Value slot = k.add(k.mul(k.loadScalar(k.i32, k.element(kept, k.div(mine, top()), 4)), top()), k.rem(mine, top()));
    Value id = k.loadScalar(k.i32, k.element(bestIds, slot, 4)), score = k.loadScalar(k.f32, k.element(scores, id, 4));
    Value key = candidates == kWarp ? keyAt(slot) : k.select(k.lt(k.lane(), k.idx(candidates)), keyAt(slot), k.idx(0));
    k.store(key, k.element(keys, k.lane(), 4)); // the first group's keys are not wanted any more
    k.syncWarp();
    Value place = rank(key, keys), taken = k.lt(place, k.idx(top()));
    k.when(taken, [&] { k.store(score, k.element(chosen, place, 4)); });
    k.syncWarp();
    Value sum = k.cf(k.f32, 0);
    for (int64_t i = 0; i < top(); ++i)
      sum = k.fadd(sum, k.loadScalar(k.f32, k.at(chosen, 4 * i)));
    k.when(taken, [&] { write(token, place, id, score, sum); });
  }
};

/// Any groups: a warp has a token, expert e is in lane e % 32. The experts are taken one after the other.
struct WarpChoice : Choice {
  /// Shared memory of a warp: scores [E], biased scores [E + 32], scores of groups [32].
  static int64_t scratchBytes(kernel::RouteOp op) { return 4 * (2 * experts(op) + 2 * SimtBuilder::kWarp); }

  WarpChoice(Choice choice, Value scratch)
      : Choice(choice), scores(scratch), biased(k.at(scratch, 4 * n)), groups(k.at(scratch, 8 * n + 4 * SimtBuilder::kWarp)) {}

  void choose(Value token) {
    loadScores(token);
    k.syncWarp();
    if (choosesGroups())
      keepGroups();
    takeBest(token);
  }

private:
  bool choosesGroups() { return int64_t(route.getKeep()) != groupCount(); }
  /// Lanes that share a group: as many as there are, a power of two.
  int64_t sharers() {
    int64_t lanes = 1;
    while (lanes * 2 * groupCount() <= SimtBuilder::kWarp)
      lanes *= 2;
    return lanes;
  }
  /// Groups are set apart by a word per lane that reads them, so that lanes of different groups use different banks.
  Value biasedAt(Value group, Value expert) { return k.element(biased, k.add(expert, k.mul(group, sharers())), 4); }

  Value expert(int64_t i) { return k.add(k.lane(), i * SimtBuilder::kWarp); }
  /// Whether `expert(i)` exists; null if it does in every lane.
  Value exists(int64_t i) { return (i + 1) * SimtBuilder::kWarp <= n ? Value() : k.lt(expert(i), k.idx(n)); }

  void loadScores(Value token) {
    for (int64_t i = 0; i < int64_t(llvm::divideCeil(n, SimtBuilder::kWarp)); ++i) {
      Value e = expert(i), valid = exists(i), from = valid ? k.minI(e, k.idx(n - 1)) : e;
      auto [s, c] = scoresOf(token, from);
      auto keep = [&, s = s, c = c] {
        k.store(s, k.element(scores, e, 4));
        if (choosesGroups())
          k.store(c, biasedAt(k.div(e, groupSize()), e));
      };
      valid ? k.when(valid, keep) : keep();
      own.push_back(valid ? k.select(valid, c, minusInfinity()) : c);
    }
  }

  /// Makes minus infinity of the biased scores outside the best groups. A group's score is the sum of its two best.
  void keepGroups() {
    int64_t count = groupCount(), lanes = sharers();
    Value group = k.div(k.lane(), lanes), part = k.rem(k.lane(), lanes), read = k.minI(group, k.idx(count - 1));
    SmallVector<Value> two = k.loop(part, k.idx(groupSize()), lanes, {minusInfinity(), minusInfinity()}, [&](Value i, ValueRange best) {
      Value v = k.loadScalar(k.f32, biasedAt(read, k.add(k.mul(read, groupSize()), i)));
      return SmallVector<Value>{k.fmax(v, best[0]), k.fmax(lesser(v, best[0]), best[1])};
    });
    for (int64_t mask = lanes / 2; mask; mask /= 2) {
      Value first = k.shuffleXor(two[0], mask), second = k.shuffleXor(two[1], mask);
      two = {k.fmax(two[0], first), k.fmax(lesser(two[0], first), k.fmax(two[1], second))};
    }
    k.when(k.bitAnd(k.eq(part, k.idx(0)), k.lt(group, k.idx(count))),
           [&] { k.store(k.fadd(two[0], two[1]), k.element(groups, group, 4)); });
    k.syncWarp();
    Value kept = keptGroups(groups);
    for (auto [i, v] : llvm::enumerate(own)) {
      Value bit = arith::ShRUIOp::create(k.b, kept, k.div(expert(int64_t(i)), groupSize()));
      v = k.select(k.eq(k.bitAnd(bit, k.idx(1)), k.idx(1)), v, minusInfinity());
    }
  }

  Value lesser(Value a, Value c) { return k.select(k.gt(a, c), c, a); }

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
    int64_t count = int64_t(own.size());
    SmallVector<Value> state; // order keys, then the sum of scores, this lane's id and score
    for (auto [i, v] : llvm::enumerate(own)) {
      Value key = orderKey(v), valid = exists(int64_t(i));
      state.push_back(valid ? k.select(valid, key, k.idx(0)) : key);
    }
    state.append({k.cf(k.f32, 0), k.idx(0), k.cf(k.f32, 0)});
    state = k.loop(k.idx(0), k.idx(top()), 1, state, [&](Value round, ValueRange in) {
      Value most = k.maxWarpU32(tree(SmallVector<Value>(in.take_front(count)), arith::CmpIPredicate::ugt));
      SmallVector<Value> found, next;
      for (int64_t i = 0; i < count; ++i) // of equals the lower expert is taken
        found.push_back(k.select(k.eq(in[i], most), expert(i), k.idx(std::numeric_limits<int32_t>::max())));
      Value id = k.minWarpU32(tree(found, arith::CmpIPredicate::ult));
      for (int64_t i = 0; i < count; ++i)
        next.push_back(k.select(k.eq(expert(i), id), k.idx(0), in[i]));
      Value score = k.loadScalar(k.f32, k.element(scores, id, 4)), mine = k.eq(k.lane(), round);
      next.append({k.fadd(in[count], score), k.select(mine, id, in[count + 1]), k.select(mine, score, in[count + 2])});
      return next;
    });
    k.when(k.lt(k.lane(), k.idx(top())), [&] { write(token, k.lane(), state[count + 1], state[count + 2], state[count]); });
  }

  Value scores, biased, groups;
  SmallVector<Value> own; ///< biased scores of this lane's experts
};

/// kernel.route: logits, bias, ids, weights.
class RouteEmitter : public SimtEmitter {
public:
  RouteEmitter() : SimtEmitter("kernel.route", "sm90.route") {}
  std::string whyIllegal(Operation *op) const override {
    auto route = cast<kernel::RouteOp>(op);
    for (Value v : {route.getLogits(), route.getBias()})
      if (!tensorType(v).getElementType().isF32())
        return "logits and bias must be f32";
    if (Choice::experts(route) > 32 * SimtBuilder::kWarp)
      return "more than 1024 experts";
    return route.getGroups() > 32 || route.getTop() > 32 ? "more than 32 groups, or experts per token" : "";
  }

protected:
  static constexpr int64_t kWarps = 4;         ///< tokens of a block, a warp each
  static constexpr int64_t kRankedRows = 1024; ///< with more, what counts is the work of a token, not the wait for it
  static bool ranked(Operation *op) { return RankedChoice::fits(cast<kernel::RouteOp>(op)) && rowCapacity(op->getOperand(0)) <= kRankedRows; }
  int64_t threads(Operation *op) const override {
    return ranked(op) ? Choice::experts(cast<kernel::RouteOp>(op)) : kWarps * SimtBuilder::kWarp;
  }
  int64_t blocks(Operation *op) const override {
    int64_t tokens = rowCapacity(op->getOperand(0));
    return ranked(op) ? tokens : int64_t(llvm::divideCeil(tokens, kWarps));
  }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    auto route = cast<kernel::RouteOp>(op);
    Choice choice(k, route, rows(k, refs, op, 0), rows(k, refs, op, 1), rows(k, refs, op, 2), rows(k, refs, op, 3));
    Value count = rowCount(k, op->getOperand(0));
    if (ranked(op))
      return k.when(k.lt(k.block(), count), [&] { RankedChoice(choice).choose(k.block()); });
    int64_t bytes = WarpChoice::scratchBytes(route);
    Value scratch = k.element(k.shared(kWarps * bytes), k.warp(), bytes);
    Value token = k.add(k.mul(k.block(), kWarps), k.warp());
    k.when(k.lt(token, count), [&] { WarpChoice(choice, scratch).choose(token); });
  }
};

} // namespace

void addRouteEmitters90(KernelRegistry &r) { r.add(std::make_unique<RouteEmitter>()); }

} // namespace dsv3::codegen
