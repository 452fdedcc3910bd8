// Rows of activations in codes, as a launch reads and writes them.
#pragma once

#include "test/codegen/x86/Harness.h"

#include "runtime/core/DType.h"
#include "runtime/reference/Quantize.h"

#include <cstring>

namespace dsv3::codegen::test {

using QuantizedRows = reference::Quantized<float>;

inline Array<float> narrowed(const Array<double> &x) { return Array<float>(x.shape, std::vector<float>(x.data.begin(), x.data.end())); }

/// One scale per row and `group` values (0: the whole row).
inline QuantizedRows quantized(const Array<double> &x, reference::QuantStorage storage, int64_t group, bool pow2 = false) {
  reference::QuantScheme scheme;
  scheme.storage = storage, scheme.blockRows = 1, scheme.blockCols = group, scheme.powerOfTwo = pow2;
  return *reference::quantize(narrowed(x), scheme);
}

/// The type of a value in that scheme: "tensor<160x88xbf16, #dsv3.blocked<i8, 1x?, f32>>".
inline std::string codesText(Shape shape, Elem elem, reference::QuantStorage storage, int64_t group, bool pow2 = false) {
  std::string text = tensorText(shape, elem);
  return text.substr(0, text.size() - 1) + ", #dsv3.blocked<" + (storage == reference::QuantStorage::I8 ? "i8" : "f8E4M3FN") + ", 1x" +
         (group ? std::to_string(group) : "?") + ", f32" + (pow2 ? ", pow2_scale" : "") + ">>";
}

/// Bytes before the scales of `capacity` rows.
inline int64_t scalesAt(const QuantizedRows &q, int64_t capacity) { return (capacity * q.data.cols() + 255) / 256 * 256; }

/// Codes, then scales where the capacity of rows puts them. What belongs to no row is 0xff.
inline Buffer bufferOf(const QuantizedRows &q, int64_t capacity) {
  Buffer b(scalesAt(q, capacity) + capacity * q.scale.cols() * 4);
  auto *bytes = static_cast<uint8_t *>(b.data());
  for (int64_t i = 0; i < q.data.size(); ++i) {
    float v = q.data.data[size_t(i)];
    bytes[i] = q.scheme.storage == reference::QuantStorage::I8 ? uint8_t(int8_t(v)) : floatToE4m3(v);
  }
  std::memcpy(bytes + scalesAt(q, capacity), q.scale.data.data(), q.scale.data.size() * 4);
  return b;
}

/// Matrix `entry` of a weight in codes, of `bits` 8, 4 or 0 for E4M3, for the reference.
inline QuantizedRows matrixOf(const Weight &w, int64_t entry, int bits, int64_t group) {
  int64_t k = w.values.cols(), n = w.values.dim(w.values.shape.size() - 2), step = group ? group : k;
  QuantizedRows q{Array<float>({n, k}), Array<float>({n, (k + step - 1) / step}), {}};
  q.scheme.storage = bits == 8   ? reference::QuantStorage::I8
                     : bits == 4 ? reference::QuantStorage::I4
                                 : reference::QuantStorage::F8E4M3;
  q.scheme.blockRows = 1, q.scheme.blockCols = group;
  for (int64_t i = 0; i < n * k; ++i) {
    size_t at = size_t(entry * n * k + i);
    q.data.data[size_t(i)] = bits ? float(int8_t(w.codes[at])) : e4m3ToFloat(w.codes[at]);
    q.scale.row(i / k)[i % k / step] = float(w.scales.data[at]);
  }
  return q;
}

/// Rows `index` of x.
inline QuantizedRows rowsOf(const QuantizedRows &x, const std::vector<int32_t> &index) {
  QuantizedRows q{Array<float>({int64_t(index.size()), x.data.cols()}), Array<float>({int64_t(index.size()), x.scale.cols()}), x.scheme};
  for (size_t r = 0; r < index.size(); ++r) {
    std::copy_n(x.data.row(index[r]), x.data.cols(), q.data.row(int64_t(r)));
    std::copy_n(x.scale.row(index[r]), x.scale.cols(), q.scale.row(int64_t(r)));
  }
  return q;
}

} // namespace dsv3::codegen::test
