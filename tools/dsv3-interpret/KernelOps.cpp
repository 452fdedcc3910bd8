// The kernel ops as calls of the reference. Destinations are not read: every result is a value of its own,
// so how memory is reused is not modelled. Numerics and schedule change nothing: they say how a device
// computes what the reference computes in one way only.
#include "Interpreter.h"

#include "dialects/kernel/KernelDialect.h"
#include "runtime/core/TokenChoice.h"
#include "runtime/reference/ExpandedAttention.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Moe.h"
#include "runtime/reference/Norm.h"

#include "llvm/ADT/TypeSwitch.h"

#include <cstring>

namespace dsv3::interpret {

using namespace dsv3::reference;

static mlir::Type elemOf(mlir::Value value) { return mlir::getElementTypeOrSelf(value.getType()); }

/// Rotary embedding from a table [positions, dims] (cosines, then sines), as kernels read it.
template <typename T>
static Result<Array<T>> ropeByTable(const Array<T> &x, const Array<T> &table, const SeqMeta &seq, int64_t at,
                                    bool interleaved) {
  int64_t dims = table.cols(), half = dims / 2;
  if (x.rank() < 2 || x.dim(0) != seq.tokens() || at < 0 || at + dims > x.cols())
    return usageError("rope: expected x [" + std::to_string(seq.tokens()) + ", ..] with lanes up to " +
                      std::to_string(at + dims) + ", got shape " + toString(x.shape));
  Array<T> y = x;
  int64_t heads = x.dim(0) ? x.rows() / x.dim(0) : 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    int64_t position = seq.tokenPos[r / heads];
    if (position >= table.dim(0))
      return usageError("rope: expected positions below " + std::to_string(table.dim(0)) + " (the table), got " +
                        std::to_string(position));
    const T *cos = table.row(position), *sin = cos + half;
    const T *from = x.row(r) + at;
    T *to = y.row(r) + at;
    for (int64_t i = 0; i < half; ++i) {
      int64_t a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + half;
      to[a] = from[a] * cos[i] - from[b] * sin[i];
      to[b] = from[a] * sin[i] + from[b] * cos[i];
    }
  }
  return y;
}

static Ids lastRows(const SeqMeta &seq) {
  Ids rows({seq.seqs()});
  for (int64_t s = 0; s < seq.seqs(); ++s)
    rows.data[s] = seq.qStart[s + 1] - 1;
  return rows;
}

//===-- Dense launches ----------------------------------------------------===//

template <typename T> static void eval(kernel::EmptyOp, Frame<T> &) {} // nobody reads it

template <typename T> static void eval(kernel::ViewOp op, Frame<T> &f) {
  if (op.joinsHeads())
    return f.set(op.getResult(), f.rows(op.getSource()));
  const Array<T> &x = f.numbers(op.getSource());
  int64_t from = op.getOffset(), size = llvm::cast<mlir::RankedTensorType>(op.getType()).getShape().back();
  std::vector<Array<T>> parts = f.take(split(x, {from, size, x.cols() - from - size}));
  parts.resize(3);
  f.set(op.getResult(), std::move(parts[1]));
}

template <typename T> static void eval(kernel::EmbedOp op, Frame<T> &f) {
  f.set(op.getResult(), embed(f.ids(op.getIds()), f.numbers(op.getTable())));
}

template <typename T> static void eval(kernel::NormOp op, Frame<T> &f) {
  f.set(op.getResult(), rmsNorm(f.numbers(op.getX()), f.numbers(op.getGamma()), op.getEps().convertToDouble()));
}

template <typename T> static void eval(kernel::AddNormOp op, Frame<T> &f) {
  NormResult<T> r = f.take(rmsNorm(f.numbers(op.getX()), f.numbers(op.getResidual()), f.numbers(op.getGamma()),
                                   op.getEps().convertToDouble(), f.take(roundingOf(elemOf(op.getSum())))));
  f.set(op.getSum(), std::move(r.sum));
  f.set(op.getResult(), std::move(r.y));
}

