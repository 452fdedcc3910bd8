#include "frontends/quantize/Linear.h"

#include "frontends/quantize/Gptq.h"
#include "frontends/quantize/ScaleSearch.h"

namespace dsv3::quantize {

/// By an algorithm that is not `Auto`, for rows as they will be stored.
static Result<QuantizedMatrix> quantizeBy(Algorithm algorithm, const Matrix &w, const Scheme &scheme, const Inputs *seen) {
  if (isCalibrated(algorithm) && !w.allFinite())
    return checkpointError("expected finite numbers to quantise");
  if (algorithm == Algorithm::Gptq)
    return gptq(w, scheme, *seen);
  if (algorithm == Algorithm::Awq)
    return roundByImportance(w, seen->moment().diagonal(), scheme);
  return roundToNearest(w, scheme, clipOf(algorithm, scheme.code));
}

/// Every eighth row, or all others.
static Matrix part(const Matrix &x, bool held) {
  const int64_t n = x.rows() / 8;
  Matrix out(held ? n : x.rows() - n, x.cols());
  int64_t at = 0;
  for (int64_t t = 0; t < x.rows(); ++t)
    if ((t % 8 == 7) == held)
      out.row(at++) = x.row(t);
  return out;
}

static Result<Algorithm> leastError(const Matrix &w, const Scheme &scheme, const Matrix &x, const Matrix &rounded) {
  Inputs seen(part(rounded, false));
  const Matrix heldPlain = part(x, true), held = part(rounded, true);
  Algorithm best = Algorithm::Default;
  double least = 0;
  for (Algorithm candidate : {Algorithm::Default, Algorithm::Awq, Algorithm::Gptq}) {
    Result<QuantizedMatrix> q = quantizeBy(candidate, w, scheme, &seen);
    if (!q)
      return q.error();
    double error = outputError(heldPlain, w, held, dequantize(*q));
    if (candidate == Algorithm::Default || error < least)
      best = candidate, least = error;
  }
  return best;
}

Result<Outcome> quantizeLinear(const Matrix &w, const Scheme &scheme, const std::optional<Scheme> &activation, const Inputs *x, Algorithm algorithm) {
  const bool rows = x && x->tokens() > 0;
  const bool known = scheme.code != Code::F8E4M3 && scheme.blockRows == 1;
  Outcome out;
  out.used = isCalibrated(algorithm) && (!known || !rows || x->tokens() < kFewestTokens) ? Algorithm::Default : algorithm;
  std::optional<Inputs> rounded;
  const Inputs *seen = x;
  if (rows && activation)
    seen = &rounded.emplace(roundActivations(x->rows(), activation));
  if (out.used == Algorithm::Auto) {
    Result<Algorithm> best = leastError(w, scheme, x->rows(), seen->rows());
    if (!best)
      return best.error();
    out.used = *best;
  }
  Result<QuantizedMatrix> matrix = quantizeBy(out.used, w, scheme, seen);
  if (!matrix)
    return matrix.error();
  out.matrix = std::move(*matrix);
  const Matrix stored = dequantize(out.matrix);
  const double norm = w.norm();
  out.weightError = norm > 0 ? (w - stored).norm() / norm : 0;
  if (rows)
    out.error = outputError(x->rows(), w, seen->rows(), stored);
  return out;
}

} // namespace dsv3::quantize
