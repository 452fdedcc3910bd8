// How many pages of KV cache a machine holds.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>

namespace dsv3 {

struct KvBudget {
  uint64_t pageBytes;       ///< one page in all layers
  int64_t pagesPerSequence; ///< for max_model_len
  int64_t sequences;        ///< max_batch
  int64_t requestedPages;   ///< 0: sequences * pagesPerSequence
  uint64_t availableBytes;
  uint64_t otherBytes; ///< weights, arena, results and step buffer, also to be held
};

/// A page per 64 tokens of `sequences` full-length sequences; fewer if memory is short,
/// which only makes requests wait. DoesNotFit when not even one sequence fits, or when
/// `requestedPages` do not.
Result<int64_t> kvPagesFor(const KvBudget &budget);

} // namespace dsv3
