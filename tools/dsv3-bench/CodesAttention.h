// What decode over a cache of FP8 codes should give where the query becomes codes too.
#pragma once

#include "runtime/core/DType.h"
#include "runtime/reference/Attention.h"

#include <vector>

namespace dsv3::bench {

/// One absorbed query [latent], already worth what its codes and scale mean, with its plain `rope` part, over `context` cached tokens of
/// `codes` (E4M3 or E5M2). Scores are sums as Hopper's tensor cores have them; `scale` multiplies them before the softmax.
std::vector<double> codesAttention(DType codes, std::vector<double> q, const std::vector<double> &rope, const reference::Cache<double> &cache,
                                   int64_t context, double scale);

} // namespace dsv3::bench
