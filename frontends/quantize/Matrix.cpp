#include "frontends/quantize/Matrix.h"

namespace dsv3::quantize {

static int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

QuantizedMatrix::QuantizedMatrix(const Scheme &scheme, int64_t rows, int64_t cols)
    : scheme(scheme), rows(rows), cols(cols), codes(size_t(rows * cols)), scales(ceilDiv(rows, blockRows()), ceilDiv(cols, blockCols())) {}

Result<QuantizedMatrix> roundToNearest(const Matrix &w, const Scheme &scheme, Clip clip) {
  Result<Quantized> rounded = quantize(w.data(), w.rows(), w.cols(), scheme, clip);
  if (!rounded)
    return rounded.error();
  QuantizedMatrix out(scheme, w.rows(), w.cols());
  out.codes = std::move(rounded->codes);
  std::copy(rounded->scales.begin(), rounded->scales.end(), out.scales.data());
  return out;
}

Matrix dequantize(const QuantizedMatrix &m) {
  Matrix out(m.rows, m.cols);
  for (int64_t n = 0; n < m.rows; ++n)
    for (int64_t k = 0; k < m.cols; ++k)
      out(n, k) = decode(m.row(n)[k], m.scales(n / m.blockRows(), k / m.blockCols()), m.scheme.code);
  return out;
}

double saturation(const QuantizedMatrix &m) {
  const bool fp8 = m.scheme.code == Code::F8E4M3;
  const int most = int(largest(m.scheme.code));
  int64_t ends = 0;
  for (uint8_t code : m.codes)
    ends += fp8 ? (code & 0x7f) == 0x7e : int8_t(code) >= most || int8_t(code) <= -most;
  return m.codes.empty() ? 0 : double(ends) / double(m.codes.size());
}

} // namespace dsv3::quantize
