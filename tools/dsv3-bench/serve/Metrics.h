// What a run says about a server. Names and definitions are those of `vllm bench serve`; docs/benchmarking-serving.md.
#pragma once

#include "tools/dsv3-bench/serve/Load.h"

namespace dsv3::bench::serve {

/// Mean, median, standard deviation and percentiles, in milliseconds.
struct Summary {
  double mean = 0, median = 0, deviation = 0;
  std::vector<double> percentiles; ///< of ServeOptions::percentiles
};

struct Metrics {
  int64_t completed = 0, failed = 0, totalInput = 0, totalOutput = 0;
  double duration = 0;
  double requestThroughput = 0, goodput = 0, outputThroughput = 0, totalThroughput = 0; ///< per second
  double peakOutput = 0;        ///< most tokens in one second of the run
  int64_t peakConcurrency = 0;
  std::vector<std::pair<std::string, Summary>> summaries; ///< "ttft" -> ..., those asked for
  std::vector<int64_t> outputLens;
};

/// `p` in [0, 100], linear between the two nearest values; `sorted` is not empty.
double percentile(const std::vector<double> &sorted, double p);
Summary summarize(std::vector<double> seconds, const std::vector<double> &percentiles);
Metrics measure(const ServeOptions &o, const Load &load, int64_t maxConcurrency);

/// Tokens that came back in each second of the run.
std::vector<double> tokensPerSecond(const Load &load);
/// Requests that ran at the end of each second.
std::vector<double> runningPerSecond(const Load &load);

/// The result file's keys; the lists of what each request did come in when `detailed`.
OrderedJson toJson(const ServeOptions &o, const Metrics &m, const Load &load, bool detailed);
/// A table for a person.
std::string toText(const ServeOptions &o, const Metrics &m, int64_t maxConcurrency);

} // namespace dsv3::bench::serve
