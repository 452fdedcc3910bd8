// The sequences of one HTTP request, from the engine's thread to the server's.
#pragma once

#include "runtime/server/Asio.h"
#include "runtime/server/Metrics.h"
#include "runtime/server/Prepared.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::server {

/// What happened to one choice, in order.
struct Event {
  size_t choice;
  std::string text;                  ///< whole characters
  std::optional<SampledToken> token; ///< absent where the end made more text certain
  std::shared_ptr<const PromptLogprobs> prompt;
  std::optional<FinishReason> end;   ///< the last event of a choice
  std::optional<dsv3::Error> error = {}; ///< of the request itself, with the end
};

/// Submits, hands events over, counts, cancels. Made and used on the server's thread; the engine's thread calls in through
/// the requests' callbacks, which keep it alive.
class Generation : public std::enable_shared_from_this<Generation> {
public:
  using Clock = std::chrono::steady_clock;

  /// `loop` and `metrics` must outlive it. `maxPending`: bytes of events that may wait for a slow reader; 0: any number.
  Generation(EngineLoop &loop, Metrics &metrics, const asio::any_io_executor &executor, size_t maxPending)
      : loop(loop), metrics(metrics), executor(executor), wake(executor), maxPending(maxPending) {}

  /// Submits all choices, prompt by prompt; on an error those already submitted are cancelled. `seed`: for a request without one.
  std::optional<ApiError> start(Prepared &prepared, const ServedModel &model, const std::string &name, uint64_t seed);

  /// Waits for events and returns those there are; none after interrupt() or once all choices have ended.
  awaitable<std::vector<Event>> events();

  /// The connection's client is gone, or its time is up: ends events() without more.
  void interrupt();
  bool interrupted() const { return isInterrupted; }

  /// Ends the choices that have not ended. Safe to call at any time.
  void cancel();

  bool ended() const { return endsSeen == choices.size(); }
  size_t size() const { return choices.size(); }

  /// The reader is too slow: called once on the server's thread.
  std::function<void()> onOverflow;

  struct Usage {
    int64_t prompt = 0, completion = 0, cached = 0;
  };
  Usage usage() const;
  int64_t completionTokens(size_t choice) const { return choices[choice]->tokens; }

private:
  struct Choice {
    std::unique_ptr<Completion> completion;
    std::optional<RequestId> id;
    Clock::time_point submitted, started, first, last;
    std::atomic<int64_t> tokens{0}, cached{0};
    bool ended = false; ///< seen by the server's thread
  };

  std::optional<ApiError> submit(size_t index, const Prompt &prompt, const Params &params, const std::string &name);
  Request makeRequest(size_t index, const Prompt &prompt, const Params &params);
  void push(Event event); // any thread
  void wakeUp();
  void countToken(Choice &choice);
  void countEnd(Choice &choice, FinishReason reason);

  EngineLoop &loop;
  Metrics &metrics;
  asio::any_io_executor executor;
  Signal wake;
  size_t maxPending;
  std::vector<std::unique_ptr<Choice>> choices;
  std::function<std::shared_ptr<TokenConstraint>()> makeConstraint;
  const char *promptField = "";
  int64_t promptTokens = 0;
  size_t endsSeen = 0;
  bool isInterrupted = false;

  std::mutex mutex; // guards what follows
  std::vector<Event> pending;
  size_t pendingBytes = 0;
  bool posted = false, overflowed = false;
};

} // namespace dsv3::server
