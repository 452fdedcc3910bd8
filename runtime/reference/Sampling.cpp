#include "runtime/reference/Sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dsv3::reference {

std::array<uint32_t, 4> philox4x32(std::array<uint32_t, 4> c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t{0xD2511F53} * c[0], p1 = uint64_t{0xCD9E8D57} * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1],
         uint32_t(p0)};
    k[0] += 0x9E3779B9; // golden ratio
    k[1] += 0xBB67AE85; // sqrt(3) - 1
  }
  return c;
}

double sampleUniform(uint64_t seed, uint64_t request, uint64_t position) {
  std::array<uint32_t, 4> words =
      philox4x32({uint32_t(position), uint32_t(position >> 32), uint32_t(request),
                  uint32_t(request >> 32)},
                 {uint32_t(seed), uint32_t(seed >> 32)});
  uint64_t bits = (uint64_t{words[0]} << 21) | (words[1] >> 11);
  return double(bits) * 0x1p-53;
}

template <typename T> static Status verifyLogits(const char *op, const Array<T> &logits) {
  if (logits.rank() != 1 || logits.size() == 0)
    return usageError(std::string(op) + ": expected logits of shape [?], got " +
                      toString(logits.shape));
  bool anyFinite = false;
  for (int64_t i = 0; i < logits.size(); ++i) {
    T v = logits.data[i];
    if (std::isnan(v) || v == std::numeric_limits<T>::infinity())
      return usageError(std::string(op) + ": expected numbers below infinity, got " +
                        std::to_string(v) + " at id " + std::to_string(i));
    anyFinite |= std::isfinite(v);
  }
  if (!anyFinite)
    return usageError(std::string(op) + ": expected a finite logit, got none");
  return {};
}

template <typename T> Result<int32_t> greedy(const Array<T> &logits) {
  if (Status s = verifyLogits("greedy", logits); !s)
    return s.error();
  // max_element returns the first of equals: the lower id.
  return int32_t(std::max_element(logits.data.begin(), logits.data.end()) - logits.data.begin());
}

template <typename T> Result<Array<T>> logSoftmax(const Array<T> &logits) {
  if (!logits.present() || logits.size() == 0)
    return usageError("log_softmax: expected a non-empty array, got shape " +
                      toString(logits.shape));
  Array<T> y(logits.shape);
  for (int64_t r = 0; r < y.rows(); ++r) {
    const T *in = logits.row(r);
    T peak = *std::max_element(in, in + y.cols()), sum = 0;
    for (int64_t i = 0; i < y.cols(); ++i)
      sum += std::exp(in[i] - peak);
    for (int64_t i = 0; i < y.cols(); ++i)
      y.row(r)[i] = in[i] - peak - std::log(sum);
  }
  return y;
}

static Status verifyParams(const SamplingParams &p) {
  auto fail = [](const char *want, double got) -> Status {
    return usageError(std::string("sample: expected ") + want + ", got " + std::to_string(got));
  };
  if (!(p.temperature >= 0 && std::isfinite(p.temperature)))
    return fail("temperature of at least 0", p.temperature);
  if (p.topK < 0)
    return fail("top_k of at least 0", double(p.topK));
  if (!(p.topP > 0 && p.topP <= 1))
    return fail("top_p above 0 and at most 1", p.topP);
  if (!(p.minP >= 0 && p.minP <= 1))
    return fail("min_p from 0 to 1", p.minP);
  if (!(p.repetitionPenalty > 0 && std::isfinite(p.repetitionPenalty)))
    return fail("repetition_penalty above 0", p.repetitionPenalty);
  if (!std::isfinite(p.presencePenalty) || !std::isfinite(p.frequencyPenalty))
    return fail("finite penalties", p.presencePenalty + p.frequencyPenalty);
  return {};
}

/// Softmax over the finite logits; minus infinity is a removed token.
template <typename T> static std::vector<T> probabilities(const std::vector<T> &logits) {
  T peak = *std::max_element(logits.begin(), logits.end()), sum = 0;
  std::vector<T> p(logits.size());
  for (size_t i = 0; i < p.size(); ++i)
    sum += p[i] = std::exp(logits[i] - peak);
  for (T &v : p)
    v /= sum;
  return p;
}

template <typename T> static void filterTopK(std::vector<T> &logits, int64_t k) {
  if (k == 0 || k >= int64_t(logits.size()))
    return;
  std::vector<T> sorted = logits;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<T>());
  T threshold = sorted[k - 1];
  for (T &v : logits)
    if (v < threshold)
      v = -std::numeric_limits<T>::infinity();
}

template <typename T> static void filterTopP(std::vector<T> &logits, double p) {
  if (p >= 1)
    return;
  std::vector<T> prob = probabilities(logits);
  std::vector<size_t> order(prob.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return prob[a] != prob[b] ? prob[a] > prob[b] : a < b;
  });
  double before = 0;
  for (size_t i : order) {
    if (before >= p)
      logits[i] = -std::numeric_limits<T>::infinity();
    before += prob[i];
  }
}

