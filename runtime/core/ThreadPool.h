// Persistent threads that share the tiles of one kernel after another.
//
// A decode step launches hundreds of kernels of a few microseconds, so a launch must not
// wait for a sleeping thread: the caller takes part, threads that come late find nothing
// left and do no harm. Tiles may go to any thread: kernels promise the same bits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace dsv3 {

class ThreadPool {
public:
  /// Does tiles [begin, end). `scratch` belongs to the calling thread alone.
  using Body = void (*)(void *context, int64_t begin, int64_t end, void *scratch);

  /// `threads` counts the caller; at least 1. Each thread gets `scratchBytes`, 64-byte aligned.
  ThreadPool(int threads, size_t scratchBytes);
  ~ThreadPool();
  ThreadPool(const ThreadPool &) = delete;
  ThreadPool &operator=(const ThreadPool &) = delete;

  int size() const { return static_cast<int>(scratch.size()); }

  /// Covers [0, tiles) exactly once; returns when all tiles are done. One caller at a time.
  void run(int64_t tiles, Body body, void *context);

  /// The cores this process may use.
  static int defaultThreads();

private:
  struct FreeScratch {
    void operator()(void *p) const;
  };

  void workerLoop(int slot);
  void takeChunks(uint32_t epoch, void *scratchOfThread);
  void sleepUntilNewJob(uint32_t seen);
  bool isNew(uint32_t seen) const;

  // The job. `ticket` = epoch << 32 | chunks nobody has taken. A compare-and-swap that takes
  // one proves that the fields read before it belong to this job: they change only after all
  // of its chunks are done, and this one was not. The count lives in the ticket, because a
  // late thread could hold a finished job's ticket against the next job's count.
  std::atomic<uint64_t> ticket{0};
  std::atomic<int64_t> chunksLeft{0};
  std::atomic<int64_t> jobTiles{0};
  std::atomic<uint32_t> jobChunks{0};
  std::atomic<Body> jobBody{nullptr};
  std::atomic<void *> jobContext{nullptr};

  std::atomic<bool> stopping{false};
  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  int spins; // iterations before a thread goes to sleep
  std::vector<std::unique_ptr<void, FreeScratch>> scratch;
  std::vector<std::thread> threads;
};

} // namespace dsv3
