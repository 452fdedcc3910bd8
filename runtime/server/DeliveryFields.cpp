#include "runtime/server/Params.h"

#include <algorithm>

namespace dsv3::server {

void readDelivery(Fields &fields, Params &params) {
  fields.boolean("stream", params.stream);
  if (const OrderedJson *options = fields.child("stream_options")) {
    Fields inner(*options, "stream_options.");
    inner.boolean("include_usage", params.includeUsage);
    inner.boolean("continuous_usage_stats", params.continuousUsage);
    fields.take(inner.error());
    if (!params.stream)
      fields.fail("stream_options", "expected only with \"stream\": true");
  }
  fields.string("model", params.model);
  std::string user; // told to nobody, but its type is checked
  fields.string("user", user);
  int64_t priority = 0;
  fields.integer("priority", priority, INT32_MIN, INT32_MAX);
  params.priority = int32_t(priority);
  fields.string("cache_salt", params.cacheSalt);
  if (fields.find("cache_salt") && params.cacheSalt.empty())
    fields.refuse("cache_salt", "a nonempty string");
}

/// vLLM's field; its list does not go into chunks.
static void readPromptLogprobs(Fields &fields, Params &params) {
  std::optional<int64_t> top;
  fields.integer("prompt_logprobs", top, 0, kMaxTopLogprobs);
  if (!top)
    return;
  if (params.stream)
    fields.fail("prompt_logprobs", "expected only without \"stream\": true");
  params.promptLogprobs = int32_t(*top);
  params.returnPromptLogprobs = true;
}

void readCompletionLogprobs(Fields &fields, Params &params) {
  std::optional<int64_t> logprobs;
  fields.integer("logprobs", logprobs, 0, kMaxTopLogprobs);
  fields.boolean("echo", params.echo);
  params.topLogprobs = int32_t(logprobs.value_or(-1));
  readPromptLogprobs(fields, params);
  if (params.echo && logprobs)
    params.promptLogprobs = std::max(params.promptLogprobs.value_or(0), int32_t(*logprobs));
}

void readChatLogprobs(Fields &fields, Params &params) {
  bool logprobs = false;
  std::optional<int64_t> top;
  fields.boolean("logprobs", logprobs);
  fields.integer("top_logprobs", top, 0, kMaxTopLogprobs);
  if (top.value_or(0) > 0 && !logprobs)
    fields.fail("top_logprobs", "expected only with \"logprobs\": true");
  params.topLogprobs = logprobs ? int32_t(top.value_or(0)) : -1;
  readPromptLogprobs(fields, params);
}

} // namespace dsv3::server
