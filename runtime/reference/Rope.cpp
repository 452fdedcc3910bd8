#include "runtime/reference/Rope.h"

#include <algorithm>
#include <cmath>

namespace dsv3::reference {

namespace {

constexpr double kPi = 3.14159265358979323846;

/// The (fractional) pair whose wave makes `rotations` turns in the original
/// context: theta^(2i/dims) = original / (2 pi rotations), solved for i.
double correctionDim(const RopeParams &p, double rotations) {
  return p.dims * std::log(p.original / (rotations * 2 * kPi)) / (2 * std::log(p.theta));
}

/// 0 for pairs that turn fast (kept), 1 for slow ones (interpolated).
float yarnRamp(const RopeParams &p, int64_t pair) {
  double low = std::max(std::floor(correctionDim(p, p.betaFast)), 0.0);
  double high = std::min(std::ceil(correctionDim(p, p.betaSlow)), double(p.dims - 1));
  if (low == high)
    high += 0.001; // a step, without dividing by zero
  return std::clamp((float(pair) - float(low)) / float(high - low), 0.0f, 1.0f);
}

} // namespace

RopeTable::CosSin RopeTable::at(int64_t position, int64_t pair) const {
  double angle = double(invFreq[pair]) * double(position);
  return {float(std::cos(angle)) * attentionFactor, float(std::sin(angle)) * attentionFactor};
}

double yarnMscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

Result<RopeTable> ropeTable(const RopeParams &p) {
  if (p.dims <= 0 || p.dims % 2)
    return usageError("rope: expected a positive even number of dims, got " +
                      std::to_string(p.dims));
  if (!(p.theta > 1))
    return usageError("rope: expected theta above 1, got " + std::to_string(p.theta));
  if (p.yarn && !(p.factor >= 1 && p.original > 0 && p.betaFast > 0 && p.betaSlow > 0))
    return usageError("rope: expected yarn factor >= 1 and positive original, beta_fast and "
                      "beta_slow, got factor " +
                      std::to_string(p.factor) + ", original " + std::to_string(p.original));
  RopeTable table;
  for (int64_t i = 0; i < p.dims / 2; ++i) {
    // Each step in float32, in transformers' order: the goldens hold these bits.
    float period = float(std::pow(p.theta, double(float(2 * i) / float(p.dims))));
    float kept = 1.0f / period;
    if (!p.yarn) {
      table.invFreq.push_back(kept);
      continue;
    }
    float interpolated = 1.0f / (float(p.factor) * period);
    float keep = 1.0f - yarnRamp(p, i);
    table.invFreq.push_back(interpolated * (1.0f - keep) + kept * keep);
  }
  if (p.yarn)
    table.attentionFactor =
        float(yarnMscale(p.factor, p.mscale) / yarnMscale(p.factor, p.mscaleAllDim));
  return table;
}

double softmaxScale(int64_t headDim, const RopeParams &p) {
  double m = p.yarn ? yarnMscale(p.factor, p.mscaleAllDim) : 1.0;
  return m * m / std::sqrt(double(headDim));
}

template <typename T>
Result<Array<T>> rope(const Array<T> &x, const Ids &positions, const RopeTable &table, int64_t at,
                      bool interleaved) {
  int64_t half = int64_t(table.invFreq.size()), dims = 2 * half;
  if (x.rank() < 2 || at < 0 || at + dims > x.cols())
    return usageError("rope: expected lanes " + std::to_string(at) + " to " +
                      std::to_string(at + dims) + " inside x, got shape " + toString(x.shape));
  if (Status s = expectShape("rope", "positions", {x.dim(0)}, positions.shape); !s)
    return s.error();
  Array<T> y = x;
  int64_t heads = x.dim(0) ? x.rows() / x.dim(0) : 0;
  for (int64_t r = 0; r < x.rows(); ++r) {
    int64_t position = positions.data[r / heads];
    if (position < 0)
      continue;
    T *lane = y.row(r) + at;
    for (int64_t i = 0; i < half; ++i) {
      T &a = interleaved ? lane[2 * i] : lane[i];
      T &b = interleaved ? lane[2 * i + 1] : lane[i + half];
      RopeTable::CosSin turn = table.at(position, i);
      T a0 = a, b0 = b;
      a = a0 * T(turn.cos) - b0 * T(turn.sin);
      b = a0 * T(turn.sin) + b0 * T(turn.cos);
    }
  }
  return y;
}

template Result<Array<float>> rope(const Array<float> &, const Ids &, const RopeTable &, int64_t,
                                   bool);
template Result<Array<double>> rope(const Array<double> &, const Ids &, const RopeTable &, int64_t,
                                    bool);

} // namespace dsv3::reference
