// The mixture of experts: DeepSeek-V3's router (`noaux_tc`: no auxiliary loss,
// group-limited top-k; technical report, section 2.1.2) and the moving of rows
// to experts and back.
#pragma once

#include "runtime/reference/Quantize.h"

#include <optional>

namespace dsv3::reference {

struct RouteParams {
  int64_t groups = 8; ///< experts are cut into groups of equal size
  int64_t keep = 4;   ///< groups a token may use (topk_group)
  int64_t top = 8;    ///< experts per token
  bool norm = true;   ///< divide the weights by their sum + 1e-20
  double scale = 1;   ///< routed_scaling_factor
};

template <typename T> struct Routing {
  Ids ids;          ///< [T, top], best first; -1 in padded rows
  Array<T> weights; ///< [T, top]; 0 in padded rows
};

/// s = sigmoid(logits). Selection uses s + bias: a group scores the sum of its
/// two best biased scores, the `keep` best groups stay, and the `top` best
/// biased scores in them win; outside the kept groups a score is minus
/// infinity (the release's rule: transformers uses 0). Ties go to the lower
/// index. The weights are the unbiased s of the winners, normalised, scaled.
/// logits [T, E], bias [E]; rows from `activeRows` on (if >= 0) are padding.
/// The model's contract is T = float. Errors: E % groups != 0, groups of one
/// expert, keep > groups, keep * group size < top, NaN.
template <typename T>
Result<Routing<T>> route(const Array<T> &logits, const Array<T> &bias, const RouteParams &params,
                         int64_t activeRows = -1);

template <typename T> struct Dispatched {
  Array<T> rows; ///< [T * top, D], sorted by expert, then token; unused rows zero
  Ids offsets;   ///< [E + 1] rows of expert e: offsets[e] .. offsets[e+1]-1
  Ids rowOf;     ///< [T, top] row that holds token t for its k-th expert, or -1
};

/// Copies each token's row x[t] once per expert in ids [T, top]; within an
/// expert tokens keep their order. Ids of -1 make no row.
template <typename T>
Result<Dispatched<T>> dispatch(const Array<T> &x, const Ids &ids, int64_t experts);

/// y[t] = sum over k ascending of weights[t, k] * rows[rowOf[t, k]], then
/// + plus[t]: rows [R, D], rowOf and weights [T, top], plus [T, D] or absent.
template <typename T>
Result<Array<T>> combine(const Array<T> &rows, const Ids &rowOf, const Array<T> &weights,
                         const Array<T> &plus = {});

/// The types of the values between the parts of `routedExperts`.
struct RoutedVia {
  Rounding gateUp = Rounding::Exact, act = Rounding::Exact, down = Rounding::Exact;
  std::optional<QuantScheme> actScheme; ///< act is rounded, then encoded
};

/// route, dispatch, grouped gate|up, SwiGLU, grouped down, combine: x [T, D],
/// logits [T, E], bias [E], wGateUp [E, 2F, D] (gate rows, then up rows), wDown
/// [E, D, F], plus [T, D] or absent -> [T, D]. The weight of an expert applies
/// in the combine. Equal bit for bit to the calls written out.
template <typename T>
Result<Array<T>> routedExperts(const Array<T> &x, const Array<T> &logits, const Array<T> &bias,
                               const Array<T> &wGateUp, const Array<T> &wDown,
                               const Array<T> &plus, const RouteParams &params,
                               const RoutedVia &via = {}, int64_t activeRows = -1);

} // namespace dsv3::reference
