#include "frontends/quantize/Smoothing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dsv3::quantize {

Vector smoothQuantFactors(const std::vector<Reader> &readers, float alpha) {
  const int64_t channels = readers.front().w.cols();
  Vector x = Vector::Zero(channels), w = Vector::Zero(channels);
  for (const Reader &r : readers)
    if (r.weight && r.x->tokens()) {
      x = x.cwiseMax(r.x->maxMagnitude());
      w = w.cwiseMax(Vector(r.w.cwiseAbs().colwise().maxCoeff()));
    }
  Vector s(channels);
  for (int64_t k = 0; k < channels; ++k)
    s[k] = x[k] > 0 && w[k] > 0 ? std::pow(x[k], alpha) / std::pow(w[k], 1 - alpha) : 1.0f;
  return s;
}

/// tr(D M D^T): the squared error of outputs that differ by D for inputs of second moment M.
static double energy(const Matrix &d, const Matrix &moment) { return double((d * moment).cwiseProduct(d).sum()); }

double smoothedError(const Reader &r, const Vector &s) {
  if (!r.weight || !r.x->tokens())
    return 0;
  const bool scaled = s.size() > 0;
  Matrix w = scaled ? Matrix(r.w.array().rowwise() * s.transpose().array()) : r.w;
  Result<QuantizedMatrix> q = roundToNearest(w, *r.weight, Clip::Absmax);
  if (!q)
    return std::numeric_limits<double>::infinity();
  Matrix stored = dequantize(*q);
  if (!r.activation) {
    if (scaled)
      stored = Matrix(stored.array().rowwise() / s.transpose().array());
    const Matrix &moment = r.x->moment();
    return energy(r.w - stored, moment) / std::max(energy(r.w, moment), 1e-30);
  }
  Matrix x = r.x->rows().topRows(std::min<int64_t>(r.x->tokens(), 512));
  Matrix divided = scaled ? Matrix(x.array().rowwise() / s.transpose().array()) : x;
  double e = outputError(x, r.w, roundActivations(divided, r.activation), stored);
  return e * e;
}

Vector awqFactors(const std::vector<Reader> &readers) {
  constexpr int steps = 20;
  const int64_t channels = readers.front().w.cols();
  Vector magnitude = Vector::Zero(channels), best;
  int64_t rows = 0;
  for (const Reader &r : readers)
    if (r.weight && r.x->tokens()) {
      magnitude += r.x->meanMagnitude() * float(r.x->tokens());
      rows += r.x->tokens();
    }
  if (!rows)
    return Vector::Ones(channels);
  magnitude /= float(rows);
  const float floor = std::max(magnitude.maxCoeff() * 1e-4f, 1e-30f);
  double least = std::numeric_limits<double>::infinity();
  for (int step = 0; step <= steps; ++step) {
    Vector s = magnitude.cwiseMax(floor).array().pow(float(step) / steps);
    s /= std::sqrt(s.maxCoeff() * s.minCoeff());
    double error = 0;
    for (const Reader &r : readers)
      error += smoothedError(r, s);
    if (error < least)
      least = error, best = s;
  }
  return best;
}

} // namespace dsv3::quantize
