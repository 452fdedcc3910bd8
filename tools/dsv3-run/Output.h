// Standard output: text as it comes, or JSON.
#pragma once

#include "runtime/core/Json.h"
#include "runtime/core/Result.h"
#include "runtime/engine/Completion.h"

#include <string>
#include <vector>

namespace dsv3::run {

/// Writes and flushes. After the reader has gone (a closed pipe) everything is dropped
/// and `closed()` says so; another failure is kept in `status()`.
class Output {
public:
  void write(const std::string &text);
  bool closed() const { return gone; }
  const Status &status() const { return failure; }

private:
  bool gone = false;
  Status failure;
};

/// {prompt_ids, ids, text, finish_reason, logprobs, timings {load_ms, ttft_ms, tpot_ms,
/// tokens_per_second}} on one line; with `index` for a batch.
std::string jsonLine(const std::vector<int32_t> &prompt, const Completion &completion, double loadMs,
                     std::optional<size_t> index);

} // namespace dsv3::run
