#include "runtime/reference/Moe.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Norm.h"

#include <algorithm>
#include <cmath>

namespace dsv3::reference {

namespace {

/// Indices of the `count` largest values, best first; ties to the lower index.
template <typename T> std::vector<int64_t> best(const std::vector<T> &values, int64_t count) {
  std::vector<int64_t> order(values.size());
  std::iota(order.begin(), order.end(), int64_t{0});
  std::sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  });
  order.resize(count);
  return order;
}

Status verifyRoute(const RouteParams &p, int64_t experts) {
  auto fail = [](std::string m) -> Status { return usageError("route: expected " + m); };
  if (p.groups <= 0 || experts % p.groups)
    return fail("experts divisible by groups, got " + std::to_string(experts) + " experts in " +
                std::to_string(p.groups) + " groups");
  int64_t size = experts / p.groups;
  if (size < 2)
    return fail("groups of at least 2 experts, got " + std::to_string(size));
  if (p.keep < 1 || p.keep > p.groups)
    return fail("1 to " + std::to_string(p.groups) + " kept groups, got " +
                std::to_string(p.keep));
  if (p.top < 1 || p.keep * size < p.top)
    return fail("1 to " + std::to_string(p.keep * size) + " experts per token, got " +
                std::to_string(p.top));
  return {};
}

/// The experts that win by biased score, best first.
template <typename T>
std::vector<int64_t> select(const std::vector<T> &biased, const RouteParams &p) {
  int64_t size = int64_t(biased.size()) / p.groups;
  std::vector<T> groupScore(p.groups);
  for (int64_t g = 0; g < p.groups; ++g) {
    std::vector<T> members(biased.begin() + g * size, biased.begin() + (g + 1) * size);
    std::vector<int64_t> two = best(members, 2);
    groupScore[g] = members[two[0]] + members[two[1]];
  }
  // Only kept groups compete. Ascending ids keep the tie rule of `best`.
  std::vector<int64_t> kept = best(groupScore, p.keep), candidates;
  std::sort(kept.begin(), kept.end());
  std::vector<T> scores;
  for (int64_t g : kept)
    for (int64_t e = g * size; e < (g + 1) * size; ++e) {
      candidates.push_back(e);
      scores.push_back(biased[e]);
    }
  std::vector<int64_t> winners = best(scores, p.top);
  for (int64_t &w : winners)
    w = candidates[w];
  return winners;
}

} // namespace

template <typename T>
Result<Routing<T>> route(const Array<T> &logits, const Array<T> &bias, const RouteParams &p,
                         int64_t activeRows) {
  if (Status s = expectShape("route", "logits", {-1, -1}, logits.shape); !s)
    return s.error();
  int64_t tokens = logits.dim(0), experts = logits.dim(1);
  if (Status s = expectShape("route", "bias", {experts}, bias.shape); !s)
    return s.error();
  if (Status s = verifyRoute(p, experts); !s)
    return s.error();
  Routing<T> r{Ids({tokens, p.top}), Array<T>({tokens, p.top})};
  std::fill(r.ids.data.begin(), r.ids.data.end(), -1);
  int64_t active = activeRows < 0 ? tokens : std::min(activeRows, tokens);
  for (int64_t t = 0; t < active; ++t) {
    std::vector<T> score(experts), biased(experts);
    for (int64_t e = 0; e < experts; ++e) {
      score[e] = T(1) / (T(1) + std::exp(-logits.row(t)[e]));
      biased[e] = score[e] + bias.data[e];
      if (std::isnan(biased[e])) // it has no place in an order
        return usageError("route: expected numbers, got nan for expert " + std::to_string(e) +
                          " of row " + std::to_string(t));
    }
    std::vector<int64_t> winners = select(biased, p);
    T sum = 0;
    for (int64_t e : winners)
      sum += score[e];
    for (int64_t k = 0; k < p.top; ++k) {
      T weight = score[winners[k]];
      if (p.norm)
        weight /= sum + T(1e-20);
      r.ids.row(t)[k] = int32_t(winners[k]);
      r.weights.row(t)[k] = weight * T(p.scale);
    }
  }
  return r;
}

