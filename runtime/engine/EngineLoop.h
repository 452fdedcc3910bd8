// A thread that runs an engine, and the door through which other threads talk to it.
//
// The engine is not thread-safe. The loop's thread owns it: others leave requests and cancellations in an inbox (Inbox.h), which
// is emptied before each step. No lock is held while a step runs or a callback is called.
#pragma once

#include "runtime/engine/Inbox.h"

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

namespace dsv3 {

class EngineLoop {
public:
  struct Options {
    int64_t maxQueued = 0;                        ///< requests that may wait for a place to run; 0: unbounded
    std::chrono::milliseconds watchdog{60'000};   ///< a step that takes longer is stuck
    std::function<void()> beforeStep;             ///< for tests: called on the engine thread before each step, inside
                                                  ///< the watchdog's time. May be empty
  };

  /// Starts the thread. `engine` must outlive the loop and is used by nobody else from now on.
  EngineLoop(Engine &engine, Options options);

  /// Cancels everything and joins: each request's onFinish has been called.
  ~EngineLoop();

  EngineLoop(const EngineLoop &) = delete;
  EngineLoop &operator=(const EngineLoop &) = delete;

  /// Any thread. Errors as Engine::submit's; Busy when maxQueued requests wait beyond those that have a place;
  /// Unavailable when draining or failed. The request's callbacks run on the engine thread, the first of them maybe before
  /// this returns.
  Result<RequestId> submit(Request request) { return inbox.submit(std::move(request)); }

  /// Any thread. Takes effect within one step: onFinish(Cancelled) follows unless the request has ended.
  void cancel(RequestId id) { inbox.cancel(id); }

  /// No new requests from now on; those that are here go on.
  void drain() { inbox.drain(); }

  /// Nothing waits or runs, and all callbacks have returned.
  bool idle() const { return inbox.idle(); }

  /// The engine as it was after the last step, with what has arrived since as waiting. Any thread.
  EngineSnapshot snapshot() const { return inbox.snapshot(); }

  /// The step that runs has taken longer than the watchdog allows. It may still end: ask again.
  bool stuck() const;

  /// The engine's own error, after which nothing runs any more: every request was finished with FinishReason::Error.
  std::optional<Error> failure() const { return inbox.failure(); }

private:
  using Clock = std::chrono::steady_clock;

  void run();
  Status runStep();

  Engine &engine;
  const Options options;
  std::atomic<Clock::rep> stepStart{0}; // 0: no step runs
  Inbox inbox;
  std::thread thread; // last: starts when all else is there
};

} // namespace dsv3
