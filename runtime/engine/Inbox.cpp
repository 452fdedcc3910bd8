#include "runtime/engine/Inbox.h"

#include <string>
#include <utility>

namespace dsv3 {

Result<RequestId> Inbox::submit(Request request) {
  if (Status s = engine.check(request); !s)
    return s.error();
  std::lock_guard lock(mutex);
  if (failed)
    return unavailableError("the engine has failed: " + failed->message);
  if (draining)
    return unavailableError("the server is shutting down: no new requests are taken");
  const size_t here = incoming.size() + taken + last.waiting + last.running;
  if (maxQueued > 0 && here >= last.maxRunning + static_cast<size_t>(maxQueued))
    return busyError("expected at most " + std::to_string(maxQueued) + " waiting requests, got one more");
  RequestId id = engine.newId();
  incoming.push_back({id, std::move(request)});
  wake.notify_one();
  return id;
}

void Inbox::cancel(RequestId id) {
  std::lock_guard lock(mutex);
  cancellations.push_back(id);
  wake.notify_one();
}

void Inbox::drain() {
  std::lock_guard lock(mutex);
  draining = true;
}

void Inbox::close() {
  std::lock_guard lock(mutex);
  draining = closed = true;
  wake.notify_one();
}

bool Inbox::idle() const {
  std::lock_guard lock(mutex);
  return incoming.empty() && taken + last.waiting + last.running == 0;
}

EngineSnapshot Inbox::snapshot() const {
  std::lock_guard lock(mutex);
  EngineSnapshot now = last;
  now.waiting += incoming.size() + taken;
  return now;
}

std::optional<Error> Inbox::failure() const {
  std::lock_guard lock(mutex);
  return failed;
}

//===-- The engine's thread -----------------------------------------------===//

bool Inbox::wait() {
  std::unique_lock lock(mutex);
  wake.wait(lock, [this] { return closed || !incoming.empty() || !cancellations.empty() || (!failed && engine.hasWork()); });
  return !closed;
}

void Inbox::deliver() {
  std::vector<Incoming> requests;
  std::vector<RequestId> cancelled;
  {
    std::lock_guard lock(mutex);
    requests = std::exchange(incoming, {});
    cancelled = std::exchange(cancellations, {});
    taken += requests.size();
  }
  for (Incoming &r : requests)
    engine.enqueue(r.id, std::move(r.request));
  for (RequestId id : cancelled)
    engine.cancel(id);
}

void Inbox::publish() {
  EngineSnapshot now = engine.snapshot();
  std::lock_guard lock(mutex);
  last = now;
  taken = 0;
}

void Inbox::fail(const Error &error) {
  std::lock_guard lock(mutex);
  failed = error;
}

} // namespace dsv3
