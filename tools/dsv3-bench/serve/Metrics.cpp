#include "tools/dsv3-bench/serve/Metrics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dsv3::bench::serve {

namespace {
/// Tokens after the first share the time after the first; 0 where there is none.
double tpotOf(const Outcome &o, int64_t tokens) { return tokens > 1 ? (o.latency - o.ttft) / double(tokens - 1) : 0; }

/// A server that sends no usage is believed to send one token a chunk.
int64_t tokensOf(const Outcome &o) { return o.outputLen ? o.outputLen : int64_t(o.itl.size()) + 1; }

bool good(const ServeOptions &o, const Outcome &r) {
  for (const auto &[metric, ms] : o.goodput) {
    double value = metric == "ttft" ? r.ttft : metric == "tpot" ? tpotOf(r, tokensOf(r)) : r.latency;
    if (value * 1000 > ms)
      return false;
  }
  return true;
}

/// Most requests that ran at one time. One that ends when another starts does not overlap it.
int64_t peakOf(const Load &load) {
  std::vector<std::pair<double, int>> events;
  for (const Outcome &r : load.outcomes)
    if (r.success) {
      events.push_back({r.start, 1});
      events.push_back({r.start + r.latency, -1});
    }
  std::sort(events.begin(), events.end());
  int64_t now = 0, peak = 0;
  for (const auto &event : events)
    peak = std::max(peak, now += event.second);
  return peak;
}

std::string percentileWord(double p) {
  OrderedJson json = p == std::floor(p) ? OrderedJson(int64_t(p)) : OrderedJson(p);
  return json.dump();
}

std::string line(const std::string &what, const std::string &value) {
  std::string text = what;
  text.resize(std::max<size_t>(40, what.size()), ' ');
  return text + " " + value + "\n";
}

std::string fixed(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::string rule(const std::string &title, char with) {
  size_t left = (50 - title.size()) / 2;
  return std::string(left, with) + title + std::string(50 - title.size() - left, with) + "\n";
}

struct Names {
  const char *shortName, *longName;
};
Names namesOf(const std::string &metric) {
  if (metric == "ttft")
    return {"TTFT", " Time to first token "};
  if (metric == "tpot")
    return {"TPOT", " Time per token after the first "};
  if (metric == "itl")
    return {"ITL", " Inter-token latency "};
  if (metric == "e2el")
    return {"E2EL", " End-to-end latency "};
  if (metric == "client_queue_time")
    return {"client queue time", " Wait for --max-concurrency "};
  return {"E2EL incl. client queue", " End-to-end latency with that wait "};
}
} // namespace

double percentile(const std::vector<double> &sorted, double p) {
  double at = p / 100 * double(sorted.size() - 1);
  size_t low = size_t(at), high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - double(low));
}

Summary summarize(std::vector<double> seconds, const std::vector<double> &percentiles) {
  Summary s;
  if (seconds.empty())
    seconds.push_back(0);
  std::sort(seconds.begin(), seconds.end());
  double n = double(seconds.size());
  double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / n, squares = 0;
  for (double v : seconds)
    squares += (v - mean) * (v - mean);
  s.mean = 1000 * mean;
  s.median = 1000 * percentile(seconds, 50);
  s.deviation = 1000 * std::sqrt(squares / n);
  for (double p : percentiles)
    s.percentiles.push_back(1000 * percentile(seconds, p));
  return s;
}

Metrics measure(const ServeOptions &o, const Load &load, int64_t maxConcurrency) {
  Metrics m;
  std::map<std::string, std::vector<double>> values;
  int64_t goodRequests = 0;
  for (const Outcome &r : load.outcomes) {
    m.outputLens.push_back(r.success ? tokensOf(r) : 0);
    if (!r.success) {
      ++m.failed;
      continue;
    }
    int64_t tokens = tokensOf(r);
    ++m.completed;
    m.totalInput += r.inputLen;
    m.totalOutput += tokens;
    values["ttft"].push_back(r.ttft);
    if (tokens > 1)
      values["tpot"].push_back(tpotOf(r, tokens));
    values["itl"].insert(values["itl"].end(), r.itl.begin(), r.itl.end());
    values["e2el"].push_back(r.latency);
    values["client_queue_time"].push_back(r.queued);
    values["e2el_including_client_queue"].push_back(r.queued + r.latency);
    goodRequests += good(o, r);
  }
  double d = m.duration = std::max(load.duration, 1e-9);
  m.requestThroughput = double(m.completed) / d;
  m.goodput = double(goodRequests) / d;
  m.outputThroughput = double(m.totalOutput) / d;
  m.totalThroughput = double(m.totalInput + m.totalOutput) / d;
  std::vector<double> perSecond = tokensPerSecond(load);
  m.peakOutput = perSecond.empty() ? 0 : *std::max_element(perSecond.begin(), perSecond.end());
  m.peakConcurrency = peakOf(load);
  for (const std::string &metric : o.metrics) {
    // Without a bound nothing waits here.
    bool queue = metric.find("client_queue") != std::string::npos;
    if (!queue || maxConcurrency)
      m.summaries.emplace_back(metric, summarize(values[metric], o.percentiles));
  }
  return m;
}

