// Fragments: what changes which thread holds what. On logical values only the order of sums is left of that.
#include "passes/tile/sim/Machine.h"
#include "passes/tile/sim/Numbers.h"

#include <cmath>

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

FragValue make(RankedTensorType type, std::vector<double> data) {
  return {type.getShape().vec(), std::make_shared<const std::vector<double>>(std::move(data))};
}

FragValue fragment(Machine &m, Agent &agent, Value v) { return std::get<FragValue>(m.get(agent, v)); }

double combine(Combine kind, Type type, double a, double b) {
  switch (kind) {
  case Combine::Add: return rounded(type, a + b);
  case Combine::Max: return std::fmax(a, b);
  case Combine::Min: return std::fmin(a, b);
  }
  return a;
}

/// Neighbours first: the tree that a thread builds over its registers.
double tree(Combine kind, Type type, std::vector<double> values) {
  while (values.size() > 1) {
    std::vector<double> next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(combine(kind, type, values[i], values[i + 1]));
    if (values.size() % 2)
      next.push_back(values.back());
    values = std::move(next);
  }
  return values.front();
}

FragValue reduce(Machine &m, Agent &agent, ReduceOp op) {
  const FragValue source = fragment(m, agent, op.getSource());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const Type element = type.getElementType();
  const int64_t rows = source.shape[0], cols = source.shape[1];
  const bool fromQuad = getFrag(op.getSource().getType()).getKind() == FragKind::Quad;
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r) {
    double quad[4];
    for (int64_t q = 0; q < 4; ++q) {
      std::vector<double> own; // a thread's columns: 8j + 2q + i
      for (int64_t c = 0; c < cols; ++c)
        if (fromQuad ? c == q : (c / 2) % 4 == q)
          own.push_back((*source.data)[r * cols + c]);
      quad[q] = tree(op.getKind(), element, own);
    }
    if (getFrag(type).getKind() == FragKind::Quad)
      out.insert(out.end(), quad, quad + 4);
    else
      out.push_back(combine(op.getKind(), element, combine(op.getKind(), element, quad[0], quad[1]),
                            combine(op.getKind(), element, quad[2], quad[3])));
  }
  return make(type, std::move(out));
}

FragValue broadcast(Machine &m, Agent &agent, BcastOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  std::vector<double> out(product(type.getShape()));
  SimValue source = m.get(agent, op.getSource());
  const int64_t cols = type.getShape().back();
  for (int64_t i = 0; i < int64_t(out.size()); ++i) {
    if (auto *x = std::get_if<double>(&source)) {
      out[i] = *x;
      continue;
    }
    const bool perRow = getFrag(op.getSource().getType()).getKind() == FragKind::Row;
    out[i] = (*std::get<FragValue>(source).data)[perRow ? i / cols : i % cols];
  }
  return make(type, std::move(out));
}

FragValue iota(IotaOp op) {
  auto type = cast<RankedTensorType>(op.getResult().getType());
  std::vector<double> out;
  std::vector<int64_t> coord(type.getRank());
  do
    out.push_back(double(coord[op.getDim()]));
  while (step(coord, type.getShape()));
  return make(type, std::move(out));
}

FragValue slice(Machine &m, Agent &agent, SliceOp op) {
  const FragValue source = fragment(m, agent, op.getSource());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const int64_t from = m.number(agent, op.getCol()), rows = type.getShape()[0], cols = type.getShape()[1];
  std::vector<double> out;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c)
      out.push_back((*source.data)[r * source.shape[1] + from + c]);
  return make(type, std::move(out));
}

FragValue expand(Machine &m, Agent &agent, ExpandOp op) {
  const FragValue source = fragment(m, agent, op.getSource());
  const bool int4 = getElementTypeOrSelf(op.getSource().getType()).isInteger(4);
  std::vector<double> out = *source.data;
  const bool bytes = getElementTypeOrSelf(op.getResult().getType()).isInteger(8);
  for (double &x : out)
    x *= int4 && bytes ? 16 : 1;
  if (op.getZero()) {
    const FragValue zero = fragment(m, agent, op.getZero());
    for (size_t i = 0; i < out.size(); ++i)
      out[i] -= (*zero.data)[i / size_t(source.shape[1])];
  }
  return make(cast<RankedTensorType>(op.getResult().getType()), std::move(out));
}

