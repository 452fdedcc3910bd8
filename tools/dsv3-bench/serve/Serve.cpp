#include "tools/dsv3-bench/serve/Serve.h"

#include "tools/dsv3-bench/serve/Metrics.h"
#include "tools/dsv3-bench/serve/Plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace dsv3::bench::serve {

namespace {
struct Run {
  int64_t concurrency = 0; ///< 0: no bound
  Load load;
  Metrics metrics;
};

/// One line on stderr: rewritten on a terminal, else once a second.
class Progress {
public:
  Progress(bool quiet, int64_t total) : quiet(quiet), terminal(isatty(2)), total(total), begin(Clock::now()), shown(begin) {}
  void operator()(int64_t done) {
    auto now = Clock::now();
    if (quiet || (done < total && now - shown < std::chrono::milliseconds(terminal ? 100 : 1000)))
      return;
    shown = now;
    double passed = std::chrono::duration<double>(now - begin).count();
    std::fprintf(stderr, "%s%lld/%lld requests, %.0f s, %.1f requests/s%s", terminal ? "\r" : "", static_cast<long long>(done),
                 static_cast<long long>(total), passed, double(done) / std::max(passed, 1e-9), terminal && done < total ? "" : "\n");
    std::fflush(stderr);
  }

private:
  bool quiet, terminal;
  int64_t total;
  Clock::time_point begin, shown;
};

std::string timeNow() {
  std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%d-%H%M%S", std::localtime(&now));
  return text;
}

std::string rateText(double rate) { return std::isfinite(rate) ? Json(rate).dump() : "inf"; }

std::string labelOf(const ServeOptions &o) { return o.report.label.empty() ? o.backend : o.report.label; }

/// Where the result of a run goes. The runs of a sweep differ in their concurrency.
std::string resultPath(const ServeOptions &o, const std::string &model, const std::string &date, int64_t concurrency) {
  std::string bound = concurrency ? "-concurrency" + std::to_string(concurrency) : "";
  std::filesystem::path name = o.report.filename;
  if (name.empty())
    name = labelOf(o) + "-" + rateText(o.traffic.requestRate) + "qps" + bound + "-" + std::filesystem::path(model).filename().string() + "-" + date + ".json";
  else if (!o.sweep.empty() && !o.report.append)
    name.replace_filename(name.stem().string() + bound + name.extension().string());
  return (std::filesystem::path(o.report.dir) / name).string();
}

Status writeText(const std::string &path, const std::string &text, bool append) {
  std::error_code ignored; // the file says what is wrong
  if (std::filesystem::path parent = std::filesystem::path(path).parent_path(); !parent.empty())
    std::filesystem::create_directories(parent, ignored);
  std::ofstream file(path, append ? std::ios::app : std::ios::trunc);
  file << text;
  file.close();
  return file ? Status() : Status(usageError("cannot write '" + printable(path) + "'"));
}

/// The keys in front of the measured ones: what was run.
OrderedJson setup(const ServeOptions &o, const std::string &model, const std::string &date, int64_t concurrency) {
  OrderedJson json = {{"date", date},
                      {"endpoint_type", o.backend},
                      {"backend", o.backend},
                      {"label", o.report.label.empty() ? OrderedJson() : OrderedJson(o.report.label)},
                      {"model_id", model},
                      {"tokenizer_id", o.tokenizer.empty() ? model : o.tokenizer},
                      {"num_prompts", o.dataset.prompts}};
  for (const auto &[key, value] : o.metadataList)
    json[key] = value;
  json["request_rate"] = std::isfinite(o.traffic.requestRate) ? OrderedJson(o.traffic.requestRate) : OrderedJson("inf");
  json["burstiness"] = std::isfinite(o.traffic.burstiness) ? OrderedJson(o.traffic.burstiness) : OrderedJson("inf");
  json["max_concurrency"] = concurrency ? OrderedJson(concurrency) : OrderedJson();
  if (!o.traffic.rampUp.empty()) {
    json["ramp_up_strategy"] = o.traffic.rampUp;
    json["ramp_up_start_rps"] = *o.traffic.rampUpStart;
    json["ramp_up_end_rps"] = *o.traffic.rampUpEnd;
  }
  return json;
}

Status save(const ServeOptions &o, const std::string &model, const std::string &date, const Run &run) {
  if (!o.report.save && !o.report.append)
    return {};
  OrderedJson json = setup(o, model, date, run.concurrency);
  json.update(toJson(o, run.metrics, run.load, o.report.detailed));
  // A text that a fault cut inside a character must not cost the result.
  std::string text = json.dump(o.report.append ? -1 : 1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
  return writeText(resultPath(o, model, date, run.concurrency), text, o.report.append);
}

double valueOf(const Run &run, const std::string &metric, double p) {
  std::vector<double> values;
  for (const Outcome &r : run.load.outcomes)
    if (r.success && metric == "ttft")
      values.push_back(r.ttft);
    else if (r.success)
      values.insert(values.end(), r.itl.begin(), r.itl.end());
  return summarize(std::move(values), {p}).percentiles[0];
}

/// A sweep: throughput and latencies over concurrency. One run: tokens and requests over time.
std::string plot(const std::vector<Run> &runs) {
  if (runs.size() == 1) {
    auto overTime = [](const std::vector<double> &values) {
      std::vector<std::pair<double, double>> points;
      for (size_t i = 0; i < values.size(); ++i)
        points.push_back({double(i), values[i]});
      return points;
    };
    return svg({{"Output", "seconds", "tokens/s", {{"output tokens", overTime(tokensPerSecond(runs[0].load))}}, {}},
                {"Requests", "seconds", "running", {{"running requests", overTime(runningPerSecond(runs[0].load))}}, {}}});
  }
  Panel throughput{"Throughput", "concurrent requests", "tokens/s", {{"output", {}}}, {}};
  Panel first{"Time to first token", "concurrent requests", "ms", {{"median", {}}, {"p99", {}}}, {}};
  Panel gap{"Inter-token latency", "concurrent requests", "ms", {{"median", {}}, {"p99", {}}}, {}};
  for (size_t i = 0; i < runs.size(); ++i) {
    for (Panel *panel : {&throughput, &first, &gap})
      panel->labels.push_back(std::to_string(runs[i].concurrency));
    throughput.series[0].points.push_back({double(i), runs[i].metrics.outputThroughput});
    for (size_t s = 0; s < 2; ++s) {
      first.series[s].points.push_back({double(i), valueOf(runs[i], "ttft", s ? 99 : 50)});
      gap.series[s].points.push_back({double(i), valueOf(runs[i], "itl", s ? 99 : 50)});
    }
  }
  return svg({throughput, first, gap});
}

std::string sweepTable(const std::vector<Run> &runs) {
  std::string text = "concurrency  requests/s  output tok/s  TTFT p50 ms  TTFT p99 ms   ITL p50 ms   ITL p99 ms   failed\n";
  for (const Run &r : runs) {
    char row[200];
    std::snprintf(row, sizeof row, "%11lld  %10.2f  %12.1f  %11.2f  %11.2f  %11.2f  %11.2f  %7lld\n", static_cast<long long>(r.concurrency),
                  r.metrics.requestThroughput, r.metrics.outputThroughput, valueOf(r, "ttft", 50), valueOf(r, "ttft", 99),
                  valueOf(r, "itl", 50), valueOf(r, "itl", 99), static_cast<long long>(r.metrics.failed));
    text += row;
  }
  return text;
}

/// The first few errors, with how often each occurred.
void reportFailures(const Run &run) {
  std::map<std::string, int64_t> counts;
  for (const Outcome &r : run.load.outcomes)
    if (!r.success)
      ++counts[r.error];
  int shown = 0;
  for (const auto &[error, count] : counts)
    if (shown++ < 10)
      std::fprintf(stderr, "dsv3-bench: %lld failed: %s\n", static_cast<long long>(count), error.c_str());
}

class Benchmark {
public:
  Benchmark(const ServeOptions &o, HttpLoop &http) : o(o), http(http) {
    target.headers = o.headerList;
    if (const char *key = std::getenv("OPENAI_API_KEY"); key && *key)
      target.headers.emplace_back("Authorization", std::string("Bearer ") + key);
  }

  Result<int> run() {
    Server server(http, target.headers);
    if (o.traffic.readyTimeout > 0)
      if (Status s = server.waitReady(o.traffic.readyTimeout); !s)
        return s.error();
    Result<std::string> found = o.model.empty() ? server.firstModel() : Result<std::string>(o.model);
    if (!found)
      return found.error();
    model = *found;
    target.model = o.servedModelName.empty() ? model : o.servedModelName;
    Result<std::vector<Sample>> made = makeSamples(o, target.model, server);
    if (!made)
      return made.error();
    samples = std::move(*made);
    if (Status s = warmUp(); !s)
      return s.error();
    std::vector<int64_t> bounds = o.sweep.empty() ? std::vector<int64_t>{o.traffic.maxConcurrency} : o.sweep;
    for (int64_t bound : bounds)
      if (Status s = runOne(bound); !s)
        return s.error();
    if (!o.sweep.empty())
      std::printf("%s", sweepTable(runs).c_str());
    if (!o.report.plot.empty())
      if (Status s = writeText(o.report.plot, plot(runs), false); !s)
        return s.error();
    return std::any_of(runs.begin(), runs.end(), [](const Run &r) { return r.metrics.completed == 0; }) ? 1 : 0;
  }

private:
  /// Requests like the first; one that fails is an error, for every other would as well.
  Status warmUp() {
    if (o.traffic.warmups == 0)
      return {};
    ServeOptions atOnce = o;
    atOnce.traffic.requestRate = std::numeric_limits<double>::infinity();
    atOnce.traffic.rampUp.clear();
    std::vector<Sample> same(size_t(o.traffic.warmups), samples[0]);
    Load load = runLoad(http, atOnce, target, same, o.sweep.empty() ? o.traffic.maxConcurrency : o.sweep.back(), [](int64_t) {});
    for (const Outcome &r : load.outcomes)
      if (!r.success)
        return usageError("warm-up: " + r.error);
    return {};
  }

  Status runOne(int64_t bound) {
    if (!o.report.quiet)
      std::fprintf(stderr, "%lld requests at %s/s, concurrency %s\n", static_cast<long long>(samples.size()), rateText(o.traffic.requestRate).c_str(),
                   bound ? std::to_string(bound).c_str() : "without bound");
    Progress progress(o.report.quiet, int64_t(samples.size()));
    Run run;
    run.concurrency = bound;
    run.load = runLoad(http, o, target, samples, bound, [&](int64_t done) { progress(done); });
    run.metrics = measure(o, run.load, bound);
    reportFailures(run);
    std::printf("%s", toText(o, run.metrics, bound).c_str());
    std::fflush(stdout);
    Status saved = save(o, model, timeNow(), run);
    runs.push_back(std::move(run));
    return saved;
  }

  const ServeOptions &o;
  HttpLoop &http;
  Target target;
  std::string model;
  std::vector<Sample> samples;
  std::vector<Run> runs;
};
} // namespace

Result<int> runServe(ServeOptions o) {
  if (Status s = check(o); !s)
    return s.error();
  Result<Url> url = parseUrl(o.url());
  if (!url)
    return url.error();
  auto timeout = std::chrono::milliseconds(int64_t(std::min(1000 * o.traffic.requestTimeout, 1e9)));
  Result<std::unique_ptr<HttpLoop>> http = HttpLoop::open(*url, timeout);
  if (!http)
    return http.error();
  return Benchmark(o, **http).run();
}

} // namespace dsv3::bench::serve
