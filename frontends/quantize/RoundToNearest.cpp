#include "frontends/quantize/RoundToNearest.h"

#include <algorithm>

namespace dsv3::quantize {

std::string Scheme::text() const {
  std::string out = code == Code::F8E4M3 ? "fp8" : code == Code::I8 ? "int8" : "int4";
  if (!blockRows && !blockCols)
    return out + " per tensor";
  if (blockRows == 1)
    return out + (blockCols ? " in groups of " + std::to_string(blockCols) : " per channel");
  auto size = [](int64_t block) { return block ? std::to_string(block) : "?"; };
  return out + " in blocks of " + size(blockRows) + "x" + size(blockCols);
}

float largest(Code code) { return code == Code::F8E4M3 ? 448.0f : code == Code::I8 ? 127.0f : 7.0f; }

/// What a scale becomes when it is stored.
static float storedScale(float scale, const Scheme &scheme) {
  scale = roundTo(scheme.scaleType, scale);
  if (scheme.powerOfTwo) {
    int exponent;
    float mantissa = std::frexp(scale, &exponent); // in [0.5, 1)
    scale = std::ldexp(1.0f, mantissa == 0.5f ? exponent - 1 : exponent);
  }
  return scale == 0 ? 1.0f : scale;
}

static float absmaxOf(const float *x, size_t n) {
  float most = 0;
  for (size_t i = 0; i < n; ++i)
    most = std::max(most, std::fabs(x[i]));
  return most;
}

template <Code kind> static uint8_t encodeOne(float x, float scale) {
  float limit = kind == Code::I8 ? 127.0f : 7.0f, scaled = x / scale;
  if (kind == Code::F8E4M3)
    return floatToE4m3(std::clamp(scaled, -448.0f, 448.0f));
  // Adding 1.5 * 2^23 leaves no bits behind the point: nearest even, without a call of the C library per number.
  return uint8_t(int8_t((std::clamp(scaled, -limit, limit) + 0x1.8p23f) - 0x1.8p23f));
}

template <Code kind> static double squaredError(const float *x, size_t n, float scale) {
  double sum = 0;
  for (size_t i = 0; i < n; ++i) {
    double error = double(x[i]) - double(decode(encodeOne<kind>(x[i], scale), scale, kind));
    sum += error * error;
  }
  return sum;
}

static double squaredError(const float *x, size_t n, float scale, Code kind) {
  switch (kind) {
  case Code::F8E4M3: return squaredError<Code::F8E4M3>(x, n, scale);
  case Code::I8: return squaredError<Code::I8>(x, n, scale);
  case Code::I4: return squaredError<Code::I4>(x, n, scale);
  }
  return 0;
}

float findScale(const float *x, size_t n, const Scheme &scheme, Clip clip) {
  constexpr int kSteps = 30; // of 2% each
  float most = absmaxOf(x, n);
  if (most == 0)
    return 1.0f;
  float best = storedScale(most / largest(scheme.code), scheme);
  if (clip == Clip::Absmax)
    return best;
  double least = squaredError(x, n, best, scheme.code);
  for (int step = 1; step <= kSteps; ++step) {
    float scale = storedScale(most * (float(50 - step) / 50.0f) / largest(scheme.code), scheme);
    double error = squaredError(x, n, scale, scheme.code);
    if (error < least)
      best = scale, least = error;
  }
  return best;
}

Status checkScale(float scale, const Scheme &scheme, int64_t row) {
  if (std::isfinite(scale))
    return {};
  return checkpointError("expected numbers whose scales fit " + std::string(safetensorsName(scheme.scaleType)) + ", got larger ones in row " + std::to_string(row));
}

void encode(const float *x, size_t n, float scale, Code code, uint8_t *out) {
  switch (code) {
  case Code::F8E4M3: std::transform(x, x + n, out, [=](float v) { return encodeOne<Code::F8E4M3>(v, scale); }); break;
  case Code::I8: std::transform(x, x + n, out, [=](float v) { return encodeOne<Code::I8>(v, scale); }); break;
  case Code::I4: std::transform(x, x + n, out, [=](float v) { return encodeOne<Code::I4>(v, scale); }); break;
  }
}

float decode(uint8_t code, float scale, Code kind) { return (kind == Code::F8E4M3 ? e4m3ToFloat(code) : float(int8_t(code))) * scale; }

Result<Quantized> quantize(const float *x, int64_t rows, int64_t cols, const Scheme &scheme, Clip clip) {
  const int64_t blockRows = scheme.blockRows ? scheme.blockRows : rows, blockCols = scheme.blockCols ? scheme.blockCols : cols;
  for (int64_t i = 0; i < rows * cols; ++i)
    if (!std::isfinite(x[i]))
      return checkpointError("expected finite numbers to quantise, got " + std::string(std::isnan(x[i]) ? "NaN" : "infinity") + " in row " +
                             std::to_string(i / cols) + ", column " + std::to_string(i % cols));
  Quantized out;
  out.codes.resize(size_t(rows * cols));
  std::vector<float> block;
  for (int64_t r = 0; r < rows; r += blockRows)
    for (int64_t c = 0; c < cols; c += blockCols) {
      const int64_t height = std::min(blockRows, rows - r), width = std::min(blockCols, cols - c);
      block.clear();
      for (int64_t i = 0; i < height; ++i)
        block.insert(block.end(), x + (r + i) * cols + c, x + (r + i) * cols + c + width);
      out.scales.push_back(findScale(block.data(), block.size(), scheme, clip));
      if (Status s = checkScale(out.scales.back(), scheme, r); !s)
        return s.error();
      for (int64_t i = 0; i < height; ++i)
        encode(x + (r + i) * cols + c, size_t(width), out.scales.back(), scheme.code, out.codes.data() + (r + i) * cols + c);
    }
  return out;
}

} // namespace dsv3::quantize
