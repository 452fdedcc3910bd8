// Attention over cut sequences: the plan that cuts them, and the sum of the parts. What runs between them is a kernel on
// tensor cores (codegen/sm90/attention).
#include "codegen/sm90/simt/SimtEmitter.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// kernel.attn_plan: seq, items, parts, splits; one block, a thread a sequence. Items are counted by sums over the
/// sequences, so their order is that of the definition. Constants: partitions, capacity of sequences.
class AttnPlanEmitter : public SimtEmitter {
public:
  AttnPlanEmitter() : SimtEmitter("kernel.attn_plan", "sm90.attn_plan") {}
  std::string whyIllegal(Operation *op) const override { return size(op, 3) <= kThreads ? "" : "more than 1024 sequences"; }
  LaunchSignature signature(Operation *op) const override { return {{DSV3_FIELD_CTX_LEN}, {size(op, 2), size(op, 3)}}; }

protected:
  static constexpr int64_t kThreads = 1024, kPage = 64;
  /// What starting an item costs, in pages: loading the query and storing the result.
  static constexpr int64_t kStart = 2;
  static int64_t size(Operation *op, unsigned operand) { return tensorType(op->getOperand(operand)).getDimSize(0) - 1; }
  int64_t threads(Operation *) const override { return kThreads; }
  int64_t blocks(Operation *) const override { return 1; }
  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override { Plan(k, op, refs).run(); }

private:
  struct Plan {
    Plan(SimtBuilder &k, Operation *op, const RefMap &refs)
        : k(k), split(cast<kernel::AttnPlanOp>(op).getSplit()), items(k.param(refs.of(1))), parts(k.param(refs.of(2))),
          splits(k.param(refs.of(3))), partitions(k.toI32(k.param(refs.size()))), capacity(k.toI32(k.param(refs.size() + 1))) {
      seq = k.thread(), seqs = k.scalarI32(DSV3_SCALAR_SEQS);
      active = k.lt(seq, seqs);
      Value last = k.maxI(k.sub(seqs, k.idx(1)), k.idx(0));
      Value length = k.loadScalar(k.i32, k.element(k.param(refs.of(0)), k.minI(seq, last), 4), /*readOnly=*/true);
      context = k.select(active, length, k.idx(0));
      pages = k.divUp(context, kPage);
    }

    void run() { split.isEven() ? evenly() : byLength(); }

    /// Pieces of `span` pages from position 0, which only the sequence's own length decides.
    void byLength() {
      Value span = k.maxI(k.idx(split.getPages()), k.divUp(pages, split.getMax()));
      span = k.add(span, k.bitAnd(span, k.idx(1)));
      count(k.divide(k.add(pages, k.sub(span, k.idx(1))), span));
      Value step = k.add(span, kStart);
      SimtBuilder::Scan cost = k.scanBlock(k.add(pages, k.mul(pieces, kStart)));
      eachPiece([&](Value j, Value index) {
        Value begin = k.mul(j, span);
        Value own = k.select(cut, k.add(slot.before, j), k.idx(-1));
        writeItem(index, {seq, begin, k.minI(k.add(begin, span), pages), own, context});
      });
      shareItems(cost, step);
      k.when(active, [&] { k.store(slot.before, k.element(splits, seq, 4)); });
      k.loop(k.add(seqs, seq), k.add(capacity, 1), kThreads, [&](Value i) { k.store(slot.total, k.element(splits, i, 4)); });
    }

    /// Fills partition after partition up to a budget, and cuts a sequence only where one is full. The budget is the least that
    /// holds everything: a lane of the first warp tries one each, then the first lane writes what the best one gives. That is
    /// a walk of partitions + sequences steps by one thread, for all layers of the step.
    void evenly() {
      SimtBuilder::Scan cost = k.scanBlock(costOf(pages));
      pagesOf = k.shared(kThreads * 4), contextOf = k.shared(kThreads * 4);
      Value slots = k.shared(4);
      k.store(pages, k.element(pagesOf, seq, 4));
      k.store(context, k.element(contextOf, seq, 4));
      k.syncBlock();
      // A partition that ends with a cut leaves at most start + 1 pages of its budget, and there are less than `partitions`
      // cuts, each of which costs a start: 2 start + 2 above an equal share is enough, and SplitAttr keeps that below 32.
      Value share = k.divide(k.add(cost.total, k.sub(partitions, k.idx(1))), partitions);
      Value least = k.maxI(share, k.idx(split.getPages() + 2));
      k.when(k.lt(k.thread(), k.idx(SimtBuilder::kWarp)), [&] {
        Value placed = walk(k.add(least, k.lane()), /*write=*/false).seq;
        Value enough = k.ballot(k.eq(placed, seqs));
        Value first = k.popcount(k.bitAnd(k.bitXor(enough, k.idx(-1)), k.sub(enough, k.idx(1))));
        k.when(k.eq(k.lane(), k.idx(0)), [&] {
          k.store(k.idx(0), parts);
          k.store(k.idx(0), splits);
          Walked all = walk(k.add(least, first), /*write=*/true);
          k.store(all.items, k.element(parts, partitions, 4));
          k.store(all.slots, slots);
        });
      });
      k.syncBlock();
      Value all = k.loadScalar(k.i32, slots);
      k.loop(k.add(k.add(seqs, seq), 1), k.add(capacity, 1), kThreads, [&](Value i) { k.store(all, k.element(splits, i, 4)); });
    }

