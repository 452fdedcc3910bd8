// The engine behind its thread: submissions, cancellations, draining, a stuck step, a failed device.
#include "runtime/engine/EngineLoop.h"

#include "Rig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>

using namespace dsv3;
using namespace std::chrono_literals;
using testing::HasSubstr;

namespace {

/// A request whose end can be waited for from the test's thread.
struct Waited {
  Outcome outcome; // read after done
  std::promise<FinishReason> promise;
  std::future<FinishReason> done = promise.get_future();

  Request request(const Ids &prompt, int maxTokens) {
    Request r = dsv3::request(prompt, maxTokens, outcome);
    r.onFinish = [this](FinishReason reason) { promise.set_value(reason); };
    return r;
  }

  FinishReason wait() {
    EXPECT_EQ(done.wait_for(20s), std::future_status::ready);
    return done.get();
  }
};

/// Holds the engine thread before a step until told to go on.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = true, held = false;

  void pass() {
    std::unique_lock lock(mutex);
    held = !open;
    changed.notify_all();
    changed.wait(lock, [this] { return open; });
    held = false;
  }
  void close() {
    std::lock_guard lock(mutex);
    open = false;
  }
  void release() {
    std::lock_guard lock(mutex);
    open = true;
    changed.notify_all();
  }
  void waitUntilHeld() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return held && !open; }); // open: released, but not gone on yet
  }
};

template <typename Fn> bool eventually(Fn fn) {
  for (int i = 0; i < 4000; ++i, std::this_thread::sleep_for(5ms))
    if (fn())
      return true;
  return false;
}

TEST(EngineLoop, RequestsOfManyThreadsGetTheirTokens) {
  Rig s;
  EngineLoop loop(*s.engine, {});
  constexpr int kThreads = 4, kEach = 5;
  std::vector<Waited> waited(kThreads * kEach);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      for (int i = t * kEach; i < (t + 1) * kEach; ++i)
        EXPECT_TRUE(bool(loop.submit(waited[i].request(randomIds(10 + i, i), 6))));
    });
  for (std::thread &t : threads)
    t.join();
  for (int i = 0; i < kThreads * kEach; ++i) {
    EXPECT_EQ(waited[i].wait(), FinishReason::Length);
    EXPECT_EQ(waited[i].outcome.ids, expectedTokens(randomIds(10 + i, i), 6));
  }
  EXPECT_TRUE(eventually([&] { return loop.idle(); }));
  EngineSnapshot now = loop.snapshot();
  EXPECT_EQ(now.freePages, now.totalPages);
  EXPECT_EQ(now.finished[int(FinishReason::Length)], 20u);
  EXPECT_EQ(now.generatedTokens, 120u);
  EXPECT_FALSE(loop.failure());
}

TEST(EngineLoop, SaysWhatIsWrongAtOnce) {
  Rig s;
  EngineLoop loop(*s.engine, {});
  Waited w;
  Result<RequestId> id = loop.submit(w.request({-1}, 5));
  ASSERT_FALSE(bool(id));
  EXPECT_EQ(id.error().code, ExitCode::Usage);
  EXPECT_TRUE(loop.idle());
}

TEST(EngineLoop, CancelsWhatWaitsAndWhatRuns) {
  Rig s;
  Gate gate;
  gate.close();
  EngineLoop::Options options;
  int steps = 0;
  options.beforeStep = [&] {
    if (++steps == 20) // all four run by then, and none is near its end
      gate.close();
    gate.pass();
  };
  EngineLoop loop(*s.engine, options);
  std::vector<Waited> waited(6); // four have a place
  std::vector<RequestId> ids;
  for (Waited &w : waited)
    ids.push_back(*loop.submit(w.request(randomIds(20, 1), 200)));
  gate.waitUntilHeld();
  gate.release();
  gate.waitUntilHeld();
  ASSERT_EQ(loop.snapshot().running, 4u);
  loop.cancel(ids[0]);
  loop.cancel(ids[5]);
  loop.cancel(12345); // unknown: nothing happens
  gate.release();
  EXPECT_EQ(waited[0].wait(), FinishReason::Cancelled);
  EXPECT_EQ(waited[5].wait(), FinishReason::Cancelled);
  EXPECT_TRUE(waited[5].outcome.ids.empty());
  for (int i = 1; i < 5; ++i)
    EXPECT_EQ(waited[i].wait(), FinishReason::Length);
  EXPECT_TRUE(eventually([&] { return loop.snapshot().freePages == loop.snapshot().totalPages; }));
}

