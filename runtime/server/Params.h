// What a request asks for, after parsing: the same for completions and chats.
#pragma once

#include "runtime/engine/Completion.h"
#include "runtime/server/Fields.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::server {

/// Most sequences one HTTP request may ask for (prompts times n), and most n.
constexpr int64_t kMaxChoices = 1024, kMaxN = 128;
/// Most probabilities per token, and most stop strings, as OpenAI and vLLM have them.
constexpr int64_t kMaxTopLogprobs = 20;
constexpr size_t kMaxStops = 4;

struct Params {
  CompletionParams completion;
  std::optional<int64_t> maxTokens;     ///< as asked for; `completion.maxTokens` is set when the prompt is known
  const char *maxTokensField = "max_tokens";
  bool seeded = false;                  ///< the client gave the seed
  int64_t n = 1;
  int32_t topLogprobs = -1;             ///< -1: no probabilities; 0: of the chosen tokens
  bool echo = false;                    ///< completions only
  std::optional<int32_t> promptLogprobs;
  bool returnPromptLogprobs = false;    ///< in a field of their own
  std::optional<int64_t> truncatePrompt; ///< tokens from its end that are kept
  bool includeReasoning = true;         ///< chats only
  bool stream = false, includeUsage = false, continuousUsage = false;
  int32_t priority = 0;
  std::string cacheSalt;
  std::string model; ///< empty: not given
};

/// What the model sets bounds to.
struct ModelLimits {
  int64_t vocab = 0, maxModelLen = 0;
};

/// temperature, top_p, top_k, min_p, seed, the penalties, logit_bias.
void readSampling(Fields &fields, const ModelLimits &limits, Params &params);
/// truncate_prompt_tokens, max_tokens, max_completion_tokens, min_tokens, best_of, include_stop_str_in_output, stop, stop_token_ids, ignore_eos, n, skip_special_tokens.
void readLength(Fields &fields, const ModelLimits &limits, Params &params);
/// stream, stream_options, model, user, priority, cache_salt.
void readDelivery(Fields &fields, Params &params);
/// Of completions: logprobs (a number), echo. Of chats: logprobs (true), top_logprobs. Of both: prompt_logprobs.
void readCompletionLogprobs(Fields &fields, Params &params);
void readChatLogprobs(Fields &fields, Params &params);

/// Cuts `max_tokens` to what `prompt` tokens leave; `fallback` where the client gave none. 400 when the prompt is longer
/// than the model, or prompt and max_tokens together are; `promptField` names the prompt.
std::optional<ApiError> settleLength(Params &params, int64_t prompt, std::optional<int64_t> fallback,
                                     const ModelLimits &limits, const char *promptField);

} // namespace dsv3::server