    /// What an item of so many pages costs: pages go in pairs.
    Value costOf(Value n) {
      Value pairs = k.add(n, k.bitAnd(n, k.idx(1)));
      return k.select(k.lt(k.idx(0), n), k.add(pairs, split.getPages()), k.idx(0));
    }

    struct Walked {
      Value seq, items, slots; ///< how many sequences, items and slots were placed
    };
    /// Each step ends a sequence, or ends a partition with a piece of one. So a budget that is enough has ended all sequences
    /// and all partitions but the last when the loop ends.
    Walked walk(Value budget, bool write) {
      Value zero = k.idx(0), one = k.idx(1), lastSeq = k.maxI(k.sub(seqs, one), zero);
      SmallVector<Value> end = k.loop(zero, k.sub(k.add(seqs, partitions), one), 1, {zero, zero, budget, zero, zero, zero}, [&](Value, ValueRange in) {
        Value s = in[0], at = in[1], rest = in[2], partition = in[3], item = in[4], slot = in[5];
        Value there = k.lt(s, seqs), safe = k.minI(s, lastSeq);
        Value left = k.sub(k.loadScalar(k.i32, k.element(pagesOf, safe, 4)), at), cost = costOf(left);
        Value fits = k.bitAnd(there, k.ge(rest, cost));
        Value room = k.maxI(k.bitAnd(k.sub(rest, k.idx(split.getPages())), k.idx(-2)), zero);
        Value take = k.select(there, k.select(fits, left, room), zero), some = k.lt(zero, take);
        Value cutHere = k.bitAnd(some, k.select(fits, k.lt(zero, at), some)), until = k.add(at, take);
        Value items_ = k.select(some, k.add(item, 1), item), slots = k.select(cutHere, k.add(slot, 1), slot);
        if (write) {
          k.when(some, [&] {
            writeItem(item, {safe, at, until, k.select(cutHere, slot, k.idx(-1)), k.loadScalar(k.i32, k.element(contextOf, safe, 4))});
          });
          Value list = k.select(fits, splits, parts), place = k.select(fits, s, partition);
          k.store(k.select(fits, slots, items_), k.element(list, k.add(place, 1), 4));
        }
        return SmallVector<Value>{k.select(fits, k.add(s, 1), s), k.select(fits, zero, until), k.select(fits, k.sub(rest, cost), budget),
                                  k.select(fits, partition, k.add(partition, 1)), items_, slots};
      });
      return {end[0], end[4], end[5]};
    }

    /// Numbers the items and slots from how many pieces each sequence has.
    void count(Value of) {
      pieces = of;
      item = k.scanBlock(pieces);
      cut = k.lt(k.idx(1), pieces);
      slot = k.scanBlock(k.select(cut, pieces, k.idx(0)));
    }

    void eachPiece(llvm::function_ref<void(Value j, Value index)> body) {
      k.loop(k.idx(0), pieces, 1, [&](Value j) { body(j, k.add(item.before, j)); });
    }

    void writeItem(Value index, std::initializer_list<Value> fields) {
      Value place = k.element(items, index, 20);
      for (auto [i, v] : llvm::enumerate(fields))
        k.store(v, k.at(place, int64_t(i) * 4));
    }

