#include "runtime/core/ThreadPool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

using namespace dsv3;

namespace {

struct Count {
  std::vector<std::atomic<int>> hits;
  std::atomic<int> bad{0};
  explicit Count(int64_t tiles) : hits(tiles) {}

  static void body(void *self, int64_t begin, int64_t end, void *scratch) {
    Count &c = *static_cast<Count *>(self);
    if (reinterpret_cast<uintptr_t>(scratch) % 64 || begin >= end)
      ++c.bad;
    // Scratch is private: nobody may write it while this range runs.
    static_cast<volatile int64_t *>(scratch)[0] = begin;
    for (int64_t i = begin; i < end; ++i)
      ++c.hits[i];
    if (static_cast<volatile int64_t *>(scratch)[0] != begin)
      ++c.bad;
  }
};

void expectEachTileOnce(ThreadPool &pool, int64_t tiles) {
  Count count(tiles);
  pool.run(tiles, Count::body, &count);
  EXPECT_EQ(count.bad, 0);
  for (int64_t i = 0; i < tiles; ++i)
    ASSERT_EQ(count.hits[i], 1) << "tile " << i << " of " << tiles << ", " << pool.size() << " threads";
}

TEST(ThreadPool, EveryTileOnceForAnyCount) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads, 100);
    EXPECT_EQ(pool.size(), threads);
    for (int64_t tiles : {0, 1, 2, 3, 7, 8, 31, 33, 1000})
      expectEachTileOnce(pool, tiles);
  }
}

TEST(ThreadPool, ManyJobsOneAfterAnother) {
  ThreadPool pool(4, 64);
  for (int i = 0; i < 3000; ++i)
    expectEachTileOnce(pool, i % 17);
}

/// A thread that comes late for a small job must not take part in the next, larger one with
/// what it knew of the first. More threads than cores make late ones likely.
TEST(ThreadPool, LateThreadsDoNoHarm) {
  ThreadPool pool(6, 64);
  for (int i = 0; i < 4000; ++i)
    expectEachTileOnce(pool, i & 1 ? 40 : 2);
}

TEST(ThreadPool, WakesUpAfterSleep) {
  ThreadPool pool(3, 64);
  for (int i = 0; i < 5; ++i) {
    expectEachTileOnce(pool, 50);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(ThreadPool, OthersTakePart) {
  ThreadPool pool(2, 64);
  // Two tiles that wait for each other can only end on two threads.
  std::atomic<int> arrived{0};
  auto body = [](void *context, int64_t begin, int64_t end, void *) {
    auto &n = *static_cast<std::atomic<int> *>(context);
    n += int(end - begin);
    while (n < 2)
      std::this_thread::yield();
  };
  pool.run(2, body, &arrived);
  EXPECT_EQ(arrived, 2);
}

} // namespace
