#include "frontends/quantize/Inputs.h"

#include <algorithm>
#include <cmath>

namespace dsv3::quantize {

Matrix roundActivations(const Matrix &x, const std::optional<Scheme> &scheme) {
  if (!scheme || !x.size())
    return x;
  const int64_t group = scheme->blockCols ? scheme->blockCols : x.cols();
  std::vector<uint8_t> codes(static_cast<size_t>(group));
  Matrix out(x.rows(), x.cols());
  for (int64_t t = 0; t < x.rows(); ++t)
    for (int64_t k = 0; k < x.cols(); k += group) {
      int64_t n = std::min(group, x.cols() - k);
      float scale = findScale(&x(t, k), size_t(n), *scheme, Clip::Absmax);
      encode(&x(t, k), size_t(n), scale, scheme->code, codes.data());
      for (int64_t i = 0; i < n; ++i)
        out(t, k + i) = decode(codes[size_t(i)], scale, scheme->code);
    }
  return out;
}

const Matrix &Inputs::moment() const {
  if (!second) {
    Matrix sum = Matrix::Zero(x.cols(), x.cols());
    sum.selfadjointView<Eigen::Lower>().rankUpdate(x.transpose(), 1.0f / float(std::max<int64_t>(1, x.rows())));
    second = sum.selfadjointView<Eigen::Lower>();
  }
  return *second;
}

Vector Inputs::meanMagnitude() const { return x.rows() ? Vector(x.cwiseAbs().colwise().mean()) : Vector(Vector::Zero(x.cols())); }

Vector Inputs::maxMagnitude() const { return x.rows() ? Vector(x.cwiseAbs().colwise().maxCoeff()) : Vector(Vector::Zero(x.cols())); }

Inputs Inputs::dividedBy(const Vector &factors) const {
  return Inputs(x.array().rowwise() / factors.transpose().array());
}

double outputError(const Matrix &x, const Matrix &w, const Matrix &xRounded, const Matrix &wRounded) {
  double lost = 0, whole = 0;
  constexpr int64_t rows = 1024; // at a time: outputs of a wide linear need not exist all at once
  for (int64_t t = 0; t < x.rows(); t += rows) {
    int64_t n = std::min(rows, x.rows() - t);
    Matrix y = x.middleRows(t, n) * w.transpose();
    whole += double(y.squaredNorm());
    y.noalias() -= xRounded.middleRows(t, n) * wRounded.transpose();
    lost += double(y.squaredNorm());
  }
  return whole > 0 ? std::sqrt(lost / whole) : 0;
}

} // namespace dsv3::quantize
