#include "runtime/server/Params.h"

#include <charconv>

namespace dsv3::server {

namespace {

/// {"1734": -100, ...}: ids are keys, hence strings.
void readLogitBias(Fields &fields, const ModelLimits &limits, SamplingParams &sampling) {
  const OrderedJson *bias = fields.child("logit_bias");
  if (!bias)
    return;
  for (const auto &[key, value] : bias->items()) {
    int32_t id = -1;
    auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), id);
    if (error != std::errc() || stop != key.data() + key.size() || id < 0 || id >= limits.vocab)
      return fields.fail("logit_bias", "expected token ids from 0 to " + std::to_string(limits.vocab - 1) +
                                           " as keys, got \"" + printable(key) + "\"");
    if (!value.is_number() || !(value.get<double>() >= -100 && value.get<double>() <= 100))
      return fields.fail("logit_bias", "expected numbers from -100 to 100, got " + describe(value));
    sampling.logitBias.emplace_back(id, value.get<float>());
  }
}

void readSeed(Fields &fields, Params &params) {
  const OrderedJson *seed = fields.find("seed");
  if (!seed)
    return;
  // Negative seeds are legal upstream; any 64 bits will do.
  if (!seed->is_number_integer())
    return fields.refuse("seed", "an integer of 64 bits");
  params.completion.sampling.seed = seed->is_number_unsigned() ? seed->get<uint64_t>() : uint64_t(seed->get<int64_t>());
  params.seeded = true;
}

} // namespace

void readSampling(Fields &fields, const ModelLimits &limits, Params &params) {
  SamplingParams &s = params.completion.sampling;
  s.temperature = 1; // the API's default
  fields.number("temperature", s.temperature, 0, 2);
  fields.number("top_p", s.topP, 0, 1);
  if (s.topP == 0)
    fields.refuse("top_p", "a number above 0 and up to 1");
  fields.integer("top_k", s.topK, -1, INT32_MAX);
  s.topK = std::max<int64_t>(s.topK, 0); // -1 means all, too
  fields.number("min_p", s.minP, 0, 1);
  fields.number("repetition_penalty", s.repetitionPenalty, 0, 1e6);
  if (s.repetitionPenalty == 0)
    fields.refuse("repetition_penalty", "a number above 0");
  fields.number("presence_penalty", s.presencePenalty, -2, 2);
  fields.number("frequency_penalty", s.frequencyPenalty, -2, 2);
  readLogitBias(fields, limits, s);
  readSeed(fields, params);
}

} // namespace dsv3::server
