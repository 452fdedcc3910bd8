#include "frontends/quantize/Gptq.h"

#include "frontends/quantize/ScaleSearch.h"

#include <Eigen/Cholesky>

#include <algorithm>
#include <numeric>

namespace dsv3::quantize {

namespace {

/// One matrix on its way. Columns stand in the order they are rounded in; `work` is transposed, so that a column is a row.
class Gptq {
public:
  Gptq(const Matrix &w, const Scheme &scheme, const Inputs &x, const GptqOptions &options)
      : scheme(scheme), options(options), cols(w.cols()), group(scheme.blockCols ? scheme.blockCols : w.cols()), importance(x.moment().diagonal()),
        out(scheme, w.rows(), w.cols()) {
    order.resize(size_t(cols));
    std::iota(order.begin(), order.end(), 0);
    if (options.activationOrder)
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) { return importance[a] > importance[b]; });
    work.resize(cols, w.rows());
    for (int64_t i = 0; i < cols; ++i)
      work.row(i) = w.col(order[size_t(i)]).transpose();
    factor(x.moment());
    if (options.activationOrder)
      for (int64_t k = 0; k < cols; k += group)
        findScales(k, std::min(group, cols - k), w);
  }

  QuantizedMatrix run() {
    for (int64_t begin = 0; begin < cols; begin += options.block) {
      int64_t n = std::min(options.block, cols - begin), rest = cols - begin - n;
      Matrix errors(n, out.rows);
      for (int64_t i = begin; i < begin + n; ++i)
        roundColumn(i, begin, n, errors);
      if (rest)
        work.bottomRows(rest).noalias() -= upper.block(begin, begin + n, n, rest).transpose() * errors;
    }
    return std::move(out);
  }

private:
  /// U, upper triangular, with U^T U the inverse of the damped Hessian. With P the reversal of columns and P H P = L L^T,
  /// U = P L^-1 P: one factorisation and one triangular solve.
  void factor(const Matrix &moment) {
    Matrix h(cols, cols);
    for (int64_t i = 0; i < cols; ++i)
      for (int64_t j = 0; j < cols; ++j)
        h(cols - 1 - i, cols - 1 - j) = moment(order[size_t(i)], order[size_t(j)]);
    const float mean = h.diagonal().mean();
    for (int64_t i = 0; i < cols; ++i)
      if (h(i, i) == 0)
        h(i, i) = mean > 0 ? mean : 1; // never seen: independent of all others
    Matrix lower;
    for (float damping = options.damping;; damping *= 10) { // float32 may need more than was asked for
      Matrix damped = h;
      damped.diagonal().array() += damping * (mean > 0 ? mean : 1);
      Eigen::LLT<Eigen::Ref<Matrix>> factors(damped);
      if (factors.info() != Eigen::Success)
        continue; // the damping grows until the diagonal dominates
      lower = Matrix::Identity(cols, cols);
      factors.matrixL().solveInPlace(lower);
      break;
    }
    upper = lower.reverse();
  }

  /// Scales of columns [k, k + n) from the matrix `w` [N, K] (in the columns' own order).
  void findScales(int64_t k, int64_t n, const Matrix &w) {
    for (int64_t r = 0; r < out.rows; ++r)
      out.scales(r, k / group) = bestScale(w.data() + r * cols + k, importance.data() + k, n, scheme);
  }

  /// Without an order of its own, a group starts where all columns before it are done.
  void startGroup(int64_t k) {
    int64_t n = std::min(group, cols - k);
    Matrix w = work.middleRows(k, n).transpose();
    for (int64_t r = 0; r < out.rows; ++r)
      out.scales(r, k / group) = bestScale(w.data() + r * n, importance.data() + k, n, scheme);
  }

  void roundColumn(int64_t i, int64_t begin, int64_t n, Matrix &errors) {
    const int64_t k = order[size_t(i)];
    if (!options.activationOrder && k % group == 0)
      startGroup(k);
    const float diagonal = upper(i, i);
    for (int64_t r = 0; r < out.rows; ++r) {
      float scale = out.scales(r, k / group);
      int code = integerCode(work(i, r), scale, scheme.code);
      out.row(r)[k] = uint8_t(int8_t(code));
      errors(i - begin, r) = (work(i, r) - float(code) * scale) / diagonal;
    }
    int64_t inside = begin + n - i - 1;
    if (inside)
      work.middleRows(i + 1, inside).noalias() -= upper.row(i).segment(i + 1, inside).transpose() * errors.row(i - begin);
  }

  const Scheme scheme;
  const GptqOptions options;
  const int64_t cols, group;
  Vector importance;
  std::vector<int64_t> order; ///< order[i]: the column that is rounded as number i
  Matrix work;                ///< [K, N]: what is left to store of each column
  Matrix upper;               ///< [K, K]
  QuantizedMatrix out;
};

} // namespace

QuantizedMatrix gptq(const Matrix &w, const Scheme &scheme, const Inputs &x, const GptqOptions &options) {
  GptqOptions fitted = options;
  // Without act_order a group must not straddle blocks: its scale needs columns that are up to date.
  if (!options.activationOrder)
    fitted.block = scheme.blockCols ? scheme.blockCols : w.cols();
  return Gptq(w, scheme, x, fitted).run();
}

} // namespace dsv3::quantize
