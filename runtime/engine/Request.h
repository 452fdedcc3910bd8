// What a user of the engine asks for and gets.
#pragma once

#include "runtime/engine/Sampler.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dsv3 {

using RequestId = uint64_t;

enum class FinishReason {
  Stop,      ///< an end id, or onToken asked for the end
  Length,    ///< max_tokens or the plan's length
  Cancelled, ///< Engine::cancel
};

/// "stop", "length", "cancelled"
const char *finishReasonName(FinishReason reason);

struct Request {
  std::string name; ///< what errors call it; empty: "request ID"
  std::vector<int32_t> prompt;
  SamplingParams sampling;
  int64_t maxTokens = 256;     ///< cut to what max_model_len leaves
  std::vector<int32_t> endIds; ///< ids that end the text; empty: none does

  /// Called from Engine::step for each token, the end id too. False ends the request:
  /// that is how stop strings, which the engine knows nothing of, take effect.
  std::function<bool(const SampledToken &)> onToken;
  /// Called once, after the last token. May submit other requests.
  std::function<void(FinishReason)> onFinish;
};

} // namespace dsv3
