#include "runtime/core/DType.h"

#include <array>
#include <utility>

namespace dsv3 {

static constexpr std::array<std::pair<DType, std::string_view>, 12> names = {{
    {DType::F64, "F64"},
    {DType::F32, "F32"},
    {DType::BF16, "BF16"},
    {DType::F16, "F16"},
    {DType::F8E4M3, "F8_E4M3"},
    {DType::F8E5M2, "F8_E5M2"},
    {DType::I64, "I64"},
    {DType::I32, "I32"},
    {DType::I16, "I16"},
    {DType::I8, "I8"},
    {DType::U8, "U8"},
    {DType::BOOL, "BOOL"},
}};

std::string_view safetensorsName(DType t) { return names[size_t(t)].second; }

std::optional<DType> dtypeFromSafetensors(std::string_view name) {
  for (const auto &[type, text] : names)
    if (text == name)
      return type;
  return std::nullopt;
}

void convertToFloat(DType t, const void *src, size_t n, float *dst) {
  switch (t) { // the common types get loops of their own, which the compiler vectorises
  case DType::F32:
    std::memcpy(dst, src, n * sizeof(float));
    return;
  case DType::BF16:
    for (size_t i = 0; i < n; ++i)
      dst[i] = loadAsFloat(DType::BF16, src, i);
    return;
  case DType::F8E4M3: {
    std::array<float, 256> table;
    for (int code = 0; code < 256; ++code)
      table[size_t(code)] = e4m3ToFloat(uint8_t(code));
    for (size_t i = 0; i < n; ++i)
      dst[i] = table[static_cast<const uint8_t *>(src)[i]];
    return;
  }
  default:
    for (size_t i = 0; i < n; ++i)
      dst[i] = loadAsFloat(t, src, i);
  }
}

template <typename T, typename Encode>
static void encodeAll(const float *src, size_t n, void *dst, Encode encode) {
  auto *out = static_cast<unsigned char *>(dst);
  for (size_t i = 0; i < n; ++i) {
    T value = encode(src[i]);
    std::memcpy(out + i * sizeof(T), &value, sizeof(T));
  }
}

void convertFromFloat(DType t, const float *src, size_t n, void *dst) {
  switch (t) {
  case DType::F64: return encodeAll<double>(src, n, dst, [](float x) { return double(x); });
  case DType::F32: return void(std::memcpy(dst, src, n * sizeof(float)));
  case DType::BF16: return encodeAll<uint16_t>(src, n, dst, floatToBf16);
  case DType::F16: return encodeAll<uint16_t>(src, n, dst, floatToF16);
  case DType::F8E4M3: return encodeAll<uint8_t>(src, n, dst, floatToE4m3);
  case DType::F8E5M2: return encodeAll<uint8_t>(src, n, dst, floatToE5m2);
  default: assert(false && "floats are converted to floating point types only");
  }
}

} // namespace dsv3