    /// Consecutive items to partitions, so that each has the same cost but for the last item's. An item goes where it
    /// starts; `step` is the cost of a whole piece of this thread's sequence. Results do not depend on it.
    void shareItems(SimtBuilder::Scan cost, Value step) {
      Value costs = k.shared(kThreads * 4), numbers = k.shared(kThreads * 4), steps = k.shared(kThreads * 4);
      k.store(cost.before, k.element(costs, seq, 4));
      k.store(item.before, k.element(numbers, seq, 4));
      k.store(step, k.element(steps, seq, 4));
      k.syncBlock();
      auto read = [&](Value from, Value i) { return k.loadScalar(k.i32, k.element(from, i, 4)); };
      k.loop(seq, k.add(partitions, 1), kThreads, [&](Value p) {
        // The first item that starts at `target` or later: of the last sequence that starts at or before it.
        // Unsigned: partitions times pages stay below 2^32 for all tokens that a device can cache.
        Value target = k.divide(k.add(k.mul(p, cost.total), k.sub(partitions, k.idx(1))), partitions), found = k.idx(0);
        for (int64_t stride = kThreads / 2; stride; stride /= 2) {
          Value next = k.add(found, stride);
          Value before = k.bitAnd(k.lt(next, seqs), k.ge(target, read(costs, next)));
          found = k.select(before, next, found);
        }
        Value stepOf = read(steps, found), into = k.sub(target, read(costs, found));
        Value index = k.add(read(numbers, found), k.divide(k.add(into, k.sub(stepOf, k.idx(1))), stepOf));
        Value few = k.ge(partitions, item.total); // one each
        index = k.select(few, k.minI(p, item.total), k.select(k.eq(p, partitions), item.total, index));
        k.store(index, k.element(parts, p, 4));
      });
    }

    SimtBuilder &k;
    kernel::SplitAttr split;
    Value items, parts, splits, partitions, capacity;
    Value seq, seqs, active, context, pages; ///< of this thread's sequence
    Value pieces, cut;
    SimtBuilder::Scan item, slot;
    Value pagesOf, contextOf; ///< of all sequences, in shared memory
  };
};

/// kernel.attn_combine: partial, lse, splits, seq, out. A sum has kChains chains of additions: slot i of a sequence is in
/// chain i % kChains, and the chains are added in a tree. `groups` of threads share a head's chains when there are few
/// rows, so that more partial results are on their way at once; with many rows a block does `heads` of them one by one.
class AttnCombineEmitter : public SimtEmitter {
public:
  AttnCombineEmitter() : SimtEmitter("kernel.attn_combine", "sm90.attn_combine") {}
  std::string whyIllegal(Operation *op) const override {
    int64_t n = lastDim(op->getOperand(0));
    if (n % (4 * SimtBuilder::kWarp) || n > 4096)
      return "rows of " + std::to_string(n) + " values are not a multiple of 128 up to 4096";
    return floatsOnly(op);
  }

protected:
  static constexpr int64_t kChains = 8, kInFlight = 4; ///< partial results loaded before the first is used, at least
  static constexpr int64_t kFewRows = 264, kManyRows = 4096;
  static int64_t heads(Operation *op) { return tensorType(op->getOperand(0)).getDimSize(1); }
  static int64_t lanes(Operation *op) { return lastDim(op->getOperand(0)) / 4; } ///< threads that have a row's lanes, four each
  static int64_t groups(Operation *op) {
    int64_t rows = rowCapacity(op->getOperand(4)), groups = kChains;
    while (groups > 1 && (groups * lanes(op) > 1024 || rows * groups > kFewRows * kChains))
      groups /= 2;
    return groups;
  }
  static int64_t headsOfBlock(Operation *op) {
    int64_t rows = rowCapacity(op->getOperand(4)), n = 1;
    while (rows / n > kManyRows && heads(op) % (2 * n) == 0)
      n *= 2;
    return n;
  }
  int64_t threads(Operation *op) const override { return groups(op) * lanes(op); }
  int64_t blocks(Operation *op) const override { return rowCapacity(op->getOperand(4)) / headsOfBlock(op); }
  DictionaryAttr config(Operation *op) const override {
    return dictionary(op, {{"threads", threads(op)}, {"groups", groups(op)}, {"heads", headsOfBlock(op)}});
  }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    int64_t perBlock = param(op, "heads"), blocks = heads(op) / perBlock;
    Value seq = k.div(k.block(), blocks), first = k.mul(k.rem(k.block(), blocks), perBlock);
    k.when(k.lt(seq, k.scalarI32(DSV3_SCALAR_SEQS)), [&] {
      Value place = k.element(k.param(refs.of(2)), seq, 4);
      Value from = k.loadScalar(k.i32, place, true), to = k.loadScalar(k.i32, k.at(place, 4), true);
      k.when(k.lt(from, to), [&] {
        k.loop(first, k.add(first, perBlock), 1, [&](Value head) { Sum{k, op, refs, seq, head, from, to, param(op, "groups")}.run(); });
      });
    });
  }

