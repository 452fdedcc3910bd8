#include "runtime/engine/Sampler.h"

#include "runtime/core/Philox.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>

namespace dsv3 {

namespace {

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

Status inRange(const char *name, bool ok, const char *expected, double got) {
  return ok ? Status()
            : usageError(std::string(name) + ": expected " + expected + ", got " + numberText(got));
}

} // namespace

Status SamplingParams::validate() const {
  // Written so that a NaN fails.
  for (const Status &s : {inRange("temperature", temperature >= 0 && temperature < 1e6,
                                  "a number from 0, below 1000000", temperature),
                          inRange("top-k", topK >= 0, "an integer of at least 0 (0: all)", double(topK)),
                          inRange("top-p", topP > 0 && topP <= 1, "a number above 0, at most 1", topP),
                          inRange("min-p", minP >= 0 && minP <= 1, "a number from 0 to 1", minP),
                          inRange("repetition-penalty", repetitionPenalty > 0 && repetitionPenalty < 1e6,
                                  "a number above 0, below 1000000", repetitionPenalty)})
    if (!s)
      return s;
  return {};
}

int32_t argmax(const float *logits, int64_t count) {
  int64_t best = 0;
  for (int64_t i = 1; i < count; ++i)
    if (logits[i] > logits[best])
      best = i;
  return static_cast<int32_t>(best);
}

Status checkFinite(const float *logits, int64_t count, int64_t position) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(logits[i]))
      return checkpointError("logit " + std::to_string(i) + " at position " + std::to_string(position) +
                             " is not finite: the weights overflow");
  return {};
}

double logProbability(const float *logits, int64_t count, int32_t id) {
  double top = logits[argmax(logits, count)], sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::exp(double(logits[i]) - top);
  return double(logits[id]) - top - std::log(sum);
}

void Sampler::penalise(double penalty, const std::vector<int32_t> &history) {
  seen.assign(vocab, false);
  for (int32_t id : history) {
    if (seen[id])
      continue;
    seen[id] = true;
    float &x = adjusted[id];
    x = static_cast<float>(x > 0 ? x / penalty : x * penalty);
  }
}

void Sampler::weigh(double temperature) {
  // A tiny temperature overflows nothing: the exponent is at most zero.
  double top = adjusted[argmax(adjusted.data(), vocab)];
  candidates.clear();
  for (int64_t i = 0; i < vocab; ++i) {
    candidates.push_back({static_cast<int32_t>(i), std::exp((adjusted[i] - top) / temperature)});
  }
}

void Sampler::keepMinP(double ratio) {
  // The greatest weight is 1 and always a candidate.
  candidates.erase(
      std::remove_if(candidates.begin(), candidates.end(), [&](auto &c) { return c.weight < ratio; }),
      candidates.end());
}

void Sampler::keepTopK(int64_t k) {
  if (k <= 0 || k >= static_cast<int64_t>(candidates.size()))
    return;
  std::vector<double> weights;
  for (const Candidate &c : candidates)
    weights.push_back(c.weight);
  std::nth_element(weights.begin(), weights.begin() + (k - 1), weights.end(), std::greater<double>());
  double least = weights[k - 1];
  candidates.erase(
      std::remove_if(candidates.begin(), candidates.end(), [&](auto &c) { return c.weight < least; }),
      candidates.end());
}

void Sampler::keepTopP(double p) {
  if (p >= 1)
    return;
  std::sort(candidates.begin(), candidates.end(),
            [](auto &a, auto &b) { return a.weight != b.weight ? a.weight > b.weight : a.id < b.id; });
  double total = 0, before = 0;
  for (const Candidate &c : candidates)
    total += c.weight;
  size_t kept = 0;
  while (kept < candidates.size() && (kept == 0 || before < p * total))
    before += candidates[kept++].weight;
  candidates.resize(kept);
  std::sort(candidates.begin(), candidates.end(), [](auto &a, auto &b) { return a.id < b.id; });
}

int32_t Sampler::draw(double uniform) const {
  double total = 0, below = 0;
  for (const Candidate &c : candidates)
    total += c.weight;
  for (const Candidate &c : candidates) {
    below += c.weight;
    if (uniform * total < below)
      return c.id;
  }
  return candidates.back().id; // rounding: uniform * total may equal the last sum
}

Result<SampledToken> Sampler::sample(const float *logits, const SamplingParams &params,
                                     const std::vector<int32_t> &history) {
  if (Status s = checkFinite(logits, vocab, static_cast<int64_t>(history.size()) - 1); !s)
    return s.error();
  adjusted.assign(logits, logits + vocab);
  if (params.repetitionPenalty != 1)
    penalise(params.repetitionPenalty, history);
  int32_t id = argmax(adjusted.data(), vocab);
  if (params.temperature > 0) {
    weigh(params.temperature);
    keepMinP(params.minP);
    keepTopK(params.topK);
    keepTopP(params.topP);
    id = draw(philoxUniform(params.seed, params.stream, static_cast<uint32_t>(history.size())));
  }
  return SampledToken{id, logProbability(logits, vocab, id)};
}

} // namespace dsv3
