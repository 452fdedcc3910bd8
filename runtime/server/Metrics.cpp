#include "runtime/server/Metrics.h"

#include <algorithm>
#include <charconv>

namespace dsv3::server {

namespace {

const std::vector<double> kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5,  0.75,
                                         1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640,  2560};
const std::vector<double> kInterToken = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                         0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const std::vector<double> kRequest = {0.3, 0.5, 0.8, 1,  1.5, 2,  2.5, 5,   10,  15,  20,
                                      30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};

/// 1, 2, 5, 10, 20, ... up to `most`.
std::vector<double> decades(int64_t most) {
  std::vector<double> bounds;
  for (int64_t power = 1; power <= most; power *= 10)
    for (int64_t digit : {1, 2, 5})
      if (digit * power <= most)
        bounds.push_back(double(digit * power));
  return bounds;
}

std::string number(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

void head(std::string &out, std::string_view name, const char *type, const char *help) {
  out.append("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name).append(" ").append(type) += '\n';
}

void sample(std::string &out, std::string_view name, const std::string &labels, double value) {
  out.append(name).append("{").append(labels).append("} ").append(number(value)) += '\n';
}

void one(std::string &out, std::string_view name, const char *type, const char *help, const std::string &labels, double value) {
  head(out, name, type, help);
  sample(out, name, labels, value);
}

} // namespace

Histogram::Histogram(std::vector<double> b) : bounds(std::move(b)), counts(new std::atomic<uint64_t>[bounds.size() + 1]()) {}

void Histogram::observe(double value) {
  ++counts[size_t(std::lower_bound(bounds.begin(), bounds.end(), value) - bounds.begin())];
  sum += value;
}

void Histogram::write(std::string &out, std::string_view name, const std::string &labels) const {
  uint64_t total = 0;
  for (size_t i = 0; i <= bounds.size(); ++i) {
    total += counts[i];
    sample(out, std::string(name) + "_bucket", labels + ",le=\"" + (i < bounds.size() ? number(bounds[i]) : "+Inf") + "\"", double(total));
  }
  sample(out, std::string(name) + "_sum", labels, sum);
  sample(out, std::string(name) + "_count", labels, double(total));
}

std::string labelValue(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '\\' || c == '"')
      out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

const char *reasonLabel(FinishReason reason) {
  return reason == FinishReason::Cancelled ? "abort" : finishReasonName(reason);
}

Metrics::Metrics(std::string modelName, int64_t maxModelLen)
    : timeToFirstToken(kFirstToken), interToken(kInterToken), timePerOutputToken(kInterToken), endToEnd(kRequest), queueTime(kRequest),
      prefillTime(kRequest), decodeTime(kRequest), inferenceTime(kRequest), promptLength(decades(maxModelLen)),
      generationLength(decades(maxModelLen)), paramsN({1, 2, 5, 10, 20}), paramsMaxTokens(decades(maxModelLen)),
      labels("model_name=\"" + labelValue(modelName) + "\",engine=\"0\"") {}

void Metrics::responded(unsigned status) {
  if (status < byStatus.size())
    ++byStatus[status];
}

std::string Metrics::text(const EngineSnapshot &engine, bool stuck, bool draining) const {
  std::string out;
  out.reserve(32 << 10);
  writeEngine(out, engine);
  writeRequests(out);
  writeServer(out, stuck, draining);
  return out;
}

void Metrics::writeEngine(std::string &out, const EngineSnapshot &e) const {
  one(out, "vllm:num_requests_running", "gauge", "Number of requests in model execution batches.", labels, double(e.running));
  one(out, "vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed.", labels, double(e.waiting));
  double used = e.totalPages ? double(e.totalPages - e.freePages) / double(e.totalPages) : 0;
  one(out, "vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage.", labels, used);
  auto counter = [&](std::string_view name, const char *help, uint64_t value) { one(out, name, "counter", help, labels, double(value)); };
  counter("vllm:num_preemptions_total", "Cumulative number of preemption from the engine.", e.preemptions);
  counter("vllm:prefix_cache_queries_total", "Prefix cache queries, in terms of number of queried tokens.", e.prefixQueries);
  counter("vllm:prefix_cache_hits_total", "Prefix cache hits, in terms of number of cached tokens.", e.prefixHits);
  counter("dsv3:prefix_cache_evictions_total", "Cached pages given to other requests.", e.prefixEvictions);
  counter("dsv3:non_finite_requests_total", "Requests that failed because a logit was not finite.", e.nonFinite);
  counter("dsv3:engine_steps_total", "Steps of the engine.", e.steps);
  one(out, "dsv3:kv_pages_cached", "gauge", "Free pages whose contents a later request may find.", labels, double(e.cachedPages));
  one(out, "dsv3:max_requests_running", "gauge", "Requests that can run at once.", labels, double(e.maxRunning));
  one(out, "dsv3:kv_pages_free", "gauge", "Pages of the KV cache that no request holds.", labels, double(e.freePages));
  one(out, "dsv3:kv_pages_total", "gauge", "Pages of the KV cache.", labels, double(e.totalPages));
}

void Metrics::writeRequests(std::string &out) const {
  auto counter = [&](std::string_view name, const char *help, uint64_t value) { one(out, name, "counter", help, labels, double(value)); };
  counter("vllm:prompt_tokens_total", "Number of prefill tokens processed.", promptTokens);
  counter("vllm:generation_tokens_total", "Number of generation tokens processed.", generationTokens);
  counter("dsv3:prompt_tokens_cached_total", "Number of prompt tokens found in the prefix cache.", cachedTokens);
  head(out, "vllm:request_success_total", "counter", "Count of finished requests by reason.");
  for (size_t i = 0; i < byReason.size(); ++i)
    sample(out, "vllm:request_success_total", labels + ",finished_reason=\"" + reasonLabel(FinishReason(i)) + "\"", double(byReason[i]));
  auto histogram = [&](std::string_view name, const char *help, const Histogram &h) {
    head(out, name, "histogram", help);
    h.write(out, name, labels);
  };
  histogram("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", timeToFirstToken);
  histogram("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", interToken);
  histogram("vllm:time_per_output_token_seconds", "The same under vLLM's older name.", interToken);
  histogram("vllm:request_time_per_output_token_seconds", "Histogram of mean time per output token of a request.", timePerOutputToken);
  histogram("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", endToEnd);
  histogram("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", queueTime);
  histogram("vllm:request_prefill_time_seconds", "Histogram of time spent in PREFILL phase for request.", prefillTime);
  histogram("vllm:request_decode_time_seconds", "Histogram of time spent in DECODE phase for request.", decodeTime);
  histogram("vllm:request_inference_time_seconds", "Histogram of time spent in RUNNING phase for request.", inferenceTime);
  histogram("vllm:request_prompt_tokens", "Number of prefill tokens processed.", promptLength);
  histogram("vllm:request_generation_tokens", "Number of generation tokens processed.", generationLength);
  histogram("vllm:request_params_n", "Histogram of the n request parameter.", paramsN);
  histogram("vllm:request_params_max_tokens", "Histogram of the max_tokens request parameter.", paramsMaxTokens);
}

void Metrics::writeServer(std::string &out, bool stuck, bool draining) const {
  one(out, "dsv3:http_connections", "gauge", "Open connections.", labels, double(connections));
  one(out, "dsv3:engine_stuck", "gauge", "1 while a step runs longer than the watchdog allows.", labels, stuck);
  one(out, "dsv3:draining", "gauge", "1 while the server shuts down.", labels, draining);
  one(out, "dsv3:client_disconnects_total", "counter", "Requests whose client went away before the end.", labels, double(disconnects));
  one(out, "dsv3:slow_readers_total", "counter", "Streams ended because the client did not read.", labels, double(slowReaders));
  one(out, "dsv3:connections_refused_total", "counter", "Connections over the limit.", labels, double(refusedConnections));
  head(out, "dsv3:http_responses_total", "counter", "Responses by status.");
  for (size_t status = 0; status < byStatus.size(); ++status)
    if (uint64_t count = byStatus[status])
      sample(out, "dsv3:http_responses_total", labels + ",code=\"" + std::to_string(status) + "\"", double(count));
}

} // namespace dsv3::server
