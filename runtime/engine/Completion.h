// One request as text: tokens in, text out as it comes, ended by stop strings.
#pragma once

#include "runtime/engine/Request.h"
#include "runtime/engine/TextModel.h"
#include "runtime/text/StopMatcher.h"
#include "runtime/text/StreamDecoder.h"

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dsv3 {

struct CompletionParams {
  SamplingParams sampling;
  int64_t maxTokens = 256;
  bool ignoreEos = false;         ///< go on through end ids
  bool skipSpecial = true;        ///< special tokens give no text
  std::vector<int32_t> stopIds;   ///< further ids that end the text, whatever `ignoreEos` says
  std::vector<std::string> stops; ///< need a tokenizer
  int64_t minTokens = 0;          ///< no end and no stop string before so many tokens; a stop string within them is text
  bool includeStop = false;       ///< the stop string that ends the text is part of it, and so is the text of a stop id
};

/// Times are steady-clock milliseconds since the request was made.
struct CompletionTimings {
  double ttftMs = 0;          ///< to the first token
  double tpotMs = 0;          ///< between tokens after it, mean
  double tokensPerSecond = 0; ///< all tokens over the whole time
};

class Completion {
public:
  /// Called with text that is certain: whole characters, no part of a stop string.
  using OnText = std::function<void(const std::string &)>;

  /// `tokenizer` may be nullptr: then there is no text. Usage error for stop strings
  /// without a tokenizer, and for an empty one.
  static Result<std::unique_ptr<Completion>> create(const text::Tokenizer *tokenizer,
                                                    const CompletionParams &params,
                                                    const std::vector<int32_t> &eosIds, OnText onText);

  /// The request to submit; this object must outlive it.
  Request request(std::vector<int32_t> prompt);

  /// Called for each token with the text that is certain since the one before, perhaps none, and once with nullptr if
  /// the end made more certain. May be empty.
  std::function<void(const SampledToken *token, const std::string &text)> onPiece;

  /// Called when done, after the last text.
  std::function<void()> onDone;

  bool done() const { return reason.has_value(); }
  FinishReason finishReason() const { return *reason; }
  /// What the request itself failed by, if it did.
  const std::optional<Error> &error() const { return failure; }
  const std::vector<int32_t> &ids() const { return tokenIds; }
  const std::vector<double> &logprobs() const { return tokenLogprobs; }

  /// Without end ids, special tokens and the stop string.
  const std::string &text() const { return shown; }

  CompletionTimings timings() const;

private:
  using Clock = std::chrono::steady_clock;

  Completion(const text::Tokenizer *tokenizer, const CompletionParams &params,
             const std::vector<int32_t> &eosIds, text::StopMatcher matcher, OnText onText);
  bool take(const SampledToken &token);
  void finish(FinishReason why);
  std::string visible(const std::string &piece);
  bool isEnd(int32_t id) const;
  void show(const SampledToken *token, const std::string &piece);

  CompletionParams params;
  std::vector<int32_t> eosIds;
  std::optional<text::StreamDecoder> decoder;
  text::StopMatcher matcher;
  OnText onText;
  std::vector<int32_t> tokenIds;
  std::vector<double> tokenLogprobs;
  std::string shown;
  std::optional<FinishReason> reason;
  std::optional<Error> failure;
  Clock::time_point start, first, last;
};

} // namespace dsv3
