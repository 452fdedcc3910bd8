// Matrices of the algorithms that look at data.
//
// No MLIR here, and no kernel: an algorithm sees a matrix in float, a scheme, and perhaps the rows that will meet the matrix; it
// gives codes and scales.
#pragma once

#include "frontends/quantize/RoundToNearest.h"

#include <Eigen/Core>

#include <cstdint>
#include <vector>

namespace dsv3::quantize {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Vector = Eigen::VectorXf;

/// A matrix [N, K] in a scheme.
struct QuantizedMatrix {
  Scheme scheme;
  int64_t rows = 0, cols = 0;
  std::vector<uint8_t> codes; ///< [N, K], one byte each: E4M3, or signed; int4 from -8
  Matrix scales;              ///< [ceil(N / blockRows), ceil(K / blockCols)]

  QuantizedMatrix() = default;
  QuantizedMatrix(const Scheme &scheme, int64_t rows, int64_t cols);

  int64_t blockRows() const { return scheme.blockRows ? scheme.blockRows : rows; }
  int64_t blockCols() const { return scheme.blockCols ? scheme.blockCols : cols; }
  uint8_t *row(int64_t n) { return codes.data() + n * cols; }
  const uint8_t *row(int64_t n) const { return codes.data() + n * cols; }
};

/// Round to nearest (RoundToNearest.h). Errors as quantize()'s.
Result<QuantizedMatrix> roundToNearest(const Matrix &w, const Scheme &scheme, Clip clip);

Matrix dequantize(const QuantizedMatrix &matrix);

/// The share of codes at either end of the range: what a clip cut off, and with it.
double saturation(const QuantizedMatrix &matrix);

} // namespace dsv3::quantize
