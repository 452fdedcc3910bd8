// The blocks of one shape under one scheme. Internal to Quantize.cpp and QuantizedLinear.cpp.
#pragma once

#include "runtime/reference/Quantize.h"

namespace dsv3::reference {

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

/// Usage error: an empty array, or a negative block.
Result<Grid> gridOf(const char *op, const Shape &shape, const QuantScheme &scheme);

/// The grid of a quantised array. Usage error: scales or zero points of another shape, or missing or unexpected
/// zero points.
template <typename T> Result<Grid> checkedGrid(const char *op, const Quantized<T> &x) {
  Result<Grid> grid = gridOf(op, x.data.shape, x.scheme);
  if (!grid)
    return grid;
  if (Status s = expectShape(op, "scale", grid->scaleShape, x.scale.shape); !s)
    return s.error();
  if (Status s = expectShape(op, "zero", x.scheme.zeroPoints ? grid->scaleShape : Shape(), x.zero.shape); !s)
    return s.error();
  return grid;
}

} // namespace dsv3::reference
