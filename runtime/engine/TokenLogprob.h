// A token and how likely it was.
#pragma once

#include <cstdint>

namespace dsv3 {

struct TokenLogprob {
  int32_t id;
  double logprob; ///< natural log of its probability under the unmodified logits
};

} // namespace dsv3
