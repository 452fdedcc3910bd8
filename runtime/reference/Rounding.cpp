#include "runtime/reference/Rounding.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dsv3::reference {

namespace {

struct Format {
  int precision;      // significant bits with the hidden one
  int minExponent;    // of the smallest normal number
  double largest;     // finite
  bool saturates;
};

Format formatOf(Rounding kind) {
  switch (kind) {
  case Rounding::BF16:
    return {8, -126, std::ldexp(255.0, 120), false};
  case Rounding::F16:
    return {11, -14, 65504.0, false};
  case Rounding::F8E4M3:
    return {4, -6, 448.0, true};
  case Rounding::F8E5M2:
    return {3, -14, 57344.0, true};
  case Rounding::F32:
  case Rounding::Exact:
    break;
  }
  return {24, -126, std::numeric_limits<float>::max(), false};
}

double roundToFormat(const Format &f, double x) {
  if (x == 0 || std::isnan(x))
    return x;
  if (std::isinf(x))
    return f.saturates ? std::copysign(f.largest, x) : x;
  int exponent = std::ilogb(x);
  // The unit in the last place stops shrinking at the smallest normal number:
  // below it lie the subnormals.
  int ulp = std::max(exponent, f.minExponent) - (f.precision - 1);
  double rounded = std::ldexp(std::nearbyint(std::ldexp(x, -ulp)), ulp);
  if (std::fabs(rounded) <= f.largest)
    return rounded;
  return std::copysign(f.saturates ? f.largest : std::numeric_limits<double>::infinity(), x);
}

} // namespace

template <typename T> T roundTo(Rounding kind, T value) {
  if (kind == Rounding::Exact)
    return value;
  return static_cast<T>(roundToFormat(formatOf(kind), static_cast<double>(value)));
}

template <typename T> Array<T> &roundTo(Rounding kind, Array<T> &values) {
  if (kind == Rounding::Exact || (kind == Rounding::F32 && sizeof(T) == sizeof(float)))
    return values;
  Format format = formatOf(kind);
  for (T &v : values.data)
    v = static_cast<T>(roundToFormat(format, static_cast<double>(v)));
  return values;
}

const char *toString(Rounding kind) {
  switch (kind) {
  case Rounding::Exact:
    return "exact";
  case Rounding::F32:
    return "f32";
  case Rounding::BF16:
    return "bf16";
  case Rounding::F16:
    return "f16";
  case Rounding::F8E4M3:
    return "f8E4M3FN";
  case Rounding::F8E5M2:
    return "f8E5M2";
  }
  return "?";
}

template float roundTo(Rounding, float);
template double roundTo(Rounding, double);
template Array<float> &roundTo(Rounding, Array<float> &);
template Array<double> &roundTo(Rounding, Array<double> &);

} // namespace dsv3::reference