template <typename T> static void filterMinP(std::vector<T> &logits, double minP) {
  if (minP <= 0)
    return;
  std::vector<T> prob = probabilities(logits);
  T threshold = T(minP) * *std::max_element(prob.begin(), prob.end());
  for (size_t i = 0; i < prob.size(); ++i)
    if (prob[i] < threshold)
      logits[i] = -std::numeric_limits<T>::infinity();
}

template <typename T> static Status verifyIds(const std::vector<T> &logits, const std::vector<int32_t> &ids) {
  for (int32_t id : ids)
    if (id < 0 || id >= int64_t(logits.size()))
      return usageError("sample: expected ids below " + std::to_string(logits.size()) + ", got " + std::to_string(id));
  return {};
}

template <typename T>
static Status bias(std::vector<T> &logits, const std::vector<std::pair<int32_t, double>> &biases) {
  for (auto [id, value] : biases) {
    if (Status s = verifyIds(logits, {id}); !s)
      return s;
    logits[id] += T(value);
  }
  return {};
}

/// Each id counts once, however often it was seen.
template <typename T>
static Status penalise(std::vector<T> &logits, std::vector<int32_t> seen, double penalty) {
  if (Status s = verifyIds(logits, seen); !s)
    return s;
  std::sort(seen.begin(), seen.end());
  seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
  for (int32_t id : seen)
    logits[id] = logits[id] > 0 ? logits[id] / T(penalty) : logits[id] * T(penalty);
  return {};
}

template <typename T>
static Status penaliseOutput(std::vector<T> &logits, const std::vector<int32_t> &generated, double presence,
                             double frequency) {
  if (Status s = verifyIds(logits, generated); !s)
    return s;
  for (size_t id = 0; id < logits.size(); ++id)
    if (auto n = std::count(generated.begin(), generated.end(), int32_t(id)))
      logits[id] -= T(double(n) * frequency + presence);
  return {};
}

template <typename T>
Result<Array<T>> sampleDistribution(const Array<T> &logits, const SamplingParams &p,
                                    const std::vector<int32_t> &seen, const std::vector<int32_t> &generated) {
  if (Status s = verifyLogits("sample", logits); !s)
    return s.error();
  if (Status s = verifyParams(p); !s)
    return s.error();
  Array<T> work = logits;
  if (Status s = bias(work.data, p.logitBias); !s)
    return s.error();
  if (p.repetitionPenalty != 1)
    if (Status s = penalise(work.data, seen, p.repetitionPenalty); !s)
      return s.error();
  if (Status s = penaliseOutput(work.data, generated, p.presencePenalty, p.frequencyPenalty); !s)
    return s.error();
  if (p.temperature == 0) {
    Array<T> one(logits.shape);
    one.data[*greedy(work)] = 1;
    return one;
  }
  for (T &v : work.data)
    v /= T(p.temperature);
  filterMinP(work.data, p.minP);
  filterTopK(work.data, p.topK);
  filterTopP(work.data, p.topP);
  work.data = probabilities(work.data);
  return work;
}

template <typename T> Result<int32_t> draw(const Array<T> &probabilities, double uniform) {
  if (Status s = verifyLogits("draw", probabilities); !s)
    return s.error();
  if (!(uniform >= 0 && uniform < 1))
    return usageError("draw: expected a number in [0, 1), got " + std::to_string(uniform));
  double sum = 0;
  int32_t last = 0;
  for (int64_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities.data[i] <= 0)
      continue;
    last = int32_t(i);
    sum += probabilities.data[i];
    if (uniform < sum)
      return last;
  }
  return last; // the sum fell short of 1 by rounding
}

template <typename T>
Result<int32_t> sample(const Array<T> &logits, const SamplingParams &params, uint64_t seed,
                       uint64_t request, uint64_t position, const std::vector<int32_t> &seen,
                       const std::vector<int32_t> &generated) {
  Result<Array<T>> p = sampleDistribution(logits, params, seen, generated);
  if (!p)
    return p.error();
  return draw(*p, sampleUniform(seed, request, position));
}

#define DSV3_INSTANTIATE(T)                                                                        \
  template Result<int32_t> greedy(const Array<T> &);                                               \
  template Result<Array<T>> logSoftmax(const Array<T> &);                                          \
  template Result<Array<T>> sampleDistribution(const Array<T> &, const SamplingParams &,           \
                                               const std::vector<int32_t> &,                       \
                                               const std::vector<int32_t> &);                      \
  template Result<int32_t> draw(const Array<T> &, double);                                         \
  template Result<int32_t> sample(const Array<T> &, const SamplingParams &, uint64_t, uint64_t,    \
                                  uint64_t, const std::vector<int32_t> &,                          \
                                  const std::vector<int32_t> &);
DSV3_INSTANTIATE(float)
DSV3_INSTANTIATE(double)
#undef DSV3_INSTANTIATE

} // namespace dsv3::reference
