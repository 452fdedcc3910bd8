// Counters and histograms of the server, as Prometheus text.
//
// Names, labels and buckets are those of vLLM's V1 engine (vllm/v1/metrics/loggers.py), so that dashboards work; what it does
// not have begins with "dsv3:". Times are seconds. Any thread may count while another one reads: each number is right, numbers
// of one scrape may be a moment apart.
#pragma once

#include "runtime/engine/EngineLoop.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::server {

class Histogram {
public:
  /// Upper bounds, ascending; +Inf is added.
  explicit Histogram(std::vector<double> bounds);
  void observe(double value);
  /// Appends the lines `NAME_bucket`, `NAME_sum` and `NAME_count`; `labels` without braces.
  void write(std::string &out, std::string_view name, const std::string &labels) const;

private:
  std::vector<double> bounds;
  std::unique_ptr<std::atomic<uint64_t>[]> counts; ///< one more than bounds; not cumulative
  std::atomic<double> sum{0};
};

class Metrics {
public:
  Metrics(std::string modelName, int64_t maxModelLen);

  Histogram timeToFirstToken, interToken, timePerOutputToken, endToEnd, queueTime, prefillTime, decodeTime, inferenceTime;
  Histogram promptLength, generationLength, paramsN, paramsMaxTokens;
  std::atomic<uint64_t> promptTokens{0}, generationTokens{0}, cachedTokens{0};
  std::atomic<int64_t> connections{0};
  std::atomic<uint64_t> disconnects{0}, slowReaders{0}, refusedConnections{0};

  void finished(FinishReason reason) { ++byReason[size_t(reason)]; }
  void responded(unsigned status);

  /// What stands in /metrics. `stuck`, `draining`: gauges of 0 or 1.
  std::string text(const EngineSnapshot &engine, bool stuck, bool draining) const;

private:
  void writeEngine(std::string &out, const EngineSnapshot &engine) const;
  void writeRequests(std::string &out) const;
  void writeServer(std::string &out, bool stuck, bool draining) const;

  std::string labels; ///< model_name="...",engine="0"
  std::array<std::atomic<uint64_t>, 4> byReason{};
  std::array<std::atomic<uint64_t>, 600> byStatus{};
};

/// `text` as the value of a label: backslash, quote and line end escaped.
std::string labelValue(std::string_view text);
/// vLLM's name of a reason: "stop", "length", "abort", "error".
const char *reasonLabel(FinishReason reason);

} // namespace dsv3::server
