// Independent pieces of a compilation on several threads.
#pragma once

#include "runtime/core/Result.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <thread>
#include <vector>

namespace dsv3::codegen {

/// Runs each(0), …, each(n - 1), `jobs` at a time; none starts after an error. Returns the error of the lowest index that
/// has one, whatever the order was: pieces start in order, so that one has started.
inline Status runAll(size_t n, int jobs, const std::function<Status(size_t)> &each) {
  std::vector<Status> results(n);
  std::atomic<size_t> next{0};
  std::atomic<bool> failed{false};
  auto work = [&] {
    for (size_t i; !failed && (i = next++) < n;)
      if (!(results[i] = each(i)))
        failed = true;
  };
  std::vector<std::thread> threads;
  for (int t = 1; t < jobs; ++t)
    threads.emplace_back(work);
  work();
  for (std::thread &t : threads)
    t.join();
  for (Status &s : results)
    if (!s)
      return s.error();
  return {};
}

} // namespace dsv3::codegen
