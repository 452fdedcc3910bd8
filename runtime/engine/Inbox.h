// What other threads leave for an engine, and what they may know of it: requests, cancellations, a bound on the queue, a snapshot.
//
// Thread-safe. It calls the engine's check() and newId() from any thread; what moves the engine is called by the engine's thread.
// Without a thread (a simulator) the same calls in turn do the same.
#pragma once

#include "runtime/engine/Engine.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <vector>

namespace dsv3 {

class Inbox {
public:
  /// `maxQueued`: requests that may wait beyond those that have a place to run; 0: any number. `engine` must outlive this.
  Inbox(Engine &engine, int64_t maxQueued) : engine(engine), maxQueued(maxQueued), last(engine.snapshot()) {}

  //===-- Any thread --------------------------------------------------------===//

  /// Errors as Engine::submit's; Busy when the queue is full; Unavailable when draining or failed.
  Result<RequestId> submit(Request request);
  void cancel(RequestId id);
  /// No new requests from now on.
  void drain();
  /// Like drain(), and wait() returns false.
  void close();
  /// Nothing waits or runs.
  bool idle() const;
  /// The engine as it was published last, with what has arrived since as waiting.
  EngineSnapshot snapshot() const;
  /// What fail() was told.
  std::optional<Error> failure() const;

  //===-- The engine's thread -----------------------------------------------===//

  /// Until there is something to do. False once closed.
  bool wait();
  /// Gives requests and cancellations to the engine.
  void deliver();
  /// Takes the engine's snapshot. To be called after each deliver(), when the engine has moved.
  void publish();
  /// New requests are refused from now on.
  void fail(const Error &error);

private:
  struct Incoming {
    RequestId id;
    Request request;
  };

  Engine &engine;
  const int64_t maxQueued;

  mutable std::mutex mutex; // of all below; not held while the engine moves or a callback is called
  std::condition_variable wake;
  std::vector<Incoming> incoming;
  std::vector<RequestId> cancellations;
  size_t taken = 0; // delivered requests that `last` does not count yet
  EngineSnapshot last;
  std::optional<Error> failed;
  bool draining = false, closed = false;
};

} // namespace dsv3
