// What an answer must look like, as the sampler sees it: a mask over the vocabulary for each token.
#pragma once

#include <cstdint>

namespace dsv3 {

/// Says which tokens may come next. One object per request, used by one thread at a time; it must not fail, so whatever
/// can be wrong with a constraint is reported when it is made.
class TokenConstraint {
public:
  virtual ~TokenConstraint() = default;

  /// Sets logits of tokens that may not come next to minus infinity and leaves the others as they are. Never forbids
  /// all: end ids are allowed when the text is complete.
  virtual void mask(float *logits, int64_t vocab) = 0;

  /// `id` was chosen, one that `mask` allowed.
  virtual void accept(int32_t id) = 0;
};

} // namespace dsv3