TEST(EngineLoop, BoundsTheQueue) {
  Rig s;
  Gate gate;
  gate.close();
  EngineLoop::Options options;
  options.maxQueued = 3;
  options.beforeStep = [&] { gate.pass(); };
  EngineLoop loop(*s.engine, options);
  std::vector<Waited> waited(20);
  int accepted = 0;
  for (Waited &w : waited) {
    Result<RequestId> id = loop.submit(w.request(randomIds(20, 1), 2));
    if (id)
      ++accepted;
    else
      EXPECT_EQ(id.error().code, ExitCode::Busy) << id.error().message;
  }
  EXPECT_EQ(accepted, 4 + 3) << "four run, three wait";
  gate.release();
  for (int i = 0; i < accepted; ++i)
    EXPECT_EQ(waited[i].wait(), FinishReason::Length);
  EXPECT_TRUE(eventually([&] { return loop.idle(); }));
  EXPECT_TRUE(bool(loop.submit(waited[19].request(randomIds(20, 1), 2)))) << "there is room again";
  EXPECT_EQ(waited[19].wait(), FinishReason::Length);
}

TEST(EngineLoop, DrainingFinishesWhatIsHere) {
  Rig s;
  EngineLoop loop(*s.engine, {});
  Waited kept, refused;
  ASSERT_TRUE(bool(loop.submit(kept.request(randomIds(20, 1), 50))));
  loop.drain();
  Result<RequestId> id = loop.submit(refused.request({1}, 1));
  ASSERT_FALSE(bool(id));
  EXPECT_EQ(id.error().code, ExitCode::Unavailable);
  EXPECT_EQ(kept.wait(), FinishReason::Length);
  EXPECT_EQ(kept.outcome.ids.size(), 50u);
}

TEST(EngineLoop, ItsEndCancelsTheRest) {
  Rig s;
  std::vector<Waited> waited(8);
  {
    EngineLoop loop(*s.engine, {});
    for (Waited &w : waited)
      ASSERT_TRUE(bool(loop.submit(w.request(randomIds(20, 1), 300))));
  }
  int cancelled = 0;
  for (Waited &w : waited)
    cancelled += w.wait() == FinishReason::Cancelled;
  EXPECT_GT(cancelled, 0);
  EXPECT_EQ(s.engine->snapshot().freePages, s.engine->snapshot().totalPages);
}

TEST(EngineLoop, SeesAStepThatIsStuckAndThatItGoesOn) {
  Rig s;
  Gate gate;
  EngineLoop::Options options;
  options.watchdog = 50ms;
  options.beforeStep = [&] { gate.pass(); };
  EngineLoop loop(*s.engine, options);
  EXPECT_FALSE(loop.stuck());
  gate.close();
  Waited w;
  ASSERT_TRUE(bool(loop.submit(w.request(randomIds(20, 1), 3))));
  EXPECT_TRUE(eventually([&] { return loop.stuck(); }));
  EXPECT_EQ(loop.snapshot().waiting, 1u) << "nobody waits for the step to read this";
  gate.release();
  EXPECT_EQ(w.wait(), FinishReason::Length);
  EXPECT_TRUE(eventually([&] { return !loop.stuck(); }));
}

TEST(EngineLoop, AFailedEngineEndsEveryRequest) {
  Rig s(0, 0, 2, "dsv3_fake_dies");
  std::vector<Waited> waited(6);
  Gate gate;
  gate.close();
  EngineLoop::Options options;
  options.beforeStep = [&] { gate.pass(); };
  EngineLoop loop(*s.engine, options);
  for (Waited &w : waited)
    ASSERT_TRUE(bool(loop.submit(w.request(randomIds(&w == &waited[0] ? 1 : 2, 1), 3))));
  gate.release();
  for (Waited &w : waited)
    EXPECT_EQ(w.wait(), FinishReason::Error);
  ASSERT_TRUE(bool(loop.failure()));
  EXPECT_EQ(loop.failure()->code, ExitCode::Internal);
  Waited late;
  Result<RequestId> id = loop.submit(late.request({1}, 1));
  ASSERT_FALSE(bool(id));
  EXPECT_EQ(id.error().code, ExitCode::Unavailable);
  EXPECT_THAT(id.error().message, HasSubstr("launch append"));
  EXPECT_TRUE(eventually([&] { return loop.idle(); }));
  EXPECT_EQ(loop.snapshot().freePages, loop.snapshot().totalPages);
}

} // namespace
