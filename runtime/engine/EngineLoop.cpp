#include "runtime/engine/EngineLoop.h"

#include <algorithm>
#include <string>
#include <utility>

namespace dsv3 {

EngineLoop::EngineLoop(Engine &engine, Options given)
    : engine(engine), options(std::move(given)), last(engine.snapshot()), thread([this] { run(); }) {}

EngineLoop::~EngineLoop() {
  {
    std::lock_guard lock(mutex);
    draining = ending = true;
  }
  wake.notify_one();
  thread.join();
}

//===-- Any thread --------------------------------------------------------===//

Result<RequestId> EngineLoop::submit(Request request) {
  if (Status s = engine.check(request); !s)
    return s.error();
  std::lock_guard lock(mutex);
  if (failed)
    return unavailableError("the engine has failed: " + failed->message);
  if (draining)
    return unavailableError("the server is shutting down: no new requests are taken");
  const size_t here = inbox.size() + taken + last.waiting + last.running;
  if (options.maxQueued > 0 && here >= last.maxRunning + static_cast<size_t>(options.maxQueued))
    return busyError("expected at most " + std::to_string(options.maxQueued) + " waiting requests, got one more");
  RequestId id = engine.newId();
  inbox.push_back({id, std::move(request)});
  wake.notify_one();
  return id;
}

void EngineLoop::cancel(RequestId id) {
  std::lock_guard lock(mutex);
  cancellations.push_back(id);
  wake.notify_one();
}

void EngineLoop::drain() {
  std::lock_guard lock(mutex);
  draining = true;
}

bool EngineLoop::idle() const {
  std::lock_guard lock(mutex);
  return inbox.empty() && taken + last.waiting + last.running == 0;
}

EngineSnapshot EngineLoop::snapshot() const {
  std::lock_guard lock(mutex);
  EngineSnapshot now = last;
  now.waiting += inbox.size() + taken;
  return now;
}

bool EngineLoop::stuck() const {
  Clock::rep start = stepStart.load();
  return start != 0 && Clock::now().time_since_epoch() - Clock::duration(start) > options.watchdog;
}

std::optional<Error> EngineLoop::failure() const {
  std::lock_guard lock(mutex);
  return failed;
}

//===-- The engine thread -------------------------------------------------===//

bool EngineLoop::takeInbox(std::vector<Incoming> &requests, std::vector<RequestId> &cancelled) {
  std::unique_lock lock(mutex);
  wake.wait(lock, [this] { return ending || !inbox.empty() || !cancellations.empty() || (!failed && engine.hasWork()); });
  requests = std::exchange(inbox, {});
  cancelled = std::exchange(cancellations, {});
  taken += requests.size();
  return !ending;
}

Status EngineLoop::runStep() {
  stepStart = Clock::now().time_since_epoch().count();
  if (options.beforeStep)
    options.beforeStep();
  Status s = engine.step();
  stepStart = 0;
  return s;
}

void EngineLoop::publish() {
  EngineSnapshot now = engine.snapshot();
  std::lock_guard lock(mutex);
  last = now;
  taken = 0;
}

void EngineLoop::fail(const Error &error) {
  {
    // First, so that a callback that submits again is told.
    std::lock_guard lock(mutex);
    failed = error;
  }
  engine.finishAll(FinishReason::Error);
}

void EngineLoop::run() {
  for (bool goOn = true; goOn;) {
    std::vector<Incoming> requests;
    std::vector<RequestId> cancelled;
    goOn = takeInbox(requests, cancelled);
    for (Incoming &r : requests)
      engine.enqueue(r.id, std::move(r.request));
    for (RequestId id : cancelled)
      engine.cancel(id);
    if (!goOn)
      engine.finishAll(FinishReason::Cancelled);
    else if (failed) // what came while the engine failed
      engine.finishAll(FinishReason::Error);
    else if (engine.hasWork())
      if (Status s = runStep(); !s)
        fail(s.error());
    publish();
  }
}

} // namespace dsv3