template <typename T> static void eval(kernel::AddNormQuantizeOp op, Frame<T> &f) {
  NormResult<T> r = f.take(rmsNorm(f.numbers(op.getX()), f.numbers(op.getResidual()), f.numbers(op.getGamma()),
                                   op.getEps().convertToDouble(), f.take(roundingOf(elemOf(op.getSum())))));
  f.set(op.getSum(), std::move(r.sum));
  f.set(op.getResult(), r.y);
  f.set(op.getCodes(), std::move(r.y));
}

template <typename T> static void eval(kernel::QuantizeOp op, Frame<T> &f) { f.set(op.getResult(), f.numbers(op.getX())); }

template <typename T> static void eval(kernel::GemmOp op, Frame<T> &f) {
  f.set(op.getResult(), linear(f.rows(op.getX()), f.numbers(op.getW())));
}

template <typename T> static void eval(kernel::GatedGemmOp op, Frame<T> &f) {
  Array<T> x = f.rows(op.getX());
  f.set(op.getResult(), gated(f, linear(x, f.numbers(op.getWGate())), linear(x, f.numbers(op.getWUp())), op.getVia()));
}

template <typename T> static void eval(kernel::BatchedGemmOp op, Frame<T> &f) {
  f.set(op.getResult(), batchedLinear(f.numbers(op.getX()), f.numbers(op.getW())));
}

template <typename T> static void eval(kernel::AddOp op, Frame<T> &f) {
  f.set(op.getResult(), add(f.numbers(op.getX()), f.numbers(op.getY())));
}

template <typename T> static void eval(kernel::SwigluOp op, Frame<T> &f) {
  f.set(op.getResult(), swiglu(f.numbers(op.getGate()), f.numbers(op.getUp())));
}

template <typename T> static void eval(kernel::ConcatOp op, Frame<T> &f) {
  f.set(op.getResult(), concat(std::vector<Array<T>>{f.numbers(op.getX()), f.numbers(op.getY())}));
}

template <typename T> static void eval(kernel::SelectRowsOp op, Frame<T> &f) {
  f.set(op.getResult(), selectRows(f.numbers(op.getX()), lastRows(f.seq(op.getSeq()))));
}

/// Greedy, as the zeros of a step that says nothing: an interpreted program has no sampling parameters.
template <typename T> static void eval(kernel::SampleOp op, Frame<T> &f) {
  const Array<T> &logits = f.numbers(op.getLogits());
  Ids out({logits.rows(), DSV3_SAMPLED_WORDS});
  for (int64_t r = 0; r < logits.rows(); ++r) {
    std::vector<float> row(logits.row(r), logits.row(r) + logits.cols());
    dsv3_sampled chosen = TokenChooser().choose(row.data(), logits.cols(), {});
    std::memcpy(out.data.data() + r * DSV3_SAMPLED_WORDS, &chosen, sizeof chosen);
  }
  f.set(op.getResult(), std::move(out));
}

//===-- Attention ---------------------------------------------------------===//

template <typename T> static void eval(kernel::RopeOp op, Frame<T> &f) {
  f.set(op.getResult(), ropeByTable(f.numbers(op.getX()), f.numbers(op.getTable()), f.seq(op.getSeq()), op.getAt(),
                                    op.getRope().getInterleaved()));
}

/// Latent and rotary key are rounded to the type of kv_a first, as the norm and the rope they stand for are.
template <typename T> static void eval(kernel::KvAppendOp op, Frame<T> &f) {
  ir::KvType kv = op.getKv().getType();
  std::vector<Array<T>> parts = f.take(split(f.rows(op.getKvA()), {kv.getLatent(), kv.getRope()}));
  parts.resize(2);
  mlir::Type elem = elemOf(op.getKvA());
  Array<T> latent =
      f.rounded(elem, f.take(rmsNorm(parts[0], f.numbers(op.getGamma()), op.getEps().convertToDouble())));
  Array<T> key = f.rounded(elem, f.take(ropeByTable(parts[1], f.numbers(op.getTable()), f.seq(op.getSeq()), 0,
                                                    op.getRope().getInterleaved())));
  f.check(kvAppend(f.cache(op.getKv()), op.getLayer(), {latent, key}, f.seq(op.getSeq())));
  f.set(op.getResult(), f.held(op.getKv()));
}

