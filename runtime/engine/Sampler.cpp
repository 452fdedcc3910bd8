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

static Status validateBias(const std::vector<std::pair<int32_t, float>> &biases, int64_t vocab) {
  for (auto [id, bias] : biases) {
    if (id < 0 || id >= vocab)
      return usageError("logit-bias: expected a token id from 0 to " + std::to_string(vocab - 1) + ", got " + std::to_string(id));
    if (Status s = inRange("logit-bias", bias >= -100 && bias <= 100, "numbers from -100 to 100", bias); !s)
      return s;
  }
  return {};
}

Status SamplingParams::validate(int64_t vocab) const {
  // Written so that a NaN fails.
  for (const Status &s : {inRange("temperature", temperature >= 0 && temperature < 1e6,
                                  "a number from 0, below 1000000", temperature),
                          inRange("top-k", topK >= 0, "an integer of at least 0 (0: all)", double(topK)),
                          inRange("top-p", topP > 0 && topP <= 1, "a number above 0, at most 1", topP),
                          inRange("min-p", minP >= 0 && minP <= 1, "a number from 0 to 1", minP),
                          inRange("repetition-penalty", repetitionPenalty > 0 && repetitionPenalty < 1e6,
                                  "a number above 0, below 1000000", repetitionPenalty),
                          inRange("presence-penalty", presencePenalty >= -2 && presencePenalty <= 2,
                                  "a number from -2 to 2", presencePenalty),
                          inRange("frequency-penalty", frequencyPenalty >= -2 && frequencyPenalty <= 2,
                                  "a number from -2 to 2", frequencyPenalty)})
    if (!s)
      return s;
  return validateBias(logitBias, vocab);
}

int32_t argmax(const float *logits, int64_t count) {
  return static_cast<int32_t>(firstGreatest(logits, count));
}

static Error notFinite(int64_t id, int64_t position) {
  return checkpointError("logit " + std::to_string(id) + " at position " + std::to_string(position) +
                         " is not finite: the weights overflow");
}

Status checkFinite(const float *logits, int64_t count, int64_t position) {
  const int32_t bad = firstNotFinite(logits, count);
  return bad ? Status(notFinite(bad - 1, position)) : Status();
}

double logProbability(const float *logits, int64_t count, int32_t id) {
  double top = logits[argmax(logits, count)], sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::exp(double(logits[i]) - top);
  return double(logits[id]) - top - std::log(sum);
}

/// Whether the logits a token is chosen by are not those of the model.
static bool adjusts(const SamplingParams &p) {
  return p.repetitionPenalty != 1 || p.presencePenalty != 0 || p.frequencyPenalty != 0 || !p.logitBias.empty();
}

/// The same of what surrounds the choice.
static bool masks(const SamplingContext &context) { return context.constraint || (context.forbidden && !context.forbidden->empty()); }

bool canChooseOnDevice(const SamplingParams &params, const SamplingContext &context) {
  return !adjusts(params) && !masks(context) && context.topLogprobs <= 0;
}

dsv3_sampling samplingOf(const SamplingParams &p, int64_t position) {
  return samplingOf(p.temperature, p.topK, p.topP, p.minP, philoxBits(p.seed, p.stream, static_cast<uint32_t>(position)));
}

Result<SampledToken> tokenOf(const dsv3_sampled &chosen, int64_t position) {
  if (chosen.fault)
    return notFinite(chosen.fault - 1, position);
  return SampledToken{chosen.id, logProbability(chosen), {}};
}

