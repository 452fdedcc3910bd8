// What calibration saw: rows that a linear multiplies its weight with.
#pragma once

#include "frontends/quantize/Matrix.h"

#include <optional>

namespace dsv3::quantize {

/// x as a kernel would see it: quantised with the scales of `scheme`, which has blocks of one row, and back; none: as it is.
Matrix roundActivations(const Matrix &x, const std::optional<Scheme> &scheme);

/// Rows [T, K], and what algorithms ask of them, computed at the first question.
class Inputs {
public:
  explicit Inputs(Matrix rows) : x(std::move(rows)) {}

  int64_t tokens() const { return x.rows(); }
  int64_t channels() const { return x.cols(); }
  const Matrix &rows() const { return x; }

  /// X^T X / T [K, K], the Hessian of the squared output error up to a factor.
  const Matrix &moment() const;
  /// mean |x| and max |x| of each channel.
  Vector meanMagnitude() const;
  Vector maxMagnitude() const;

  /// The rows after their producer was divided by `factors` [K].
  Inputs dividedBy(const Vector &factors) const;

private:
  Matrix x;
  mutable std::optional<Matrix> second;
};

/// |X W^T - X' W'^T| / |X W^T|, Frobenius norms: the error of a linear's output when `x` becomes `xRounded` and `w` becomes
/// `wRounded`. 0 when there are no rows.
double outputError(const Matrix &x, const Matrix &w, const Matrix &xRounded, const Matrix &wRounded);

} // namespace dsv3::quantize
