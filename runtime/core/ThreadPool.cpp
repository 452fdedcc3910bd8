#include "runtime/core/ThreadPool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

namespace dsv3 {

namespace {

// More chunks than threads, so that a thread that lost its core for a while costs little.
constexpr int64_t kChunksPerThread = 4;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

} // namespace

void ThreadPool::FreeScratch::operator()(void *p) const { std::free(p); }

int ThreadPool::defaultThreads() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

ThreadPool::ThreadPool(int count, size_t scratchBytes) {
  count = std::max(1, count);
  // About 50 us: longer than the gap between two launches. With more threads than cores a
  // spinning thread would only keep a working one from running.
  spins = count > defaultThreads() ? 0 : 2000;
  size_t bytes = (std::max<size_t>(scratchBytes, 64) + 63) / 64 * 64;
  for (int i = 0; i < count; ++i) {
    scratch.emplace_back(std::aligned_alloc(64, bytes));
    if (!scratch.back())
      throw std::bad_alloc();
  }
  for (int slot = 1; slot < count; ++slot)
    threads.emplace_back([this, slot] { workerLoop(slot); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stopping = true;
  }
  wake.notify_all();
  for (std::thread &t : threads)
    t.join();
}

void ThreadPool::run(int64_t tiles, Body body, void *context) {
  if (tiles <= 0)
    return;
  if (tiles == 1 || threads.empty()) {
    body(context, 0, tiles, scratch[0].get());
    return;
  }
  int64_t chunks = std::min<int64_t>(tiles, kChunksPerThread * size());
  jobTiles.store(tiles, std::memory_order_relaxed);
  jobChunks.store(static_cast<uint32_t>(chunks), std::memory_order_relaxed);
  jobBody.store(body, std::memory_order_relaxed);
  jobContext.store(context, std::memory_order_relaxed);
  chunksLeft.store(chunks, std::memory_order_relaxed);
  uint32_t epoch = static_cast<uint32_t>(ticket.load(std::memory_order_relaxed) >> 32) + 1;
  // Sequentially consistent together with `sleepers`: a thread about to sleep either sees
  // this ticket or is counted below.
  ticket.store(uint64_t(epoch) << 32 | uint64_t(chunks));
  if (sleepers.load() > 0) {
    std::lock_guard<std::mutex> lock(mutex);
    wake.notify_all();
  }
  takeChunks(epoch, scratch[0].get());
  for (int i = 0; chunksLeft.load(std::memory_order_acquire) > 0; ++i)
    i < spins ? pause() : std::this_thread::yield();
}

void ThreadPool::takeChunks(uint32_t epoch, void *scratchOfThread) {
  uint64_t t = ticket.load(std::memory_order_acquire);
  while (static_cast<uint32_t>(t >> 32) == epoch) {
    int64_t untaken = static_cast<uint32_t>(t);
    if (untaken == 0)
      return;
    int64_t chunks = jobChunks.load(std::memory_order_relaxed);
    int64_t tiles = jobTiles.load(std::memory_order_relaxed);
    Body body = jobBody.load(std::memory_order_relaxed);
    void *context = jobContext.load(std::memory_order_relaxed);
    if (!ticket.compare_exchange_weak(t, t - 1, std::memory_order_acq_rel, std::memory_order_acquire))
      continue;
    int64_t chunk = chunks - untaken;
    body(context, tiles * chunk / chunks, tiles * (chunk + 1) / chunks, scratchOfThread);
    chunksLeft.fetch_sub(1, std::memory_order_acq_rel);
    t = ticket.load(std::memory_order_acquire);
  }
}

bool ThreadPool::isNew(uint32_t seen) const { return static_cast<uint32_t>(ticket.load() >> 32) != seen; }

void ThreadPool::sleepUntilNewJob(uint32_t seen) {
  std::unique_lock<std::mutex> lock(mutex);
  ++sleepers;
  wake.wait(lock, [&] { return stopping || isNew(seen); });
  --sleepers;
}

void ThreadPool::workerLoop(int slot) {
  uint32_t seen = 0;
  while (!stopping) {
    for (int i = 0; i < spins && !stopping && !isNew(seen); ++i)
      pause();
    if (!isNew(seen))
      sleepUntilNewJob(seen);
    if (!isNew(seen))
      continue;
    seen = static_cast<uint32_t>(ticket.load(std::memory_order_acquire) >> 32);
    takeChunks(seen, scratch[slot].get());
  }
}

} // namespace dsv3