/// `count` best of a row that `described` is a token of.
static std::vector<TokenLogprob> topOf(const float *logits, int64_t vocab, int64_t count, dsv3_sampled described) {
  count = std::min(count, vocab);
  std::vector<int32_t> best; // a heap: the worst of those kept first
  auto better = [&](int32_t a, int32_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; };
  for (int32_t id = 0; count > 0 && id < vocab; ++id) {
    if (int64_t(best.size()) == count) {
      if (!better(id, best.front()))
        continue;
      std::pop_heap(best.begin(), best.end(), better);
      best.pop_back();
    }
    best.push_back(id);
    std::push_heap(best.begin(), best.end(), better);
  }
  std::sort(best.begin(), best.end(), better);
  std::vector<TokenLogprob> top;
  for (int32_t id : best) {
    described.logit = logits[id];
    top.push_back({id, logProbability(described)});
  }
  return top;
}

std::vector<TokenLogprob> topLogprobs(const float *logits, int64_t vocab, int64_t count) {
  return topOf(logits, vocab, count, describeToken(logits, vocab, 0));
}

/// An adjustment is no overflow of the weights.
static float bounded(double x) { return static_cast<float>(std::clamp<double>(x, -FLT_MAX, FLT_MAX)); }

Status Sampler::adjust(const SamplingParams &p, const std::vector<int32_t> &history, int64_t promptTokens) {
  for (auto [id, bias] : p.logitBias) {
    if (id < 0 || id >= vocab)
      return p.validate(vocab);
    adjusted[id] = bounded(double(adjusted[id]) + bias);
  }
  if (p.repetitionPenalty != 1) {
    seen.assign(vocab, false);
    for (int32_t id : history) {
      if (!seen[id])
        adjusted[id] = bounded(adjusted[id] > 0 ? adjusted[id] / p.repetitionPenalty : adjusted[id] * p.repetitionPenalty);
      seen[id] = true;
    }
  }
  if (p.presencePenalty == 0 && p.frequencyPenalty == 0)
    return {};
  generated.resize(vocab);
  for (size_t i = promptTokens; i < history.size(); ++i)
    ++generated[history[i]];
  for (size_t i = promptTokens; i < history.size(); ++i)
    if (int64_t &times = generated[history[i]]; times) {
      float &x = adjusted[history[i]];
      x = bounded(double(x) - p.frequencyPenalty * double(times) - p.presencePenalty);
      times = 0;
    }
  return {};
}

void Sampler::forbid(const std::vector<int32_t> &ids) {
  std::vector<std::pair<int32_t, float>> taken;
  for (int32_t id : ids)
    if (id >= 0 && id < vocab && std::isfinite(adjusted[id])) {
      taken.push_back({id, adjusted[id]});
      adjusted[id] = -std::numeric_limits<float>::infinity();
    }
  if (!taken.empty() && std::none_of(adjusted.begin(), adjusted.end(), [](float x) { return std::isfinite(x); }))
    for (auto [id, logit] : taken)
      adjusted[id] = logit;
}

Result<SampledToken> Sampler::sample(const float *logits, const SamplingParams &params, const std::vector<int32_t> &history,
                                     const SamplingContext &context) {
  int64_t position = static_cast<int64_t>(history.size());
  dsv3_sampling how = samplingOf(params, position);
  if (canChooseOnDevice(params, context))
    return tokenOf(chooser.choose(logits, vocab, how), position - 1);
  if (Status s = checkFinite(logits, vocab, position - 1); !s)
    return s.error();
  const float *chosenBy = logits;
  if (adjusts(params) || masks(context)) {
    adjusted.assign(logits, logits + vocab);
    if (Status s = adjust(params, history, context.promptTokens); !s)
      return s.error();
    if (context.constraint)
      context.constraint->mask(adjusted.data(), vocab);
    if (context.forbidden)
      forbid(*context.forbidden);
    chosenBy = adjusted.data();
  }
  dsv3_sampled chosen = describeToken(logits, vocab, chooser.pick(chosenBy, vocab, how));
  if (context.constraint)
    context.constraint->accept(chosen.id);
  return SampledToken{chosen.id, logProbability(chosen), topOf(logits, vocab, context.topLogprobs, chosen)};
}

} // namespace dsv3
