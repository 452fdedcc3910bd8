// Errors of work that runs on several threads.
#pragma once

#include "runtime/core/Result.h"

#include <mutex>
#include <utility>

namespace dsv3::bench {

/// First error of functions that run on several threads.
class Errors {
public:
  template <typename T> T take(Result<T> r) {
    if (r)
      return std::move(*r);
    keep(r.error());
    return T();
  }
  void keep(const Error &e) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failed)
      error = e;
    failed = true;
  }
  bool failed = false;
  Error error;

private:
  std::mutex mutex;
};

} // namespace dsv3::bench
