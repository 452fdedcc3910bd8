#include "tools/dsv3-bench/CodesAttention.h"

#include <algorithm>
#include <cmath>

namespace dsv3::bench {

/// Sum of products of codes as Hopper's tensor cores have it: of 32 products and the sum before them each is cut to 13 bits
/// below the largest, whatever the accumulator's format (DeepSeek-V3, arXiv 2412.19437, section 3.3.2, reports about 14 bits).
static double codesDot(const double *a, const double *b, int64_t n) {
  constexpr int64_t step = 32;
  double sum = 0;
  for (int64_t from = 0; from < n; from += step) {
    double largest = std::abs(sum);
    for (int64_t i = from; i < std::min(n, from + step); ++i)
      largest = std::max(largest, std::abs(a[i] * b[i]));
    if (largest == 0)
      continue;
    const double unit = std::ldexp(1.0, std::ilogb(largest) - 13);
    double units = std::trunc(sum / unit);
    for (int64_t i = from; i < std::min(n, from + step); ++i)
      units += std::trunc(a[i] * b[i] / unit);
    sum = units * unit;
  }
  return sum;
}

/// Divides by the scale that makes `most` of the largest number, and returns it.
static double toCodes(double *row, int64_t n, double most) {
  double largest = 0;
  for (int64_t i = 0; i < n; ++i)
    largest = std::max(largest, std::abs(row[i]));
  const double scale = largest > 0 ? largest / most : 1;
  for (int64_t i = 0; i < n; ++i)
    row[i] /= scale;
  return scale;
}

std::vector<double> codesAttention(DType codes, std::vector<double> q, const std::vector<double> &rope, const reference::Cache<double> &cache,
                                   int64_t context, double scale) {
  const auto latent = int64_t(q.size());
  const double qScale = toCodes(q.data(), latent, 448);
  std::vector<double> scores, out(q.size(), 0.0);
  for (int64_t j = 0; j < context; ++j) {
    const double *row = cache.row(0, j / reference::kPageTokens, j % reference::kPageTokens);
    std::vector<double> key(row, row + latent);
    const double keyScale = toCodes(key.data(), latent, codes == DType::F8E5M2 ? 57344 : 448);
    double score = codesDot(q.data(), key.data(), latent) * qScale * keyScale;
    for (size_t i = 0; i < rope.size(); ++i)
      score += rope[i] * row[latent + int64_t(i)];
    scores.push_back(score * scale);
  }
  const double most = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (int64_t j = 0; j < context; ++j) {
    const double *row = cache.row(0, j / reference::kPageTokens, j % reference::kPageTokens), p = std::exp(scores[size_t(j)] - most);
    sum += p;
    for (int64_t i = 0; i < latent; ++i)
      out[size_t(i)] += p * row[i];
  }
  for (double &x : out)
    x /= sum;
  return out;
}

} // namespace dsv3::bench
