// The router and the work list of the experts.
#include "codegen/x86/RowOps.h"

#include <limits>

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// kernel.route: tile = one token. Scratch: scores [E], biased scores [E], group scores [G].
class RouteEmitter : public X86Emitter {
public:
  RouteEmitter() : X86Emitter("kernel.route", "x86.route") {}
  std::string whyIllegal(Operation *op) const override {
    for (unsigned i : {0u, 1u})
      if (!tensorType(op->getOperand(i)).getElementType().isF32())
        return "logits and bias must be f32";
    return {};
  }
  TileCount tiles(Operation *) const override { return {DSV3_SCALAR_TOKENS, 1, 1}; }
  int64_t scratchBytes(Operation *op) const override {
    return 4 * (2 * llvm::alignTo(experts(op), kLanes) + cast<kernel::RouteOp>(op).getGroups());
  }

protected:
  static int64_t experts(Operation *op) { return tensorType(op->getOperand(0)).getDimSize(1); }

  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto route = cast<kernel::RouteOp>(op);
    int64_t n = experts(op), top = route.getTop();
    RowOperand logits = rows(k, refs, op, 0), bias = rows(k, refs, op, 1), ids = rows(k, refs, op, 2), weights = rows(k, refs, op, 3);
    Value scores = k.scratch, biased = k.at(scores, 4 * int64_t(llvm::alignTo(n, kLanes)));
    Value groupScores = k.at(biased, 4 * int64_t(llvm::alignTo(n, kLanes)));
    k.loop(k.begin, k.end, 1, [&](Value t) {
      Value row = logits.row(k, t);
      forLanes(k, n, [&](Value lane, int64_t count) {
        Value s = k.sigmoid(k.loadF32(k.f32, lanesAt(k, row, k.f32, lane), kLanes, count));
        k.storeF32(k.f32, s, lanesAt(k, scores, k.f32, lane), count);
        Value c = k.loadF32(k.f32, lanesAt(k, bias.base, k.f32, lane), kLanes, count);
        k.storeF32(k.f32, k.fadd(s, c), lanesAt(k, biased, k.f32, lane), count);
      });
      keepGroups(k, route, n, biased, groupScores);
      Value total = k.loop(k.idx(0), k.idx(top), 1, k.cf(k.f32, 0), [&](Value j, ValueRange in) {
        Value id = takeBest(k, biased, n);
        Value w = k.load(k.f32, lanesAt(k, scores, k.f32, id));
        k.store(arith::TruncIOp::create(k.b, k.i32, id), lanesAt(k, ids.row(k, t), k.i32, j));
        k.store(w, lanesAt(k, weights.row(k, t), k.f32, j));
        return SmallVector<Value>{k.fadd(in[0], w)};
      })[0];
      k.loop(0, top, 1, [&](Value j) {
        Value address = lanesAt(k, weights.row(k, t), k.f32, j), w = k.load(k.f32, address);
        if (route.getNorm())
          w = k.fdiv(w, k.fadd(total, k.cf(k.f32, 1e-20)));
        k.store(k.fmul(w, k.cf(k.f32, route.getScale().convertToDouble())), address);
      });
    });
    return success();
  }

private:
  static Value minusInfinity(KernelBuilder &k) { return k.cf(k.f32, -std::numeric_limits<double>::infinity()); }

  /// Index of the first largest of `n` values, which is then replaced by minus infinity.
  static Value takeBest(KernelBuilder &k, Value values, int64_t n) {
    SmallVector<Value> best = k.loop(k.idx(0), k.idx(n), 1, {minusInfinity(k), k.idx(0)}, [&](Value i, ValueRange in) {
      Value v = k.load(k.f32, lanesAt(k, values, k.f32, i));
      Value better = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGT, v, in[0]); // ties keep the lower index
      return SmallVector<Value>{arith::SelectOp::create(k.b, better, v, in[0]), arith::SelectOp::create(k.b, better, i, in[1])};
    });
    k.store(minusInfinity(k), lanesAt(k, values, k.f32, best[1]));
    return best[1];
  }

  /// Sets the biased scores outside the best `keep` groups to minus infinity.
  static void keepGroups(KernelBuilder &k, kernel::RouteOp route, int64_t n, Value biased, Value groupScores) {
    int64_t groups = route.getGroups(), size = n / groups;
    if (int64_t(route.getKeep()) == groups)
      return;
    k.loop(0, groups, 1, [&](Value g) { // a group's score: the sum of its two best
      SmallVector<Value> two = k.loop(k.idx(0), k.idx(size), 1, {minusInfinity(k), minusInfinity(k)}, [&](Value i, ValueRange in) {
        Value v = k.load(k.f32, lanesAt(k, biased, k.f32, k.add(k.mul(g, size), i)));
        Value first = k.fmax(v, in[0]);
        Value lower = arith::SelectOp::create(k.b, arith::CmpFOp::create(k.b, arith::CmpFPredicate::OGT, v, in[0]), in[0], v);
        return SmallVector<Value>{first, k.fmax(lower, in[1])};
      });
      k.store(k.fadd(two[0], two[1]), lanesAt(k, groupScores, k.f32, g));
    });
    // The kept groups become minus infinity in `groupScores`; the others still hold a score.
    k.loop(0, int64_t(route.getKeep()), 1, [&](Value) { takeBest(k, groupScores, groups); });
    k.loop(0, groups, 1, [&](Value g) {
      Value score = k.load(k.f32, lanesAt(k, groupScores, k.f32, g));
      Value dropped = arith::CmpFOp::create(k.b, arith::CmpFPredicate::UNE, score, minusInfinity(k));
      k.when(dropped, [&] {
        k.loop(0, size, 1, [&](Value i) { k.store(minusInfinity(k), lanesAt(k, biased, k.f32, k.add(k.mul(g, size), i))); });
      });
    });
  }
};

