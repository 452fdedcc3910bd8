// Element types of stored tensors and the exact conversions between them and float.
//
// Every encoder rounds to nearest, ties to even. The bit tricks rely on the default
// rounding mode and on IEEE float arithmetic (no -ffast-math).
#pragma once

#include "runtime/core/Result.h"

#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string_view>

namespace dsv3 {

enum class DType : uint8_t { F64, F32, BF16, F16, F8E4M3, F8E5M2, I64, I32, I16, I8, U8, BOOL };

/// Bytes of one element.
constexpr size_t byteSize(DType t) {
  switch (t) {
  case DType::F64:
  case DType::I64: return 8;
  case DType::F32:
  case DType::I32: return 4;
  case DType::BF16:
  case DType::F16:
  case DType::I16: return 2;
  default: return 1;
  }
}

/// Any floating point type, the 8-bit ones included.
constexpr bool isFloat(DType t) { return t <= DType::F8E5M2; }

/// E4M3 or E5M2: a type that means nothing without its scale.
constexpr bool isFp8(DType t) { return t == DType::F8E4M3 || t == DType::F8E5M2; }

/// The name safetensors uses: "BF16", "F8_E4M3", ...
std::string_view safetensorsName(DType t);

/// The inverse; nullopt for a name this project does not know.
std::optional<DType> dtypeFromSafetensors(std::string_view name);

inline uint32_t floatBits(float x) {
  uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}

inline float floatFromBits(uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

// ---- bfloat16: the upper half of a float -----------------------------------------

inline float bf16ToFloat(uint16_t v) { return floatFromBits(uint32_t(v) << 16); }

inline uint16_t floatToBf16(float x) {
  uint32_t u = floatBits(x);
  if ((u & 0x7fffffffu) > 0x7f800000u) // rounding could carry a NaN into infinity
    return uint16_t((u >> 16) | 0x40);
  return uint16_t((u + 0x7fffu + ((u >> 16) & 1)) >> 16);
}

namespace detail {

/// Rounds |x| of a float to a small float format whose smallest normal is 2^minExp with
/// `mantissa` stored bits. The result has no sign and may exceed the largest finite
/// code: the caller compares before the call.
template <int mantissa, int minExp> inline uint32_t encodeMagnitude(uint32_t magnitude) {
  constexpr int drop = 23 - mantissa;
  constexpr uint32_t smallestNormal = uint32_t(minExp + 127) << 23;
  if (magnitude < smallestNormal) {
    // One unit in the last place of 2^(minExp + drop) is the subnormal step, so the
    // addition itself rounds to the step.
    float magic = floatFromBits(uint32_t(minExp + drop + 127) << 23);
    return floatBits(floatFromBits(magnitude) + magic) - floatBits(magic);
  }
  uint32_t rounded = magnitude + ((1u << (drop - 1)) - 1) + ((magnitude >> drop) & 1);
  return (rounded >> drop) - (uint32_t(minExp + 126) << mantissa);
}

/// Decodes a small float format with IEEE-like subnormals; special codes are the
/// caller's. `code` has no sign bit.
template <int mantissa, int minExp> inline float decodeMagnitude(uint32_t code) {
  if (code < (1u << mantissa)) // subnormal: an integer multiple of the step
    return float(code) * floatFromBits(uint32_t(minExp - mantissa + 127) << 23);
  return floatFromBits((code << (23 - mantissa)) + (uint32_t(minExp + 126) << 23));
}

} // namespace detail

// ---- float16 ---------------------------------------------------------------------

inline float f16ToFloat(uint16_t v) {
  uint32_t sign = uint32_t(v & 0x8000u) << 16, code = v & 0x7fffu;
  if (code >= 0x7c00u) // infinity, or a NaN with its payload
    return floatFromBits(sign | 0x7f800000u | ((code & 0x3ffu) << 13));
  return floatFromBits(sign | floatBits(detail::decodeMagnitude<10, -14>(code)));
}

/// Overflow gives infinity, as IEEE asks.
inline uint16_t floatToF16(float x) {
  uint32_t u = floatBits(x), magnitude = u & 0x7fffffffu;
  uint16_t sign = uint16_t((u >> 16) & 0x8000u);
  if (magnitude > 0x7f800000u)
    return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  if (magnitude >= 0x477ff000u) // 65520: half way from the largest finite value up
    return uint16_t(sign | 0x7c00u);
  return uint16_t(sign | detail::encodeMagnitude<10, -14>(magnitude));
}

// ---- float8 E4M3 (the "FN" flavour: no infinity, 0x7f and 0xff are NaN) ------------

inline constexpr float e4m3Max = 448.0f;

inline float e4m3ToFloat(uint8_t v) {
  uint32_t sign = uint32_t(v & 0x80u) << 24, code = v & 0x7fu;
  if (code == 0x7f)
    return floatFromBits(sign | 0x7fc00000u);
  return floatFromBits(sign | floatBits(detail::decodeMagnitude<3, -6>(code)));
}

/// Saturates: values beyond 448, infinities too, give +-448. Only NaN gives NaN.
inline uint8_t floatToE4m3(float x) {
  uint32_t u = floatBits(x), magnitude = u & 0x7fffffffu;
  uint8_t sign = uint8_t((u >> 24) & 0x80u);
  if (magnitude > 0x7f800000u)
    return uint8_t(sign | 0x7fu);
  if (magnitude >= 0x43e00000u) // 448
    return uint8_t(sign | 0x7eu);
  return uint8_t(sign | detail::encodeMagnitude<3, -6>(magnitude));
}

// ---- float8 E5M2 (IEEE-like: infinity is 0x7c) -------------------------------------

inline float e5m2ToFloat(uint8_t v) { return f16ToFloat(uint16_t(v << 8)); }

/// Overflow gives infinity.
inline uint8_t floatToE5m2(float x) {
  uint32_t u = floatBits(x), magnitude = u & 0x7fffffffu;
  uint8_t sign = uint8_t((u >> 24) & 0x80u);
  if (magnitude > 0x7f800000u)
    return uint8_t(sign | 0x7fu);
  if (magnitude >= 0x47700000u) // 61440: half way from the largest finite value up
    return uint8_t(sign | 0x7cu);
  return uint8_t(sign | detail::encodeMagnitude<2, -14>(magnitude));
}

// ---- by run-time type --------------------------------------------------------------

/// The float nearest to `x` that `t` can hold. `t` must be a floating point type.
inline float roundTo(DType t, float x) {
  assert(isFloat(t) && "rounding is defined for floating point types");
  switch (t) {
  case DType::BF16: return bf16ToFloat(floatToBf16(x));
  case DType::F16: return f16ToFloat(floatToF16(x));
  case DType::F8E4M3: return e4m3ToFloat(floatToE4m3(x));
  case DType::F8E5M2: return e5m2ToFloat(floatToE5m2(x));
  default: return x;
  }
}

/// Element `i` of an array of `t`, which may be unaligned. Integers convert by value.
inline float loadAsFloat(DType t, const void *base, size_t i) {
  const auto *p = static_cast<const unsigned char *>(base) + i * byteSize(t);
  auto as = [p](auto value) {
    std::memcpy(&value, p, sizeof value);
    return value;
  };
  switch (t) {
  case DType::F64: return float(as(double()));
  case DType::F32: return as(float());
  case DType::BF16: return bf16ToFloat(as(uint16_t()));
  case DType::F16: return f16ToFloat(as(uint16_t()));
  case DType::F8E4M3: return e4m3ToFloat(*p);
  case DType::F8E5M2: return e5m2ToFloat(*p);
  case DType::I64: return float(as(int64_t()));
  case DType::I32: return float(as(int32_t()));
  case DType::I16: return float(as(int16_t()));
  case DType::I8: return float(as(int8_t()));
  case DType::U8: return float(*p);
  case DType::BOOL: return *p ? 1.0f : 0.0f;
  }
  return 0;
}

/// Converts `n` elements of `t` (which may be unaligned) to float.
void convertToFloat(DType t, const void *src, size_t n, float *dst);

/// Converts `n` floats to the floating point type `t`.
void convertFromFloat(DType t, const float *src, size_t n, void *dst);

} // namespace dsv3