std::vector<double> tokensPerSecond(const Load &load) {
  std::vector<double> counts;
  for (const Outcome &r : load.outcomes) {
    if (!r.success)
      continue;
    double time = r.start + r.ttft;
    for (size_t i = 0; i <= r.itl.size(); ++i) {
      size_t second = size_t(time);
      if (counts.size() <= second)
        counts.resize(second + 1);
      ++counts[second];
      time += i < r.itl.size() ? r.itl[i] : 0;
    }
  }
  return counts;
}

std::vector<double> runningPerSecond(const Load &load) {
  std::vector<double> counts(size_t(load.duration) + 1, 0.0);
  for (const Outcome &r : load.outcomes)
    for (size_t s = size_t(r.start); r.success && s < counts.size() && double(s) < r.start + r.latency; ++s)
      ++counts[s];
  return counts;
}

OrderedJson toJson(const ServeOptions &o, const Metrics &m, const Load &load, bool detailed) {
  OrderedJson json = {{"duration", m.duration},
                      {"completed", m.completed},
                      {"failed", m.failed},
                      {"total_input_tokens", m.totalInput},
                      {"total_output_tokens", m.totalOutput},
                      {"request_throughput", m.requestThroughput},
                      {"request_goodput", o.goodput.empty() ? OrderedJson() : OrderedJson(m.goodput)},
                      {"output_throughput", m.outputThroughput},
                      {"total_token_throughput", m.totalThroughput}};
  if (detailed) {
    const char *keys[] = {"input_lens", "output_lens", "ttfts", "itls", "latencies", "start_times", "queue_times", "generated_texts", "errors"};
    for (const char *key : keys)
      json[key] = OrderedJson::array();
    json["output_lens"] = m.outputLens;
    for (const Outcome &r : load.outcomes) {
      json["input_lens"].push_back(r.inputLen);
      json["ttfts"].push_back(r.ttft);
      json["itls"].push_back(r.itl);
      json["latencies"].push_back(r.latency);
      json["start_times"].push_back(r.start);
      json["queue_times"].push_back(r.queued);
      json["generated_texts"].push_back(r.text);
      json["errors"].push_back(r.error);
    }
  }
  json["max_output_tokens_per_s"] = m.peakOutput;
  json["max_concurrent_requests"] = m.peakConcurrency;
  for (const auto &[metric, s] : m.summaries) {
    json["mean_" + metric + "_ms"] = s.mean;
    json["median_" + metric + "_ms"] = s.median;
    json["std_" + metric + "_ms"] = s.deviation;
    for (size_t i = 0; i < s.percentiles.size(); ++i)
      json["p" + percentileWord(o.percentiles[i]) + "_" + metric + "_ms"] = s.percentiles[i];
  }
  return json;
}

std::string toText(const ServeOptions &o, const Metrics &m, int64_t maxConcurrency) {
  std::string text = rule(" Serving benchmark result ", '=');
  text += line("Successful requests:", std::to_string(m.completed));
  text += line("Failed requests:", std::to_string(m.failed));
  if (maxConcurrency)
    text += line("Maximum request concurrency:", std::to_string(maxConcurrency));
  if (std::isfinite(o.traffic.requestRate))
    text += line("Request rate configured (RPS):", fixed(o.traffic.requestRate));
  text += line("Benchmark duration (s):", fixed(m.duration));
  text += line("Total input tokens:", std::to_string(m.totalInput));
  text += line("Total generated tokens:", std::to_string(m.totalOutput));
  text += line("Request throughput (req/s):", fixed(m.requestThroughput));
  if (!o.goodput.empty())
    text += line("Request goodput (req/s):", fixed(m.goodput));
  text += line("Output token throughput (tok/s):", fixed(m.outputThroughput));
  text += line("Peak output token throughput (tok/s):", fixed(m.peakOutput));
  text += line("Peak concurrent requests:", std::to_string(m.peakConcurrency));
  text += line("Total token throughput (tok/s):", fixed(m.totalThroughput));
  for (const auto &[metric, s] : m.summaries) {
    Names names = namesOf(metric);
    text += rule(names.longName, '-');
    text += line(std::string("Mean ") + names.shortName + " (ms):", fixed(s.mean));
    text += line(std::string("Median ") + names.shortName + " (ms):", fixed(s.median));
    for (size_t i = 0; i < s.percentiles.size(); ++i)
      text += line("P" + percentileWord(o.percentiles[i]) + " " + names.shortName + " (ms):", fixed(s.percentiles[i]));
  }
  return text + rule("", '=');
}

} // namespace dsv3::bench::serve
