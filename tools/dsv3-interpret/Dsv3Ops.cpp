// The dsv3 ops as calls of the reference.
#include "Interpreter.h"

#include "runtime/reference/Attention.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Moe.h"
#include "runtime/reference/Norm.h"
#include "runtime/reference/Rope.h"

#include "llvm/ADT/TypeSwitch.h"

namespace dsv3::interpret {

using namespace dsv3::reference;

static mlir::Type elemOf(mlir::Value value) { return mlir::getElementTypeOrSelf(value.getType()); }
static int64_t dimOf(mlir::Value value, int64_t i) {
  return llvm::cast<mlir::RankedTensorType>(value.getType()).getDimSize(i);
}

template <typename T>
Array<T> gated(Frame<T> &f, Result<Array<T>> gate, Result<Array<T>> up, mlir::Type via) {
  Array<T> g = f.rounded(via, f.take(std::move(gate))), u = f.rounded(via, f.take(std::move(up)));
  return f.take(swiglu(g, u));
}

/// Row `logit_row` of each sequence: the last one of this step.
static Ids logitRows(const SeqMeta &seq) {
  Ids rows({seq.seqs()});
  for (int64_t s = 0; s < seq.seqs(); ++s)
    rows.data[s] = seq.qStart[s + 1] - 1;
  return rows;
}

template <typename Op> static RouteParams routeParams(Op op) {
  return {int64_t(op.getGroups()), int64_t(op.getKeep()), int64_t(op.getTop()), op.getNorm(),
          op.getScale().convertToDouble()};
}

//===-- Dense ops ---------------------------------------------------------===//

template <typename T> static void eval(ir::EmbedOp op, Frame<T> &f) {
  f.set(op.getResult(), embed(f.ids(op.getIds()), f.numbers(op.getTable())));
}

template <typename T> static void eval(ir::RmsNormOp op, Frame<T> &f) {
  double eps = op.getEps().convertToDouble();
  if (!op.getResidual())
    return f.set(op.getY(), rmsNorm(f.numbers(op.getX()), f.numbers(op.getGamma()), eps));
  NormResult<T> r = f.take(rmsNorm(f.numbers(op.getX()), f.numbers(op.getResidual()), f.numbers(op.getGamma()), eps,
                                   f.take(roundingOf(elemOf(op.getSum())))));
  f.set(op.getSum(), std::move(r.sum));
  f.set(op.getY(), std::move(r.y));
}

template <typename T> static void eval(ir::QuantizeOp op, Frame<T> &f) { f.set(op.getResult(), f.numbers(op.getX())); }

template <typename T> static void eval(ir::LinearOp op, Frame<T> &f) {
  f.set(op.getY(), linear(f.rows(op.getX()), f.numbers(op.getW())));
}

template <typename T> static void eval(ir::GatedLinearOp op, Frame<T> &f) {
  Array<T> x = f.rows(op.getX());
  f.set(op.getY(), gated(f, linear(x, f.numbers(op.getWGate())), linear(x, f.numbers(op.getWUp())), op.getVia()));
}

template <typename T> static void eval(ir::BatchedLinearOp op, Frame<T> &f) {
  f.set(op.getY(), batchedLinear(f.numbers(op.getX()), f.numbers(op.getW())));
}

template <typename T> static void eval(ir::SwigluOp op, Frame<T> &f) {
  f.set(op.getY(), swiglu(f.numbers(op.getGate()), f.numbers(op.getUp())));
}

template <typename T> static void eval(ir::AddOp op, Frame<T> &f) {
  f.set(op.getResult(), add(f.numbers(op.getX()), f.numbers(op.getY())));
}

template <typename T> static void eval(ir::SplitOp op, Frame<T> &f) {
  std::vector<int64_t> sizes;
  for (mlir::Value part : op.getParts())
    sizes.push_back(llvm::cast<mlir::RankedTensorType>(part.getType()).getShape().back());
  std::vector<Array<T>> parts = f.take(split(f.numbers(op.getX()), sizes));
  parts.resize(sizes.size());
  for (auto [result, part] : llvm::zip_equal(op.getParts(), parts))
    f.set(result, std::move(part));
}

template <typename T> static void eval(ir::ConcatOp op, Frame<T> &f) {
  std::vector<Array<T>> parts;
  for (mlir::Value part : op.getParts())
    parts.push_back(f.numbers(part));
  f.set(op.getResult(), concat(parts));
}

template <typename T> static void eval(ir::SelectRowsOp op, Frame<T> &f) {
  f.set(op.getY(), selectRows(f.numbers(op.getX()), logitRows(f.seq(op.getSeq()))));
}

//===-- Attention ---------------------------------------------------------===//

template <typename T> static void eval(ir::RopeOp op, Frame<T> &f) {
  RopeTable table = f.take(ropeTableOf(op.getRope()));
  f.set(op.getResult(), rope(f.numbers(op.getX()), f.seq(op.getSeq()).positions(), table, op.getAt(),
                             op.getRope().getInterleaved()));
}

template <typename T> static void eval(ir::KvAppendOp op, Frame<T> &f) {
  f.check(kvAppend(f.cache(op.getKv()), op.getLayer(), {f.rows(op.getLatent()), f.rows(op.getRope())},
                   f.seq(op.getSeq())));
  f.set(op.getResult(), f.held(op.getKv()));
}

template <typename T> static void eval(ir::MlaAttentionOp op, Frame<T> &f) {
  ir::KvType kv = op.getKv().getType();
  MlaShape shape{dimOf(op.getQ(), 1), dimOf(op.getQ(), 2) - kv.getRope(), kv.getRope(), dimOf(op.getY(), 2),
                 kv.getLatent()};
  f.set(op.getY(), mlaAttention(f.numbers(op.getQ()), f.cache(op.getKv()), op.getLayer(), f.numbers(op.getWKvb()),
                                f.seq(op.getSeq()), op.getScale().convertToDouble(), shape,
                                f.take(roundingOf(elemOf(op.getQ())))));
}

template <typename T> static void eval(ir::LatentAttentionOp op, Frame<T> &f) {
  f.set(op.getY(), latentAttention(f.numbers(op.getQLatent()), f.numbers(op.getQRope()), f.cache(op.getKv()),
                                   op.getLayer(), f.seq(op.getSeq()), op.getScale().convertToDouble()));
}

//===-- Mixture of experts ------------------------------------------------===//

template <typename T> static void eval(ir::RouteOp op, Frame<T> &f) {
  Routing<T> r = f.take(route(f.numbers(op.getLogits()), f.numbers(op.getBias()), routeParams(op)));
  f.set(op.getIds(), Result<Ids>(std::move(r.ids)));
  f.set(op.getWeights(), std::move(r.weights));
}

template <typename T> static void eval(ir::DispatchOp op, Frame<T> &f) {
  Dispatched<T> d = f.take(dispatch(f.numbers(op.getX()), f.ids(op.getIds()), op.getExperts()));
  f.set(op.getRows(), std::move(d.rows));
  f.set(op.getOffsets(), Result<Ids>(std::move(d.offsets)));
  f.set(op.getRowOf(), Result<Ids>(std::move(d.rowOf)));
}

template <typename T> static void eval(ir::GroupedLinearOp op, Frame<T> &f) {
  f.set(op.getY(), groupedLinear(f.numbers(op.getX()), f.numbers(op.getW()), f.ids(op.getOffsets())));
}

template <typename T> static void eval(ir::CombineOp op, Frame<T> &f) {
  f.set(op.getY(), combine(f.numbers(op.getRows()), f.ids(op.getRowOf()), f.numbers(op.getWeights()),
                           f.numbers(op.getPlus())));
}

/// Written out call by call, since the routing may be a result too.
template <typename T> static void eval(ir::RoutedExpertsOp op, Frame<T> &f) {
  const Array<T> &logits = f.numbers(op.getLogits());
  Routing<T> r = f.take(route(logits, f.numbers(op.getBias()), routeParams(op)));
  Dispatched<T> d = f.take(dispatch(f.numbers(op.getX()), r.ids, logits.cols()));
  Array<T> act = f.rounded(op.getViaAct(),
                           gated(f, groupedLinear(d.rows, f.numbers(op.getWGate()), d.offsets),
                                 groupedLinear(d.rows, f.numbers(op.getWUp()), d.offsets), op.getViaGateUp()),
                           op.getActSchemeAttr());
  Array<T> down = f.rounded(op.getViaDown(), f.take(groupedLinear(act, f.numbers(op.getWDown()), d.offsets)));
  f.set(op.getY(), combine(down, d.rowOf, r.weights, f.numbers(op.getPlus())));
  if (op.getIds())
    f.set(op.getIds(), Result<Ids>(std::move(r.ids)));
  if (op.getWeights())
    f.set(op.getWeights(), std::move(r.weights));
}

template <typename T> bool evalDsv3(mlir::Operation &op, Frame<T> &f) {
  return llvm::TypeSwitch<mlir::Operation *, bool>(&op)
      .template Case<ir::EmbedOp, ir::RmsNormOp, ir::QuantizeOp, ir::LinearOp, ir::GatedLinearOp, ir::BatchedLinearOp, ir::SwigluOp,
                     ir::AddOp, ir::SplitOp, ir::ConcatOp, ir::SelectRowsOp, ir::RopeOp, ir::KvAppendOp,
                     ir::MlaAttentionOp, ir::LatentAttentionOp, ir::RouteOp, ir::DispatchOp, ir::GroupedLinearOp,
                     ir::CombineOp, ir::RoutedExpertsOp>([&](auto typed) {
        eval(typed, f);
        return true;
      })
      .Default(false);
}

template bool evalDsv3(mlir::Operation &, Frame<float> &);
template bool evalDsv3(mlir::Operation &, Frame<double> &);
template Array<float> gated(Frame<float> &, Result<Array<float>>, Result<Array<float>>, mlir::Type);
template Array<double> gated(Frame<double> &, Result<Array<double>>, Result<Array<double>>, mlir::Type);

} // namespace dsv3::interpret
