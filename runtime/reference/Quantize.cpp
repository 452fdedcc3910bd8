#include "runtime/reference/Quantize.h"

#include <algorithm>
#include <cmath>

namespace dsv3::reference {

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The blocks of one shape under one scheme.
struct Grid {
  int64_t rows, cols;         // of one matrix
  int64_t blockRows, blockCols;
  int64_t gridRows, gridCols; // scales of one matrix
  Shape scaleShape;

  /// Index of the scale of element (r, c), r counting through all matrices.
  int64_t scaleOf(int64_t r, int64_t c) const {
    int64_t gridRow = r / rows * gridRows + r % rows / blockRows;
    return gridRow * gridCols + c / blockCols;
  }
};

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
  T limit = T(largest(storage));
  return std::clamp(std::nearbyint(scaled), -limit, limit);
}

} // namespace

double largest(QuantStorage storage) {
  switch (storage) {
  case QuantStorage::F8E4M3:
    return 448;
  case QuantStorage::I8:
    return 127;
  case QuantStorage::I4:
    return 7;
  }
  return 0;
}

template <typename T> Result<Quantized<T>> quantize(const Array<T> &x, const QuantScheme &scheme) {
  Result<Grid> grid = gridOf("quantize", x.shape, scheme);
  if (!grid)
    return grid.error();
  Quantized<T> q{Array<T>(x.shape), Array<T>(grid->scaleShape), scheme};
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c) {
      if (!std::isfinite(x.row(r)[c]))
        return usageError("quantize: expected finite values, got " +
                          std::to_string(x.row(r)[c]) + " in row " + std::to_string(r));
      T &absmax = q.scale.data[grid->scaleOf(r, c)];
      absmax = std::max(absmax, std::fabs(x.row(r)[c]));
    }
  for (T &scale : q.scale.data)
    scale = scaleFor(scale, scheme);
  for (int64_t r = 0; r < x.rows(); ++r)
    for (int64_t c = 0; c < x.cols(); ++c)
      q.data.row(r)[c] = store(x.row(r)[c] / q.scale.data[grid->scaleOf(r, c)], scheme.storage);
  return q;
}

template <typename T> Result<Array<T>> dequantize(const Quantized<T> &x) {
  Result<Grid> grid = gridOf("dequantize", x.data.shape, x.scheme);
  if (!grid)
    return grid.error();
  if (Status s = expectShape("dequantize", "scale", grid->scaleShape, x.scale.shape); !s)
    return s.error();
  Array<T> y(x.data.shape);
  for (int64_t r = 0; r < y.rows(); ++r)
    for (int64_t c = 0; c < y.cols(); ++c)
      y.row(r)[c] = x.data.row(r)[c] * x.scale.data[grid->scaleOf(r, c)];
  return y;
}

template Result<Quantized<float>> quantize(const Array<float> &, const QuantScheme &);
template Result<Quantized<double>> quantize(const Array<double> &, const QuantScheme &);
template Result<Array<float>> dequantize(const Quantized<float> &);
template Result<Array<double>> dequantize(const Quantized<double> &);

} // namespace dsv3::reference
