// One model against another on the same text: how far their answers are apart, and where that comes from.
#pragma once

#include "tools/dsv3-eval/Measure.h"

#include <map>

namespace dsv3::eval {

struct Agreement {
  int64_t tokens = 0;  ///< positions compared
  double kl = 0;       ///< mean over positions of KL(reference | model), natural log
  double worstKl = 0;  ///< of one position
  int64_t sameTop = 0; ///< positions whose most likely token is the same
};

/// A tapped state of both models.
struct StateError {
  std::string name;
  int64_t cols = 0;
  double lost = 0, whole = 0; ///< sums of squares of the difference, and of the reference
  bool choices = false;       ///< chosen experts: `lost` of `whole` are others than the reference's

  /// |a - b| / |b|, Frobenius norms over all rows; of choices, the part that differs.
  double relative() const;
};

struct Comparison {
  Agreement agreement;
  std::vector<StateError> states; ///< in the order of the programs; those that both artifacts tap
};

/// What can be said before any document is read. Usage errors: vocabularies differ; `states` and no tap in common.
Status checkComparable(Engine &engine, Engine &reference, bool states);

/// Documents as in measureLikelihood(). Both models see them in groups, so that logits of few thousand rows exist at a time.
/// `states`: also compare taps. Errors of checkComparable().
Result<Comparison> compareModels(Engine &engine, Engine &reference, const std::vector<std::vector<int32_t>> &prompts, bool states, const OnProgress &progress);

/// For a person who looks for what to keep in more bits: by layer, the error of the residual and what attention and the feed-forward part
/// add to it; the linears that add most to the error of what they read; every state. What a state adds to an error e0 that it
/// inherits is sqrt(e^2 - e0^2), as if both were independent. PerLayer.cpp.
std::string statesText(const std::vector<StateError> &states);

} // namespace dsv3::eval
