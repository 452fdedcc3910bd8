// The work list of the experts, and the sum of what they return.
#include "codegen/sm90/simt/SimtEmitter.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

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
      counts = k.shared(warps * experts * 4), starts = k.shared(llvm::alignTo(experts, SimtBuilder::kWarp) * 4);
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
        Value found = k.loadScalar(k.i32, k.element(starts, place[i], 4)); // behind the experts: a word that nobody writes
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
    Value counts, starts, mine; ///< shared: [warps][E], [E rounded up to warps], this warp's row of counts
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
  r.add(std::make_unique<DispatchEmitter>());
  r.add(std::make_unique<CombineEmitter>());
}

} // namespace dsv3::codegen
