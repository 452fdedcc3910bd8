#include "frontends/quantize/ScaleSearch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dsv3::quantize {

static float lowestCode(Code code) { return code == Code::I4 ? -8.0f : -127.0f; }

int integerCode(float x, float scale, Code code) {
  return int(std::clamp(std::nearbyint(x / scale), lowestCode(code), largest(code)));
}

static double errorOf(const float *w, const float *importance, int64_t n, float scale, Code code, double stop) {
  const float lowest = lowestCode(code), highest = largest(code);
  double sum = 0;
  for (int64_t k = 0; k < n && sum < stop; ++k) {
    // Adding 1.5 * 2^23 leaves no bits behind the point: nearest even, without a call per number.
    float q = (std::clamp(w[k] / scale, lowest, highest) + 0x1.8p23f) - 0x1.8p23f, off = w[k] - scale * q;
    sum += double((importance ? importance[k] : 1.0f) * off * off);
  }
  return sum;
}

float bestScale(const float *w, const float *importance, int64_t n, const Scheme &scheme) {
  constexpr int steps = 60; // of 1% each
  float most = 0;
  for (int64_t k = 0; k < n; ++k)
    most = std::max(most, std::fabs(w[k]));
  float best = 0;
  double lost = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= steps; ++i) {
    float scale = roundTo(scheme.scaleType, most * float(100 - i) / 100 / largest(scheme.code));
    if (scale == 0)
      break;
    if (double e = errorOf(w, importance, n, scale, scheme.code, lost); e < lost)
      lost = e, best = scale;
  }
  return best == 0 ? 1 : best;
}

QuantizedMatrix roundByImportance(const Matrix &w, const Vector &importance, const Scheme &scheme) {
  QuantizedMatrix out(scheme, w.rows(), w.cols());
  for (int64_t r = 0; r < w.rows(); ++r)
    for (int64_t k = 0; k < w.cols(); k += out.blockCols()) {
      const int64_t n = std::min(out.blockCols(), w.cols() - k);
      float scale = bestScale(&w(r, k), importance.size() ? importance.data() + k : nullptr, n, scheme);
      out.scales(r, k / out.blockCols()) = scale;
      for (int64_t i = k; i < k + n; ++i)
        out.row(r)[i] = uint8_t(int8_t(integerCode(w(r, i), scale, scheme.code)));
    }
  return out;
}

} // namespace dsv3::quantize
