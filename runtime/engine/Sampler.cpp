#include "runtime/engine/Sampler.h"

#include "runtime/core/Philox.h"

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdio>
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

static Error notFinite(int64_t id, int64_t position) {
  return checkpointError("logit " + std::to_string(id) + " at position " + std::to_string(position) +
                         " is not finite: the weights overflow");
}

Status checkFinite(const float *logits, int64_t count, int64_t position) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(logits[i]))
      return notFinite(i, position);
  return {};
}

double logProbability(const float *logits, int64_t count, int32_t id) {
  double top = logits[argmax(logits, count)], sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::exp(double(logits[i]) - top);
  return double(logits[id]) - top - std::log(sum);
}

bool canChooseOnDevice(const SamplingParams &params) { return params.repetitionPenalty == 1; }

dsv3_sampling samplingOf(const SamplingParams &p, int64_t position) {
  return samplingOf(p.temperature, p.topK, p.topP, p.minP, philoxBits(p.seed, p.stream, static_cast<uint32_t>(position)));
}

Result<SampledToken> tokenOf(const dsv3_sampled &chosen, int64_t position) {
  if (chosen.fault)
    return notFinite(chosen.fault - 1, position);
  return SampledToken{chosen.id, logProbability(chosen)};
}

void Sampler::penalise(double penalty, const std::vector<int32_t> &history) {
  seen.assign(vocab, false);
  for (int32_t id : history) {
    if (seen[id])
      continue;
    seen[id] = true;
    float &x = adjusted[id];
    double y = x > 0 ? x / penalty : x * penalty;
    x = static_cast<float>(std::clamp<double>(y, -FLT_MAX, FLT_MAX)); // a penalty is no overflow of the weights
  }
}

Result<SampledToken> Sampler::sample(const float *logits, const SamplingParams &params,
                                     const std::vector<int32_t> &history) {
  int64_t position = static_cast<int64_t>(history.size());
  dsv3_sampling how = samplingOf(params, position);
  if (params.repetitionPenalty == 1)
    return tokenOf(chooser.choose(logits, vocab, how), position - 1);
  if (Status s = checkFinite(logits, vocab, position - 1); !s)
    return s.error();
  adjusted.assign(logits, logits + vocab);
  penalise(params.repetitionPenalty, history);
  // The probability is that under the unmodified logits.
  return tokenOf(describeToken(logits, vocab, chooser.choose(adjusted.data(), vocab, how).id), position - 1);
}

} // namespace dsv3
