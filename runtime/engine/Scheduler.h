// Decides what the next step computes: continuous batching with chunked prefill.
#pragma once

#include "runtime/engine/BlockManager.h"
#include "runtime/engine/Programs.h"
#include "runtime/engine/Request.h"

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace dsv3 {

/// A request on its way: its tokens, cache and what it asked for.
struct Generation {
  RequestId id = 0;
  Sequence sequence;
  int64_t promptTokens = 0;
  Request request;
  std::optional<FinishReason> finished;
  bool started = false; ///< has been in a step

  int64_t generated() const { return static_cast<int64_t>(sequence.tokens.size()) - promptTokens; }
  bool prefilling() const { return sequence.cached < promptTokens; }
};

/// Programs never mix phases, so steps alternate while both prompts and running sequences
/// wait: a running sequence waits for at most one prefill step between two tokens.
/// A request is admitted when pages for all of its tokens are free, in order of arrival.
class Scheduler {
public:
  struct Step {
    uint32_t program;
    std::vector<StepItem> items;
    std::vector<Generation *> generations; ///< of the items, in order
  };

  /// `chunk` limits the rows of one sequence per prefill step.
  Scheduler(const dsv3_module_desc &module, const ProgramSet &programs, BlockManager &blocks, int64_t chunk);

  void add(std::unique_ptr<Generation> generation);
  bool empty() const { return waiting.empty() && running.empty(); }
  size_t waitingCount() const { return waiting.size(); }
  size_t runningCount() const { return running.size(); }
  size_t maxRunningCount() const { return maxRunning; }

  /// Marks a request as cancelled; false when it is not here.
  bool cancel(RequestId id);

  /// Marks all requests that have not ended.
  void finishAll(FinishReason reason);

  /// The next step; no items when nothing can run.
  Step schedule();

  /// Removes finished requests, frees their pages and returns them.
  std::vector<std::unique_ptr<Generation>> retire();

private:
  void admit();
  Step stepOf(uint32_t phase, const std::vector<Generation *> &candidates);

  const dsv3_module_desc &module;
  const ProgramSet &programs;
  BlockManager &blocks;
  int64_t chunk;
  size_t maxRunning;
  bool lastWasPrefill = false;
  std::deque<std::unique_ptr<Generation>> waiting;
  std::vector<std::unique_ptr<Generation>> running; // in order of admission
};

} // namespace dsv3
