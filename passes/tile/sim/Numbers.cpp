#include "passes/tile/sim/Numbers.h"

#include "runtime/core/DType.h"
#include "runtime/reference/Rounding.h"

#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

unsigned widthOf(Type type) { return type.isIndex() ? 64 : type.getIntOrFloatBitWidth(); }

uint64_t loadBits(const uint8_t *base, int64_t bit, unsigned width) {
  if (width < 8) // no element crosses a byte
    return (base[bit / 8] >> (bit % 8)) & ((1u << width) - 1);
  uint64_t bits = 0;
  std::memcpy(&bits, base + bit / 8, width / 8);
  return bits;
}

void storeBits(uint64_t bits, uint8_t *base, int64_t bit, unsigned width) {
  if (width < 8) {
    const uint8_t mask = uint8_t(((1u << width) - 1) << (bit % 8));
    base[bit / 8] = uint8_t((base[bit / 8] & ~mask) | ((bits << (bit % 8)) & mask));
    return;
  }
  std::memcpy(base + bit / 8, &bits, width / 8);
}

double decodeFloat(Type type, uint64_t bits) {
  if (type.isF32())
    return floatFromBits(uint32_t(bits));
  if (type.isBF16())
    return bf16ToFloat(uint16_t(bits));
  if (type.isF16())
    return f16ToFloat(uint16_t(bits));
  if (isa<Float8E4M3FNType>(type))
    return e4m3ToFloat(uint8_t(bits));
  if (isa<Float8E5M2Type>(type))
    return e5m2ToFloat(uint8_t(bits));
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

uint64_t encodeFloat(Type type, double value) {
  if (type.isF32())
    return floatBits(float(value));
  if (type.isBF16())
    return floatToBf16(float(value));
  if (type.isF16())
    return floatToF16(float(value));
  if (isa<Float8E4M3FNType>(type))
    return floatToE4m3(float(value));
  if (isa<Float8E5M2Type>(type))
    return floatToE5m2(float(value));
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

} // namespace

double decode(Type type, const uint8_t *base, int64_t bit) {
  const unsigned width = widthOf(type);
  const uint64_t bits = loadBits(base, bit, width);
  return isa<FloatType>(type) ? decodeFloat(type, bits) : rounded(type, double(bits));
}

void encode(Type type, double value, uint8_t *base, int64_t bit) {
  const bool isFloat = isa<FloatType>(type);
  storeBits(isFloat ? encodeFloat(type, value) : asUnsigned(type, value), base, bit, widthOf(type));
}

double rounded(Type type, double value) {
  using reference::Rounding;
  if (type.isF32())
    return double(float(value));
  if (type.isBF16())
    return reference::roundTo(Rounding::BF16, value);
  if (type.isF16())
    return reference::roundTo(Rounding::F16, value);
  if (isa<Float8E4M3FNType>(type))
    return reference::roundTo(Rounding::F8E4M3, value);
  if (isa<Float8E5M2Type>(type))
    return reference::roundTo(Rounding::F8E5M2, value);
  if (isa<FloatType>(type))
    return value;
  if (type.isInteger(1))
    return value != 0;
  const unsigned width = widthOf(type);
  if (width >= 64)
    return value;
  const uint64_t bits = asUnsigned(type, value);
  const bool negative = (bits >> (width - 1)) & 1;
  return negative ? double(bits) - double(uint64_t(1) << width) : double(bits);
}

uint64_t asUnsigned(Type type, double value) {
  const unsigned width = widthOf(type);
  const auto bits = value >= 9223372036854775808.0 ? uint64_t(value) : uint64_t(int64_t(value));
  return width >= 64 ? bits : bits & ((uint64_t(1) << width) - 1);
}

/// `value` without the bits below those of `quantum`, a power of two.
static double cut(double value, double quantum) { return std::trunc(value / quantum) * quantum; }

double addFp8Products(double sum, const float *a, const float *b, int64_t count) {
  constexpr int kBits = 13;
  double largest = std::fabs(sum);
  for (int64_t k = 0; k < count; ++k)
    largest = std::max(largest, std::fabs(double(a[k]) * b[k]));
  if (largest == 0 || !std::isfinite(largest))
    return largest == 0 ? 0 : std::inner_product(a, a + count, b, sum); // infinities and NaN go on as such
  const double quantum = std::ldexp(1, std::ilogb(largest) - kBits);
  double total = cut(sum, quantum);
  for (int64_t k = 0; k < count; ++k)
    total += cut(double(a[k]) * b[k], quantum);
  return total == 0 ? 0 : cut(total, std::ldexp(1, std::ilogb(total) - kBits));
}

} // namespace dsv3::tile::sim
