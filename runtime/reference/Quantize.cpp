#include "runtime/reference/QuantGrid.h"

#include <algorithm>
#include <cmath>

namespace dsv3::reference {

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

Result<Grid> gridOf(const char *op, const Shape &shape, const QuantScheme &scheme) {
  if (shape.empty() || numElements(shape) == 0)
    return usageError(std::string(op) + ": expected a non-empty array, got shape " +
                      toString(shape));
  if (scheme.blockRows < 0 || scheme.blockCols < 0)
    return usageError(std::string(op) + ": expected a block of positive size, got " +
                      std::to_string(scheme.blockRows) + "x" + std::to_string(scheme.blockCols));
  Grid g;
  g.cols = shape.back();
  g.rows = shape.size() < 2 ? 1 : shape[shape.size() - 2];
  g.blockRows = scheme.blockRows ? scheme.blockRows : g.rows;
  g.blockCols = scheme.blockCols ? scheme.blockCols : g.cols;
  g.gridRows = ceilDiv(g.rows, g.blockRows);
  g.gridCols = ceilDiv(g.cols, g.blockCols);
  g.scaleShape = shape;
  g.scaleShape.back() = g.gridCols;
  if (shape.size() >= 2)
    g.scaleShape[shape.size() - 2] = g.gridRows;
  return g;
}

namespace {

template <typename T> T scaleFor(T absmax, const QuantScheme &scheme) {
  if (absmax == 0)
    return T(1);
  T scale = roundTo(scheme.scaleType, absmax / T(largest(scheme.storage)));
  if (scheme.powerOfTwo) {
    int exponent;
    T mantissa = std::frexp(scale, &exponent); // in [0.5, 1)
    return std::ldexp(T(1), mantissa == T(0.5) ? exponent - 1 : exponent);
  }
  // absmax can be so small that the scale underflows: then nothing but zeros
  // can be stored, and 1 keeps the division defined.
  return scale == 0 ? T(1) : scale;
}

template <typename T> T store(T scaled, QuantStorage storage) {
  if (storage == QuantStorage::F8E4M3)
    return roundTo(Rounding::F8E4M3, scaled);
  if (storage == QuantStorage::F8E5M2)
    return roundTo(Rounding::F8E5M2, scaled);
  T limit = T(largest(storage));
  return std::clamp(std::nearbyint(scaled), -limit, limit);
}

} // namespace

/// The scale of a block of numbers, tried out.
template <typename T> static T searchScale(const std::vector<T> &block, T absmax, const QuantScheme &scheme) {
  auto error = [&](T scale) {
    double sum = 0;
    for (T x : block) {
      double difference = double(x) - double(store(x / scale, scheme.storage) * scale);
      sum += difference * difference;
    }
    return sum;
  };
  T best = scaleFor(absmax, scheme);
  double least = error(best);
  for (int i = 1; i <= 30 && absmax != 0; ++i) {
    T scale = scaleFor(absmax * (T(50 - i) / T(50)), scheme);
    if (double now = error(scale); now < least)
      best = scale, least = now;
  }
  return best;
}

double largest(QuantStorage storage) {
  switch (storage) {
  case QuantStorage::F8E4M3:
    return 448;
  case QuantStorage::F8E5M2:
    return 57344;
  case QuantStorage::I8:
    return 127;
  case QuantStorage::I4:
    return 7;
  }
  return 0;
}

/// Scales and zero points from the range of each block, which holds 0: `low` becomes the smallest code.
template <typename T> static void placeZeros(Quantized<T> &q, const Array<T> &low, const Array<T> &high) {
  const T smallest = -(T(largest(q.scheme.storage)) + 1), steps = 2 * T(largest(q.scheme.storage)) + 1;
  q.zero = Array<T>(q.scale.shape);
  for (int64_t i = 0; i < q.scale.size(); ++i) {
    T scale = roundTo(q.scheme.scaleType, (high.data[i] - low.data[i]) / steps);
    q.scale.data[i] = scale == 0 ? T(1) : scale;
    q.zero.data[i] = std::clamp(std::nearbyint(smallest - low.data[i] / q.scale.data[i]), smallest, -smallest - 1);
  }
}

template <typename T> static Status findScales(const Array<T> &x, const Grid &grid, Quantized<T> &q) {
  Array<T> low(q.scale.shape), high(q.scale.shape);
  std::vector<std::vector<T>> blocks(q.scheme.searched ? size_t(q.scale.size()) : 0);
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) {
      T value = x.row(r)[c];
      if (!std::isfinite(value))
        return usageError("quantize: expected finite values, got " + std::to_string(value) + " in row " +
                          std::to_string(r));
      int64_t block = grid.scaleOf(r, c);
      low.data[block] = std::min(low.data[block], value);
      high.data[block] = std::max(high.data[block], value);
      if (q.scheme.searched)
        blocks[size_t(block)].push_back(value);
    }
  if (q.scheme.zeroPoints)
    placeZeros(q, low, high);
  else
    for (int64_t i = 0; i < q.scale.size(); ++i) {
      T absmax = std::max(-low.data[i], high.data[i]);
      q.scale.data[i] = q.scheme.searched ? searchScale(blocks[size_t(i)], absmax, q.scheme) : scaleFor(absmax, q.scheme);
    }
  return {};
}

template <typename T> Result<Quantized<T>> quantize(const Array<T> &x, const QuantScheme &scheme) {
  Result<Grid> grid = gridOf("quantize", x.shape, scheme);
  if (!grid)
    return grid.error();
  if (scheme.zeroPoints && (isFloat(scheme.storage) || scheme.powerOfTwo))
    return usageError("quantize: expected integers with free scales for zero points");
  Quantized<T> q{Array<T>(x.shape), Array<T>(grid->scaleShape), scheme};
  if (Status s = findScales(x, *grid, q); !s)
    return s.error();
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) {
      int64_t block = grid->scaleOf(r, c);
      T scaled = x.row(r)[c] / q.scale.data[block];
      const T limit = T(largest(scheme.storage));
      q.data.row(r)[c] = scheme.zeroPoints ? std::clamp(std::nearbyint(scaled) + q.zero.data[block], -limit - 1, limit)
                                           : store(scaled, scheme.storage);
    }
  return q;
}

template <typename T> Result<Array<T>> dequantize(const Quantized<T> &x) {
  Result<Grid> grid = checkedGrid("dequantize", x);
  if (!grid)
    return grid.error();
  Array<T> y(x.data.shape);
  for (int64_t r = 0; r < y.rows(); ++r)
    for (int64_t c = 0; c < y.cols(); ++c) {
      int64_t block = grid->scaleOf(r, c);
      T zero = x.zero.present() ? x.zero.data[block] : T(0);
      y.row(r)[c] = (x.data.row(r)[c] - zero) * x.scale.data[block];
    }
  return y;
}

template Result<Quantized<float>> quantize(const Array<float> &, const QuantScheme &);
template Result<Quantized<double>> quantize(const Array<double> &, const QuantScheme &);
template Result<Array<float>> dequantize(const Quantized<float> &);
template Result<Array<double>> dequantize(const Quantized<double> &);

} // namespace dsv3::reference