template <typename T>
Result<Dispatched<T>> dispatch(const Array<T> &x, const Ids &ids, int64_t experts) {
  if (Status s = expectShape("dispatch", "x", {-1, -1}, x.shape); !s)
    return s.error();
  if (Status s = expectShape("dispatch", "ids", {x.dim(0), -1}, ids.shape); !s)
    return s.error();
  for (int32_t id : ids.data)
    if (id < -1 || id >= experts)
      return usageError("dispatch: expected expert ids below " + std::to_string(experts) +
                        ", got " + std::to_string(id));
  Dispatched<T> d{Array<T>({ids.size(), x.cols()}), Ids({experts + 1}), Ids(ids.shape)};
  std::fill(d.rowOf.data.begin(), d.rowOf.data.end(), -1);
  int32_t next = 0;
  for (int64_t e = 0; e < experts; ++e) {
    d.offsets.data[e] = next;
    for (int64_t i = 0; i < ids.size(); ++i) // token-major, so tokens stay in order
      if (ids.data[i] == e) {
        std::copy_n(x.row(i / ids.cols()), x.cols(), d.rows.row(next));
        d.rowOf.data[i] = next++;
      }
  }
  d.offsets.data[experts] = next;
  return d;
}

template <typename T>
Result<Array<T>> combine(const Array<T> &rows, const Ids &rowOf, const Array<T> &weights,
                         const Array<T> &plus) {
  if (Status s = expectShape("combine", "rows", {-1, -1}, rows.shape); !s)
    return s.error();
  if (Status s = expectShape("combine", "row_of", {-1, -1}, rowOf.shape); !s)
    return s.error();
  if (Status s = expectShape("combine", "weights", rowOf.shape, weights.shape); !s)
    return s.error();
  Array<T> y({rowOf.dim(0), rows.cols()});
  if (plus.present())
    if (Status s = expectShape("combine", "plus", y.shape, plus.shape); !s)
      return s.error();
  for (int64_t t = 0; t < y.dim(0); ++t) {
    for (int64_t k = 0; k < rowOf.cols(); ++k) {
      int64_t r = rowOf.row(t)[k];
      if (r < -1 || r >= rows.dim(0))
        return usageError("combine: expected rows below " + std::to_string(rows.dim(0)) +
                          ", got " + std::to_string(r));
      for (int64_t i = 0; r >= 0 && i < y.cols(); ++i)
        y.row(t)[i] += weights.row(t)[k] * rows.row(r)[i];
    }
    for (int64_t i = 0; plus.present() && i < y.cols(); ++i)
      y.row(t)[i] += plus.row(t)[i];
  }
  return y;
}

template <typename T>
Result<Array<T>> routedExperts(const Array<T> &x, const Array<T> &logits, const Array<T> &bias,
                               const Array<T> &wGateUp, const Array<T> &wDown,
                               const Array<T> &plus, const RouteParams &params,
                               const RoutedVia &via, int64_t activeRows) {
  Chain chain;
  Routing<T> routing = chain(route(logits, bias, params, activeRows));
  Dispatched<T> d = chain(dispatch(x, routing.ids, logits.cols()));
  Array<T> gateUp = roundTo(via.gateUp, chain(groupedLinear(d.rows, wGateUp, d.offsets)));
  Array<T> act = roundTo(via.act, chain(swiglu(gateUp)));
  if (via.actScheme)
    act = chain(dequantize(chain(quantize(act, *via.actScheme)))); // multiplied as stored
  Array<T> down = roundTo(via.down, chain(groupedLinear(act, wDown, d.offsets)));
  Array<T> y = chain(combine(down, d.rowOf, routing.weights, plus));
  if (chain.failed())
    return chain.error();
  return y;
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template Result<Routing<T>> route(const Array<T> &, const Array<T> &, const RouteParams &,       \
                                    int64_t);                                                      \
  template Result<Dispatched<T>> dispatch(const Array<T> &, const Ids &, int64_t);                 \
  template Result<Array<T>> combine(const Array<T> &, const Ids &, const Array<T> &,               \
                                    const Array<T> &);                                             \
  template Result<Array<T>> routedExperts(const Array<T> &, const Array<T> &, const Array<T> &,    \
                                          const Array<T> &, const Array<T> &, const Array<T> &,    \
                                          const RouteParams &, const RoutedVia &, int64_t);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