/// Gives once, then waits for the others; the warps' order of additions.
Step reduceRows(Machine &m, Agent &agent, ReduceRowsOp op) {
  const unsigned over = unsigned(op.getOver());
  auto &meeting = m.rowReductions[{agent.role.getOperation(), agent.group / over, agent.rowReductions}];
  meeting.given.resize(over);
  if (agent.progress == 0) {
    meeting.given[agent.group % over] = fragment(m, agent, op.getSource());
    meeting.clock.join(agent.joined());
    agent.progress = 1;
  }
  if (llvm::any_of(meeting.given, [](auto &g) { return !g; })) {
    agent.waiting = "the other warpgroups of a reduction along rows";
    return Step::Blocked;
  }
  agent.learn(meeting.clock);
  ++agent.rowReductions;
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const Type element = type.getElementType();
  const int64_t cols = type.getDimSize(0);
  std::vector<double> out;
  for (int64_t c = 0; c < cols; ++c) {
    std::optional<double> all;
    for (auto &given : meeting.given)
      for (int64_t warp = 0; warp < 4; ++warp) {
        std::vector<double> rows; // neighbours of the tree: l / 4 and l / 4 + 8, then lanes xor 4, 8, 16
        for (int64_t lane = 0; lane < 8; ++lane)
          for (int64_t h = 0; h < 2; ++h)
            rows.push_back((*given->data)[size_t((16 * warp + lane + 8 * h) * cols + c)]);
        double one = tree(op.getKind(), element, rows);
        all = all ? combine(op.getKind(), element, *all, one) : one;
      }
    out.push_back(*all);
  }
  agent.values[op.getResult()] = make(type, std::move(out));
  return Step::Visible;
}

/// Ranks ascending; the columns of this block's rank, zeros where there are none.
FragValue clusterSum(Machine &m, Agent &agent, ClusterSumOp op) {
  const FragValue own = fragment(m, agent, op.getValue());
  auto type = cast<RankedTensorType>(op.getResult().getType());
  const size_t ranks = size_t(m.kernel.getCluster()), rank = size_t(m.cta) % ranks;
  std::vector<FragValue> &given = m.board->given[{agent.index, agent.clusterSums++}];
  given.resize(ranks);
  if (m.board->first)
    given[rank] = own;
  const int64_t rows = type.getDimSize(0), cols = type.getDimSize(1), first = cols * int64_t(rank), all = own.shape[1];
  std::vector<double> out(size_t(rows * cols), 0.0);
  if (m.board->first)
    return make(type, std::move(out));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols && first + c < all; ++c) {
      double sum = (*given[0].data)[size_t(r * all + first + c)];
      for (size_t i = 1; i < ranks; ++i)
        sum = rounded(type.getElementType(), sum + (*given[i].data)[size_t(r * all + first + c)]);
      out[size_t(r * cols + c)] = sum;
    }
  return make(type, std::move(out));
}

} // namespace

MaybeStep interpretFragment(Machine &m, Agent &agent, Operation *op) {
  auto finish = [&](SimValue value) -> MaybeStep {
    agent.values[op->getResult(0)] = std::move(value);
    return Step::Quiet;
  };
  if (auto o = dyn_cast<ReduceOp>(op))
    return finish(reduce(m, agent, o));
  if (auto o = dyn_cast<BcastOp>(op))
    return finish(broadcast(m, agent, o));
  if (auto o = dyn_cast<IotaOp>(op))
    return finish(iota(o));
  if (auto o = dyn_cast<SliceOp>(op))
    return finish(slice(m, agent, o));
  if (auto o = dyn_cast<ExpandOp>(op))
    return finish(expand(m, agent, o));
  if (auto o = dyn_cast<ReduceRowsOp>(op))
    return reduceRows(m, agent, o);
  if (auto o = dyn_cast<ClusterSumOp>(op))
    return finish(clusterSum(m, agent, o));
  if (auto o = dyn_cast<AnyOp>(op)) // of the warpgroup: what it guards changes nothing where the mask is false
    return finish(double(llvm::any_of(*fragment(m, agent, o.getMask()).data, [](double x) { return x != 0; })));
  if (isa<NoneOp>(op))
    return finish(NotYet());
  return std::nullopt;
}

} // namespace dsv3::tile::sim
