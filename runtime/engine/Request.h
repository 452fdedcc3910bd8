// What a user of the engine asks for and gets.
#pragma once

#include "runtime/engine/Sampler.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dsv3 {

using RequestId = uint64_t;

enum class FinishReason {
  Stop,      ///< an end id, or onToken asked for the end
  Length,    ///< max_tokens or the plan's length
  Cancelled, ///< Engine::cancel
  Error,     ///< the engine failed, or the request's own logits are not finite (Request::onError)
};

/// "stop", "length", "cancelled", "error"
const char *finishReasonName(FinishReason reason);

/// Of one prompt token: how likely it was after those before it.
struct PromptLogprob {
  TokenLogprob token;
  std::vector<TokenLogprob> top; ///< the likeliest at this place, likeliest first, the lower id of equals
  int64_t rank = 1;              ///< how many tokens are as likely, itself among them, or likelier
};

/// One for each prompt token; the first has none, since nothing precedes it.
using PromptLogprobs = std::vector<std::optional<PromptLogprob>>;

struct Request {
  std::string name; ///< what errors call it; empty: "request ID"
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t maxTokens = 256;     ///< cut to what max_model_len leaves; 0 only with promptLogprobs
  std::vector<int32_t> endIds; ///< ids that end the text; empty: none does
  int64_t minTokens = 0;       ///< none of endIds is chosen before so many tokens
  int32_t priority = 0;        ///< lower runs first, where the engine's policy is priority
  std::string cacheSalt;       ///< cached prefixes are shared between requests of one salt only
  int32_t topLogprobs = -1;    ///< likeliest tokens listed with each token; 0: only the chosen one's; -1: none
  std::optional<int32_t> promptLogprobs; ///< likeliest tokens listed with each prompt token, by the score program
  std::shared_ptr<TokenConstraint> constraint; ///< which tokens may come; may be null

  /// Called when the request runs for the first time, with the number of prompt tokens that were found in the cache.
  std::function<void(int64_t cachedTokens)> onStart;
  /// Called before the first token, if promptLogprobs is set.
  std::function<void(PromptLogprobs)> onPrompt;
  /// Called from Engine::step for each token, the end id too. False ends the request:
  /// that is how stop strings, which the engine knows nothing of, take effect.
  std::function<bool(const SampledToken &)> onToken;
  /// Called before onFinish(Error) when the fault is this request's alone: BadCheckpoint, "NAME: logit 5 at position 6 is not finite: ...".
  std::function<void(const Error &)> onError;
  /// Called once, after the last token. May submit other requests.
  std::function<void(FinishReason)> onFinish;
};

} // namespace dsv3