private:
  /// One head of one sequence.
  struct Sum {
    SimtBuilder &k;
    Operation *op;
    const RefMap &refs;
    Value seq, head, first, last; ///< slots [first, last)
    int64_t groups;

    void run() {
      Value thread = k.rem(k.thread(), lanes(op)), lane = k.mul(thread, 4);
      SmallVector<Value> sums = chains(lane, k.div(k.thread(), lanes(op)), total());
      Rows out = rows(k, refs, op, 4);
      Value address = out.at(k, k.add(k.mul(seq, heads(op)), head), lane);
      if (groups == 1)
        return k.storeF32(out.elem, tree(sums), address);
      Value shared = k.shared(kChains * lanes(op) * 16), mine = k.element(shared, thread, 16);
      auto place = [&](Value chain) { return k.element(mine, chain, lanes(op) * 16); };
      int64_t own = kChains / groups;
      for (int64_t c = 0; c < own; ++c)
        k.storeF32(k.f32, ArrayRef<Value>(sums).slice(size_t(c) * 4, 4), place(k.add(k.mul(k.div(k.thread(), lanes(op)), own), c)));
      k.syncBlock();
      k.when(k.lt(k.thread(), k.idx(lanes(op))), [&] {
        SmallVector<Value> all;
        for (int64_t c = 0; c < kChains; ++c)
          all.append(k.loadF32(k.f32, place(k.idx(c)), 4));
        k.storeF32(out.elem, tree(all), address);
      });
    }

    Value row(Value slot) { return k.add(k.mul(slot, heads(op)), head); }
    Value lse(Value slot) { return k.loadScalar(k.f32, k.element(k.param(refs.of(1)), row(slot), 4), true); }

    /// log2 of the sum of 2^lse. Every warp computes it for itself: its order is that of the slots, whoever computes it.
    Value total() {
      Value start = k.add(first, k.lane());
      Value most = k.loop(start, last, SimtBuilder::kWarp, k.cf(k.f32, -1e30), [&](Value s, ValueRange in) {
        return SmallVector<Value>{k.fmax(in[0], lse(s))};
      })[0];
      most = k.reduceWarp(most, [&](Value a, Value c) { return k.fmax(a, c); });
      Value sum = k.loop(start, last, SimtBuilder::kWarp, k.cf(k.f32, 0), [&](Value s, ValueRange in) {
        return SmallVector<Value>{k.fadd(in[0], k.exp2Fast(k.fsub(lse(s), most)))};
      })[0];
      return k.fadd(most, k.log2Fast(k.reduceWarp(sum, [&](Value a, Value c) { return k.fadd(a, c); })));
    }

    /// This group's chains, four lanes each: chains [group * own, group * own + own).
    SmallVector<Value> chains(Value lane, Value group, Value total) {
      int64_t own = kChains / groups, turns = std::max<int64_t>(1, kInFlight / own);
      Rows partial = rows(k, refs, op, 0);
      Value zero = k.cf(k.f32, 0), end = k.sub(last, k.idx(1));
      SmallVector<Value> start(size_t(own) * 4, zero);
      return k.loop(k.add(first, k.mul(group, own)), last, kChains * turns, start, [&](Value s, ValueRange in) {
        SmallVector<Value> weights, next(in);
        SmallVector<Lanes> values;
        for (int64_t i = 0; i < turns * own; ++i) {
          Value at = k.add(s, i / own * kChains + i % own), slot = k.minI(at, end); // past the end: weight 0
          weights.push_back(k.select(k.lt(at, last), k.exp2Fast(k.fsub(lse(slot), total)), zero));
          values.push_back(partial.load(k, partial.at(k, row(slot), lane), 4));
        }
        for (int64_t i = 0; i < turns * own; ++i)
          for (int64_t l = 0; l < 4; ++l) {
            Value &sum = next[size_t(i % own * 4 + l)];
            sum = k.fma(values[size_t(i)][size_t(l)], weights[size_t(i)], sum);
          }
        return next;
      });
    }

    /// Chains of four lanes each, added in pairs of neighbours.
    SmallVector<Value> tree(SmallVector<Value> sums) {
      for (; sums.size() > 4; sums.resize(sums.size() / 2))
        for (size_t i = 0; i < sums.size() / 2; ++i)
          sums[i] = k.fadd(sums[i / 4 * 8 + i % 4], sums[i / 4 * 8 + 4 + i % 4]);
      return sums;
    }
  };
};

} // namespace

void addPlanEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<AttnPlanEmitter>());
  r.add(std::make_unique<AttnCombineEmitter>());
}

} // namespace dsv3::codegen
