// What `dsv3-bench serve` is asked for: the flags of `vllm bench serve` (https://docs.vllm.ai/en/latest/cli/bench/serve/),
// and ours.
#pragma once

#include "runtime/core/Json.h"
#include "runtime/core/Result.h"

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace dsv3::bench::serve {

struct DatasetOptions {
  std::string name = "random", path;
  int64_t prompts = 1000;
  uint64_t seed = 0;
  std::optional<int64_t> inputLen, outputLen; ///< for every data set, over its own
  int64_t randomInputLen = 1024, randomOutputLen = 128, randomPrefixLen = 0;
  double randomRangeRatio = 0;
  std::optional<int64_t> sharegptOutputLen;
  int64_t customOutputLen = 256;
  int64_t prefixLen = 256, suffixLen = 256, prefixes = 10, prefixOutputLen = 128;
  bool noOversample = false, disableShuffle = false;
};

struct TrafficOptions {
  double requestRate = std::numeric_limits<double>::infinity(); ///< per second
  double burstiness = 1;
  int64_t maxConcurrency = 0; ///< 0: no bound
  std::string rampUp;         ///< "linear", "exponential" or empty
  std::optional<double> rampUpStart, rampUpEnd;
  int64_t warmups = 0;
  double readyTimeout = 0, requestTimeout = 600; ///< seconds
};

struct ReportOptions {
  std::string percentileMetrics = "ttft,tpot,itl", percentiles = "99";
  std::vector<std::string> goodput, metadata;
  std::string label, dir, filename, plot;
  bool save = false, detailed = false, append = false, quiet = false;
};

struct ServeOptions {
  std::string backend = "openai", baseUrl, host = "127.0.0.1", endpoint, model, servedModelName, tokenizer;
  int64_t port = 8000;
  std::vector<std::string> headers;
  std::string extraBodyText, requestIdPrefix = "bench-";
  bool ignoreEos = false;
  std::optional<int64_t> logprobs, topK;
  std::optional<double> topP, minP, temperature, frequencyPenalty, presencePenalty, repetitionPenalty;
  DatasetOptions dataset;
  TrafficOptions traffic;
  ReportOptions report;
  std::vector<int64_t> sweep; ///< --sweep-concurrency

  // From the flags, by check().
  Json extraBody = Json::object();            ///< sampling parameters and --extra-body
  std::map<std::string, double> goodput;      ///< metric -> milliseconds
  std::vector<std::string> metrics;           ///< --percentile-metrics
  std::vector<double> percentiles;            ///< --metric-percentiles
  std::vector<std::pair<std::string, std::string>> headerList, metadataList;

  bool chat() const { return backend == "openai-chat"; }
  /// --base-url, or what --host and --port say.
  std::string url() const;
};

void declareServe(CLI::App &app, ServeOptions &o);
/// Fills the second part of `o`; errors name the flag.
Status check(ServeOptions &o);

} // namespace dsv3::bench::serve
