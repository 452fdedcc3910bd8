#include "runtime/reference/Norm.h"
#include "runtime/reference/Linear.h"

#include <cmath>

namespace dsv3::reference {

template <typename T>
Result<Array<T>> rmsNorm(const Array<T> &x, const Array<T> &gamma, double eps) {
  if (Status s = expectShape("rms_norm", "gamma", {-1}, gamma.shape); !s)
    return s.error();
  int64_t dim = gamma.size();
  if (Status s = expectCols("rms_norm", "x", dim, x.shape); !s)
    return s.error();
  Array<T> y(x.shape);
  for (int64_t r = 0; r < x.rows(); ++r) {
    const T *in = x.row(r);
    T squares = 0;
    for (int64_t i = 0; i < dim; ++i)
      squares += in[i] * in[i];
    T scale = T(1) / std::sqrt(squares / T(dim) + T(eps));
    for (int64_t i = 0; i < dim; ++i)
      y.row(r)[i] = in[i] * scale * gamma.data[i];
  }
  return y;
}

template <typename T>
Result<NormResult<T>> rmsNorm(const Array<T> &x, const Array<T> &residual, const Array<T> &gamma,
                              double eps, Rounding sumType) {
  NormResult<T> result;
  if (residual.present()) {
    Result<Array<T>> sum = add(x, residual);
    if (!sum)
      return sum.error();
    result.sum = roundTo(sumType, std::move(*sum));
  }
  Result<Array<T>> y = rmsNorm(residual.present() ? result.sum : x, gamma, eps);
  if (!y)
    return y.error();
  result.y = std::move(*y);
  return result;
}

template <typename T> Result<Array<T>> swiglu(const Array<T> &gate, const Array<T> &up) {
  if (!gate.present())
    return usageError("swiglu: expected an array, got none");
  if (Status s = expectShape("swiglu", "up", gate.shape, up.shape); !s)
    return s.error();
  Array<T> y(gate.shape);
  for (int64_t i = 0; i < y.size(); ++i) {
    T g = gate.data[i];
    y.data[i] = g / (T(1) + std::exp(-g)) * up.data[i];
  }
  return y;
}

template <typename T> Result<Array<T>> swiglu(const Array<T> &gateUp) {
  int64_t half = gateUp.cols() / 2;
  Result<std::vector<Array<T>>> parts = split(gateUp, {half, half});
  if (!parts)
    return usageError("swiglu: expected an even last dimension of gate_up, got shape " +
                      toString(gateUp.shape));
  return swiglu((*parts)[0], (*parts)[1]);
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template Result<Array<T>> rmsNorm(const Array<T> &, const Array<T> &, double);                   \
  template Result<NormResult<T>> rmsNorm(const Array<T> &, const Array<T> &, const Array<T> &,     \
                                         double, Rounding);                                        \
  template Result<Array<T>> swiglu(const Array<T> &, const Array<T> &);                            \
  template Result<Array<T>> swiglu(const Array<T> &);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