/// Rows of the step's key blocks, which are those of its sequences in order.
template <typename T> static void eval(kernel::KvRowsOp op, Frame<T> &f) {
  const SeqMeta &seq = f.seq(op.getSeq());
  const Cache<T> &cache = f.cache(op.getKv());
  Array<T> out({0, reference::kPageTokens, cache.width()});
  for (int64_t s = 0; s < seq.seqs(); ++s) {
    Array<T> rows = f.take(gatherRows(cache, op.getLayer(), seq, s));
    int64_t blocks = (rows.dim(0) + reference::kPageTokens - 1) / reference::kPageTokens;
    rows.data.resize(size_t(blocks * reference::kPageTokens * cache.width()));
    out.shape[0] += blocks;
    out.data.insert(out.data.end(), rows.data.begin(), rows.data.end());
  }
  f.set(op.getResult(), hold<T>(std::move(out)));
}

template <typename T> static void eval(kernel::KvExpandOp op, Frame<T> &f) {
  ExpandedKeys<T> kv = f.take(expandKeys(f.cache(op.getKv()), op.getLayer(), f.numbers(op.getWK()),
                                         f.numbers(op.getWV()), f.seq(op.getSeq())));
  if (op.getKeyRows()) // the reference keeps its own order, which attn_prefill below reads
    f.set(op.getKeys(), hold<T>(f.rounded(elemOf(op.getKeys()), std::move(kv.keys))));
  else
    f.set(op.getKeys(), std::move(kv.keys));
  f.set(op.getValues(), std::move(kv.values));
}

template <typename T> static void eval(kernel::AttnPrefillOp op, Frame<T> &f) {
  auto expand = op.getKeys().template getDefiningOp<kernel::KvExpandOp>();
  if (!expand)
    return f.fail(unsupportedError("attn_prefill: expected keys of a kernel.kv_expand"));
  ExpandedKeys<T> kv{f.numbers(op.getKeys()), f.numbers(op.getValues())};
  f.set(op.getResult(), expandedAttention(f.numbers(op.getQ()), kv, f.seq(op.getSeq()),
                                          op.getScale().convertToDouble(), expand.getKv().getType().getRope()));
}

template <typename T> static void eval(kernel::AttnDecodeOp op, Frame<T> &f) {
  f.set(op.getResult(), latentAttention(f.numbers(op.getQLatent()), f.numbers(op.getQRope()), f.cache(op.getKv()),
                                        op.getLayer(), f.seq(op.getSeq()), op.getScale().convertToDouble()));
}

/// The reference cuts no sequence: nobody reads a plan, and there are no parts to join.
template <typename T> static void eval(kernel::AttnPlanOp, Frame<T> &) {}

template <typename T> static void eval(kernel::AttnSplitOp op, Frame<T> &f) {
  auto reader = op.getKv().getType().getScheme() ? reference::CacheReader::Codes : reference::CacheReader::Numbers;
  f.set(op.getResult(), latentAttention(f.numbers(op.getQLatent()), f.numbers(op.getQRope()), f.cache(op.getKv()),
                                        op.getLayer(), f.seq(op.getSeq()), op.getScale().convertToDouble(), reader));
}

template <typename T> static void eval(kernel::AttnCombineOp op, Frame<T> &f) { f.set(op.getResult(), f.numbers(op.getOut())); }

//===-- Mixture of experts ------------------------------------------------===//

