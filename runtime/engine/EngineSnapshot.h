// Counters and gauges of an engine between two steps: a value, for metrics and tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace dsv3 {

struct EngineSnapshot {
  // Gauges.
  size_t waiting = 0; ///< requests that hold no pages: new ones, and those that were preempted
  size_t running = 0;
  size_t maxRunning = 0;   ///< requests that can run at once
  int64_t totalPages = 0;
  int64_t freePages = 0;   ///< pages that no request holds, cached ones among them
  int64_t cachedPages = 0; ///< of the free pages: those whose contents a later request may find

  // Counters since the engine was made.
  uint64_t steps = 0;
  std::vector<uint64_t> runs;   ///< by program: those of steps, and of scoring
  uint64_t promptTokens = 0;    ///< computed by prefill, recomputation included
  uint64_t generatedTokens = 0; ///< handed to requests
  uint64_t tokensOfDevice = 0, tokensOfHost = 0; ///< by who chose them
  uint64_t preemptions = 0;
  uint64_t prefixQueries = 0;   ///< prompt tokens that were looked up in the prefix cache
  uint64_t prefixHits = 0;      ///< prompt tokens that were found there
  uint64_t prefixEvictions = 0; ///< cached pages given to others
  uint64_t finished[4] = {};    ///< requests, by FinishReason
  uint64_t nonFinite = 0;       ///< requests that ended because a logit was not finite
};

} // namespace dsv3
