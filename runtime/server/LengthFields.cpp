#include "runtime/server/Params.h"

namespace dsv3::server {

namespace {

void readStops(Fields &fields, CompletionParams &completion) {
  const OrderedJson *stop = fields.find("stop");
  if (!stop)
    return;
  auto take = [&](const OrderedJson &one) {
    bool good = one.is_string() && !one.get_ref<const std::string &>().empty();
    if (good)
      completion.stops.push_back(one.get<std::string>());
    return good;
  };
  const std::string expected = "a nonempty string or up to " + std::to_string(kMaxStops) + " of them";
  if (!stop->is_array()) {
    if (!take(*stop))
      fields.refuse("stop", expected);
    return;
  }
  if (stop->size() > kMaxStops)
    return fields.fail("stop", "expected " + expected + ", got " + std::to_string(stop->size()));
  for (const OrderedJson &one : *stop)
    if (!take(one))
      return fields.fail("stop", "expected " + expected + ", got " + describe(one));
}

void readStopIds(Fields &fields, const ModelLimits &limits, CompletionParams &completion) {
  const OrderedJson *ids = fields.find("stop_token_ids");
  if (!ids)
    return;
  if (!ids->is_array())
    return fields.refuse("stop_token_ids", "a list of token ids");
  for (const OrderedJson &id : *ids) {
    if (!id.is_number_integer() || id < 0 || id >= limits.vocab)
      return fields.fail("stop_token_ids", "expected token ids from 0 to " + std::to_string(limits.vocab - 1) + ", got " +
                                               describe(id));
    completion.stopIds.push_back(id.get<int32_t>());
  }
}

} // namespace

void readLength(Fields &fields, const ModelLimits &limits, Params &params) {
  std::optional<int64_t> completionTokens;
  fields.integer("max_tokens", params.maxTokens, 0, INT32_MAX);
  fields.integer("max_completion_tokens", completionTokens, 0, INT32_MAX);
  if (completionTokens) { // the newer name wins, as upstream
    params.maxTokens = completionTokens;
    params.maxTokensField = "max_completion_tokens";
  }
  fields.integer("min_tokens", params.completion.minTokens, 0, INT32_MAX);
  fields.integer("n", params.n, 1, kMaxN);
  std::optional<int64_t> bestOf;
  fields.integer("best_of", bestOf, 1, kMaxN);
  if (bestOf && *bestOf != params.n) // vLLM dropped it: nothing ranks answers
    fields.refuse("best_of", std::to_string(params.n) + " (n)");
  fields.integer("truncate_prompt_tokens", params.truncatePrompt, -1, limits.maxModelLen);
  if (params.truncatePrompt == 0)
    fields.refuse("truncate_prompt_tokens", "-1 (the context) or a number above 0");
  if (params.truncatePrompt == -1)
    params.truncatePrompt = limits.maxModelLen;
  fields.boolean("include_stop_str_in_output", params.completion.includeStop);
  fields.boolean("ignore_eos", params.completion.ignoreEos);
  fields.boolean("skip_special_tokens", params.completion.skipSpecial);
  readStops(fields, params.completion);
  readStopIds(fields, limits, params.completion);
}

std::optional<ApiError> settleLength(Params &params, int64_t prompt, std::optional<int64_t> fallback,
                                     const ModelLimits &limits, const char *promptField) {
  auto tooLong = [](const char *field, const std::string &message) {
    ApiError error = badField(field, message);
    error.code = "context_length_exceeded";
    return error;
  };
  if (prompt > limits.maxModelLen)
    return tooLong(promptField, "expected at most " + std::to_string(limits.maxModelLen) +
                                    " tokens (the model's maximum context length), got " + std::to_string(prompt));
  // The last token is never fed back: it may lie one past the context.
  int64_t left = limits.maxModelLen - prompt + 1;
  if (params.maxTokens && *params.maxTokens > left)
    return tooLong(params.maxTokensField, "expected at most " + std::to_string(left) + " after " + std::to_string(prompt) +
                                              " tokens of prompt (the model's maximum context length is " +
                                              std::to_string(limits.maxModelLen) + "), got " +
                                              std::to_string(*params.maxTokens));
  params.completion.maxTokens = params.maxTokens ? *params.maxTokens : std::min(fallback.value_or(left), left);
  if (params.completion.minTokens > params.completion.maxTokens)
    return badField("min_tokens", "expected at most " + std::to_string(params.completion.maxTokens) + " (" + params.maxTokensField + "), got " +
                                      std::to_string(params.completion.minTokens));
  return {};
}

} // namespace dsv3::server
