// Products of quantised operands.
#include "runtime/reference/QuantGrid.h"

#include <limits>
#include <set>

namespace dsv3::reference {

namespace {

/// Two operands and the pieces of K in which neither changes its scale.
struct Product {
  Grid x, w;
  std::vector<int64_t> ends; ///< of the pieces, ascending; the last is K

  int64_t pieces() const { return int64_t(ends.size()); }
  int64_t begin(int64_t piece) const { return piece ? ends[size_t(piece - 1)] : 0; }
};

template <typename T> Result<Product> productOf(const char *op, const Quantized<T> &x, const Quantized<T> &w) {
  Result<Grid> gx = checkedGrid(op, x), gw = checkedGrid(op, w);
  if (!gx || !gw)
    return gx ? gw.error() : gx.error();
  int64_t k = w.data.cols();
  if (Status s = expectShape(op, "w", {-1, k}, w.data.shape); !s)
    return s.error();
  if (Status s = expectShape(op, "x", {-1, k}, x.data.shape); !s)
    return s.error();
  std::set<int64_t> ends{k};
  for (int64_t block : {gx->blockCols, gw->blockCols})
    for (int64_t end = block; end < k; end += block)
      ends.insert(end);
  return Product{*gx, *gw, {ends.begin(), ends.end()}};
}

bool isInteger(const QuantScheme &scheme) { return !isFloat(scheme.storage); }

template <typename T> T zeroAt(const Quantized<T> &q, int64_t index) { return q.zero.present() ? q.zero.data[index] : T(0); }

} // namespace

template <typename T> Result<Array<int32_t>> integerProducts(const Quantized<T> &x, const Quantized<T> &w) {
  Result<Product> p = productOf("integer_products", x, w);
  if (!p)
    return p.error();
  if (!isInteger(x.scheme) || !isInteger(w.scheme))
    return usageError("integer_products: expected two operands of integers, got FP8");
  Array<int32_t> sums({x.data.rows(), w.data.rows(), p->pieces()});
  for (int64_t t = 0; t < x.data.rows(); ++t)
    for (int64_t n = 0; n < w.data.rows(); ++n)
      for (int64_t g = 0; g < p->pieces(); ++g) {
        int64_t first = p->begin(g), sum = 0;
        int64_t zx = int64_t(zeroAt(x, p->x.scaleOf(t, first))), zw = int64_t(zeroAt(w, p->w.scaleOf(n, first)));
        for (int64_t k = first; k < p->ends[size_t(g)]; ++k)
          sum += (int64_t(x.data.row(t)[k]) - zx) * (int64_t(w.data.row(n)[k]) - zw);
        if (sum != int64_t(int32_t(sum)))
          return usageError("integer_products: expected sums within int32, got " + std::to_string(sum) + " for row " +
                            std::to_string(t) + ", column " + std::to_string(n));
        sums.row(t * w.data.rows() + n)[g] = int32_t(sum);
      }
  return sums;
}

template <typename T> Result<Array<T>> quantizedLinear(const Quantized<T> &x, const Quantized<T> &w) {
  Result<Product> p = productOf("quantized_linear", x, w);
  if (!p)
    return p.error();
  Array<int32_t> sums;
  if (isInteger(x.scheme) && isInteger(w.scheme)) {
    Result<Array<int32_t>> integers = integerProducts(x, w);
    if (!integers)
      return integers.error();
    sums = std::move(*integers);
  }
  Array<T> y({x.data.rows(), w.data.rows()});
  for (int64_t t = 0; t < y.rows(); ++t)
    for (int64_t n = 0; n < y.cols(); ++n)
      for (int64_t g = 0; g < p->pieces(); ++g) {
        int64_t first = p->begin(g), sx = p->x.scaleOf(t, first), sw = p->w.scaleOf(n, first);
        T sum = 0;
        if (sums.present())
          sum = T(sums.row(t * y.cols() + n)[g]);
        for (int64_t k = first; !sums.present() && k < p->ends[size_t(g)]; ++k)
          sum += (x.data.row(t)[k] - zeroAt(x, sx)) * (w.data.row(n)[k] - zeroAt(w, sw));
        y.row(t)[n] += sum * (x.scale.data[sx] * w.scale.data[sw]);
      }
  return y;
}

template Result<Array<int32_t>> integerProducts(const Quantized<float> &, const Quantized<float> &);
template Result<Array<int32_t>> integerProducts(const Quantized<double> &, const Quantized<double> &);
template Result<Array<float>> quantizedLinear(const Quantized<float> &, const Quantized<float> &);
template Result<Array<double>> quantizedLinear(const Quantized<double> &, const Quantized<double> &);

} // namespace dsv3::reference