/// kernel.dispatch: one tile, a counting sort by expert that keeps token order. Scratch: cursors [E].
class DispatchEmitter : public X86Emitter {
public:
  DispatchEmitter() : X86Emitter("kernel.dispatch", "x86.dispatch") {}
  TileCount tiles(Operation *) const override { return {-1, 1, 1}; }
  int64_t scratchBytes(Operation *op) const override { return 4 * tensorType(op->getOperand(1)).getDimSize(0); }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    int64_t experts = tensorType(op->getOperand(1)).getDimSize(0) - 1, top = tensorType(op->getOperand(0)).getDimSize(1);
    Value ids = k.buf(refs.of(0)), offsets = k.buf(refs.of(1)), tokenOf = k.buf(refs.of(2)), rowOf = k.buf(refs.of(3));
    Value count = k.mul(k.scalar(DSV3_SCALAR_TOKENS), top), cursor = k.scratch;
    auto slot = [&](Value base, Value i) { return k.at(base, k.mul(i, 4)); };
    auto bump = [&](Value address) {
      Value old = k.load(k.i32, address);
      k.store(k.add(old, 1), address);
      return old;
    };
    k.loop(k.begin, k.end, 1, [&](Value) {
      k.loop(0, experts + 1, 1, [&](Value e) { k.store(k.cint(k.i32, 0), slot(offsets, e)); });
      k.loop(k.idx(0), count, 1, [&](Value i) { bump(slot(offsets, k.add(k.loadI32(ids, i), 1))); });
      k.loop(0, experts, 1, [&](Value e) {
        Value before = k.load(k.i32, slot(offsets, e)), next = slot(offsets, k.add(e, 1));
        k.store(before, slot(cursor, e));
        k.store(k.add(before, k.load(k.i32, next)), next);
      });
      k.loop(k.idx(0), count, 1, [&](Value i) {
        Value row = bump(slot(cursor, k.loadI32(ids, i)));
        k.store(row, slot(rowOf, i));
        k.store(arith::TruncIOp::create(k.b, k.i32, k.div(i, top)), slot(tokenOf, k.toI64(row)));
      });
    });
    return success();
  }
};

/// kernel.combine: tile = one token.
class CombineEmitter : public X86Emitter {
public:
  CombineEmitter() : X86Emitter("kernel.combine", "x86.combine") {}
  TileCount tiles(Operation *) const override { return {DSV3_SCALAR_TOKENS, 1, 1}; }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto combine = cast<kernel::CombineOp>(op);
    RowOperand in = rows(k, refs, op, 0), rowOf = rows(k, refs, op, 1), weights = rows(k, refs, op, 2);
    RowOperand plus = combine.getPlus() ? rows(k, refs, op, 3) : in, out = rows(k, refs, op, op->getNumOperands() - 1);
    int64_t top = tensorType(combine.getWeights()).getDimSize(1), n = tensorType(combine.getOut()).getDimSize(1);
    k.loop(k.begin, k.end, 1, [&](Value t) {
      forLanes(k, n, [&](Value lane, int64_t count) {
        Value acc = k.loop(k.idx(0), k.idx(top), 1, k.cf(k.vf32, 0), [&](Value j, ValueRange carried) {
          Value row = in.row(k, k.loadI32(rowOf.row(k, t), j));
          Value w = k.splat(k.load(k.f32, lanesAt(k, weights.row(k, t), k.f32, j)));
          return SmallVector<Value>{k.fma(w, k.loadF32(in.elem, lanesAt(k, row, in.elem, lane), kLanes, count), carried[0])};
        })[0];
        if (combine.getPlus())
          acc = k.fadd(acc, k.loadF32(plus.elem, lanesAt(k, plus.row(k, t), plus.elem, lane), kLanes, count));
        k.storeF32(out.elem, acc, lanesAt(k, out.row(k, t), out.elem, lane), count);
      });
    });
    return success();
  }
};

} // namespace

void addExpertEmitters(KernelRegistry &r) {
  r.add(std::make_unique<RouteEmitter>());
  r.add(std::make_unique<DispatchEmitter>());
  r.add(std::make_unique<CombineEmitter>());
}

} // namespace dsv3::codegen
