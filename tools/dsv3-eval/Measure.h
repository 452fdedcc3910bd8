// The measurements of dsv3-eval on an engine.
#pragma once

#include "Documents.h"
#include "runtime/engine/Engine.h"
#include "runtime/engine/TextModel.h"

#include <functional>

namespace dsv3::eval {

/// Called as work goes on: how many of how many are done.
using OnProgress = std::function<void(size_t done, size_t total)>;

struct Likelihood {
  size_t documents = 0;
  int64_t tokens = 0; ///< all but BOS
  int64_t bytes = 0;  ///< of the text that these tokens stand for
  double nll = 0;     ///< mean over tokens, natural log
  double perplexity = 0;
  double bitsPerByte = 0; ///< independent of the tokenizer
};

/// BOS and the first `cut` ids of each text, special tokens as plain text. Usage errors: a text without tokens, no begin token, a
/// document longer than the plan.
Result<std::vector<std::vector<int32_t>>> encodeDocuments(const Engine &engine, const TextModel &model, const std::vector<std::string> &texts, int64_t cut);

/// Each of encodeDocuments() apart. Unsupported without a score program.
Result<Likelihood> measureLikelihood(Engine &engine, const TextModel &model, const std::vector<std::vector<int32_t>> &prompts,
                                     const OnProgress &progress);

struct ExactMatch {
  size_t problems = 0, correct = 0;
};

/// Greedy answers of up to `maxTokens` tokens to each question by the chat template,
/// all in one batch; right if the number after the first "#### " is `final`.
Result<ExactMatch> measureProblems(Engine &engine, const TextModel &model,
                                   const std::vector<Problem> &problems, int64_t maxTokens,
                                   const OnProgress &progress);

/// The number after the first "#### " that a number follows, if any.
std::optional<int64_t> finalNumber(const std::string &answer);

} // namespace dsv3::eval
