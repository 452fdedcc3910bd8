// How many pages of KV cache a machine holds.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <string>

namespace dsv3 {

struct KvBudget {
  uint64_t pageBytes;       ///< one page in all layers
  int64_t pagesPerSequence; ///< for max_model_len
  int64_t sequences;        ///< max_batch
  int64_t requestedPages;   ///< 0: sequences * pagesPerSequence
  uint64_t usableBytes; ///< of free memory, without what the rest of the process and of the machine needs
  uint64_t otherBytes; ///< weights, arena, results and step buffer, also to be held
  const char *memory = "memory"; ///< whose, for messages: "GPU memory"

  int64_t wantedPages() const { return requestedPages > 0 ? requestedPages : sequences * pagesPerSequence; }
};

/// A page per 64 tokens of `sequences` full-length sequences; fewer if memory is short,
/// which only makes requests wait. DoesNotFit when not even one sequence fits, or when
/// `requestedPages` do not.
Result<int64_t> kvPagesFor(const KvBudget &budget);

/// What to tell a user who got fewer pages than max_batch sequences of max_model_len need; empty when
/// `pages` are all of them.
std::string kvShortage(const KvBudget &budget, int64_t pages, int64_t pageTokens);

} // namespace dsv3
