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
  double nll = 0;     ///< mean over tokens, natural log
  double perplexity = 0;
};

/// Each document apart: BOS and its first `cut` ids, special tokens as plain text.
/// Usage error when the plan is shorter than a document; Unsupported without a score program.
Result<Likelihood> measureLikelihood(Engine &engine, const TextModel &model,
                                     const std::vector<std::string> &texts, int64_t cut,
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