template <typename T> static void eval(kernel::RouteOp op, Frame<T> &f) {
  RouteParams params{int64_t(op.getGroups()), int64_t(op.getKeep()), int64_t(op.getTop()), op.getNorm(),
                     op.getScale().convertToDouble()};
  Routing<T> r = f.take(route(f.numbers(op.getLogits()), f.numbers(op.getBias()), params));
  f.set(op.getIds(), Result<Ids>(std::move(r.ids)));
  f.set(op.getWeights(), std::move(r.weights));
}

/// Dispatches the row numbers instead of the rows: where they arrive is `token_of`.
template <typename T> static void eval(kernel::DispatchOp op, Frame<T> &f) {
  const Ids &ids = f.ids(op.getIds());
  Array<double> numbers({ids.present() ? ids.dim(0) : 0, 1});
  std::iota(numbers.data.begin(), numbers.data.end(), 0.0);
  int64_t experts = llvm::cast<mlir::RankedTensorType>(op.getOffsets().getType()).getDimSize(0) - 1;
  Dispatched<double> d = f.take(dispatch(numbers, ids, experts));
  f.set(op.getOffsets(), Result<Ids>(std::move(d.offsets)));
  f.set(op.getTokenOf(),
        Result<Ids>(Ids({d.rows.size()}, std::vector<int32_t>(d.rows.data.begin(), d.rows.data.end()))));
  f.set(op.getRowOf(), Result<Ids>(std::move(d.rowOf)));
}

template <typename T> static void eval(kernel::GatherOp op, Frame<T> &f) {
  f.set(op.getResult(), selectRows(f.numbers(op.getX()), f.ids(op.getTokenOf())));
}

template <typename T> static void eval(kernel::GroupedGatedGemmOp op, Frame<T> &f) {
  Array<T> gathered = op.getTokenOf() ? f.take(selectRows(f.numbers(op.getX()), f.ids(op.getTokenOf()))) : Array<T>();
  const Array<T> &rows = op.getTokenOf() ? gathered : f.numbers(op.getX());
  const Ids &offsets = f.ids(op.getOffsets());
  f.set(op.getResult(), gated(f, groupedLinear(rows, f.numbers(op.getWGate()), offsets),
                              groupedLinear(rows, f.numbers(op.getWUp()), offsets), op.getVia()));
}

template <typename T> static void eval(kernel::GroupedGemmOp op, Frame<T> &f) {
  f.set(op.getResult(), groupedLinear(f.numbers(op.getX()), f.numbers(op.getW()), f.ids(op.getOffsets())));
}

template <typename T> static void eval(kernel::CombineOp op, Frame<T> &f) {
  f.set(op.getResult(), combine(f.numbers(op.getRows()), f.ids(op.getRowOf()), f.numbers(op.getWeights()),
                                f.numbers(op.getPlus())));
}

template <typename T> bool evalKernel(mlir::Operation &op, Frame<T> &f) {
  return llvm::TypeSwitch<mlir::Operation *, bool>(&op)
      .template Case<kernel::EmptyOp, kernel::ViewOp, kernel::EmbedOp, kernel::NormOp, kernel::AddNormOp, kernel::AddNormQuantizeOp,
                     kernel::QuantizeOp, kernel::GemmOp, kernel::GatedGemmOp, kernel::BatchedGemmOp, kernel::AddOp, kernel::SwigluOp,
                     kernel::ConcatOp, kernel::SelectRowsOp, kernel::SampleOp, kernel::RopeOp, kernel::KvAppendOp, kernel::KvRowsOp, kernel::KvExpandOp,
                     kernel::AttnPrefillOp, kernel::AttnDecodeOp, kernel::AttnPlanOp, kernel::AttnSplitOp,
                     kernel::AttnCombineOp, kernel::RouteOp, kernel::DispatchOp, kernel::GatherOp,
                     kernel::GroupedGatedGemmOp, kernel::GroupedGemmOp, kernel::CombineOp>([&](auto typed) {
        eval(typed, f);
        return true;
      })
      .Default(false);
}

template bool evalKernel(mlir::Operation &, Frame<float> &);
template bool evalKernel(mlir::Operation &, Frame<double> &);

} // namespace dsv3::interpret
