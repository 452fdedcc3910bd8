#include "tools/dsv3-bench/serve/Options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cmath>
#include <sstream>

namespace dsv3::bench::serve {

namespace {
void declareDataset(CLI::App &app, DatasetOptions &o) {
  app.add_option("--dataset-name", o.name, "random, sharegpt, custom or prefix_repetition")
      ->check(CLI::IsMember({"random", "sharegpt", "custom", "prefix_repetition"}));
  app.add_option("--dataset-path", o.path, "sharegpt: JSON with conversations; custom: JSON lines with \"prompt\"");
  app.add_option("--num-prompts", o.prompts, "Requests")->check(CLI::PositiveNumber);
  app.add_option("--seed", o.seed, "Of prompts, lengths and arrivals");
  app.add_option("--input-len", o.inputLen, "Input length of every data set that is drawn")->check(CLI::NonNegativeNumber);
  app.add_option("--output-len", o.outputLen, "Output length of every data set")->check(CLI::PositiveNumber);
  app.add_option("--random-input-len", o.randomInputLen, "random: tokens of a prompt after the prefix")->check(CLI::NonNegativeNumber);
  app.add_option("--random-output-len", o.randomOutputLen, "random: tokens asked for")->check(CLI::PositiveNumber);
  app.add_option("--random-prefix-len", o.randomPrefixLen, "random: tokens in front that all prompts share")->check(CLI::NonNegativeNumber);
  app.add_option("--random-range-ratio", o.randomRangeRatio, "random: lengths lie in [L(1-R), L(1+R)]")->check(CLI::Range(0.0, 0.999999));
  app.add_option("--sharegpt-output-len", o.sharegptOutputLen, "sharegpt: default: as long as the answer in the file")->check(CLI::PositiveNumber);
  app.add_option("--custom-output-len", o.customOutputLen, "custom: where a line has no \"output_tokens\"")->check(CLI::PositiveNumber);
  app.add_option("--prefix-repetition-prefix-len", o.prefixLen, "prefix_repetition: tokens of a prefix")->check(CLI::NonNegativeNumber);
  app.add_option("--prefix-repetition-suffix-len", o.suffixLen, "prefix_repetition: tokens of its own")->check(CLI::NonNegativeNumber);
  app.add_option("--prefix-repetition-num-prefixes", o.prefixes, "prefix_repetition: prefixes")->check(CLI::PositiveNumber);
  app.add_option("--prefix-repetition-output-len", o.prefixOutputLen, "prefix_repetition: tokens asked for")->check(CLI::PositiveNumber);
  app.add_flag("--no-oversample", o.noOversample, "Do not repeat a file's prompts when it has fewer than --num-prompts");
  app.add_flag("--disable-shuffle", o.disableShuffle, "Take a file's prompts in its order");
}

void declareTraffic(CLI::App &app, TrafficOptions &o) {
  app.add_option("--request-rate", o.requestRate, "Requests per second; inf: all at once");
  app.add_option("--burstiness", o.burstiness, "Shape of the gamma distribution of arrivals; 1: a Poisson process, less: bursts, inf: even");
  app.add_option("--max-concurrency", o.maxConcurrency, "Requests that run at a time; the others wait here")->check(CLI::PositiveNumber);
  app.add_option("--ramp-up-strategy", o.rampUp, "The request rate grows from the first request to the last")
      ->check(CLI::IsMember({"linear", "exponential"}));
  app.add_option("--ramp-up-start-rps", o.rampUpStart, "Request rate of the first request")->check(CLI::NonNegativeNumber);
  app.add_option("--ramp-up-end-rps", o.rampUpEnd, "Request rate of the last request")->check(CLI::PositiveNumber);
  app.add_option("--num-warmups", o.warmups, "Requests before, which do not count")->check(CLI::NonNegativeNumber);
  app.add_option("--ready-check-timeout-sec", o.readyTimeout, "Wait this long for the server to answer; 0: it must be there")
      ->check(CLI::NonNegativeNumber);
  app.add_option("--request-timeout-sec", o.requestTimeout, "A request fails that is silent for this long")->check(CLI::PositiveNumber);
}

void declareReport(CLI::App &app, ReportOptions &o) {
  app.add_option("--percentile-metrics", o.percentileMetrics,
                 "Metrics to report, of ttft, tpot, itl, e2el, client_queue_time and e2el_including_client_queue");
  app.add_option("--metric-percentiles", o.percentiles, "Percentiles, such as 50,90,99");
  app.add_option("--goodput", o.goodput, "Objectives KEY:MILLISECONDS of ttft, tpot and e2el: counts the requests that meet all");
  app.add_option("--label", o.label, "Label of the result");
  app.add_option("--metadata", o.metadata, "KEY=VALUE pairs for the result");
  app.add_flag("--save-result", o.save, "Write the result as JSON");
  app.add_flag("--save-detailed", o.detailed, "With what each request did");
  app.add_flag("--append-result", o.append, "Add the result to the file as one line");
  app.add_option("--result-dir", o.dir, "Folder of the result");
  app.add_option("--result-filename", o.filename, "Its name; default: made of label, rate, concurrency, model and time");
  app.add_option("--plot", o.plot, "Draw the run (or the sweep) into this SVG file");
  app.add_flag("--disable-tqdm", o.quiet, "No progress on stderr");
}

void declareSampling(CLI::App &app, ServeOptions &o) {
  app.add_option("--top-p", o.topP, "top_p of each request");
  app.add_option("--top-k", o.topK, "top_k of each request");
  app.add_option("--min-p", o.minP, "min_p of each request");
  app.add_option("--temperature", o.temperature, "temperature of each request; default: the server's");
  app.add_option("--frequency-penalty", o.frequencyPenalty, "frequency_penalty of each request");
  app.add_option("--presence-penalty", o.presencePenalty, "presence_penalty of each request");
  app.add_option("--repetition-penalty", o.repetitionPenalty, "repetition_penalty of each request");
  app.add_option("--logprobs", o.logprobs, "logprobs of each request (completions only)")->check(CLI::NonNegativeNumber);
  app.add_flag("--ignore-eos", o.ignoreEos, "Set ignore_eos; always so with random prompts");
  app.add_option("--extra-body", o.extraBodyText, "JSON object with more fields of each request");
}

std::vector<std::string> split(const std::string &text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');)
    parts.push_back(part);
  return parts;
}

Result<std::pair<std::string, std::string>> pairOf(const std::string &flag, const std::string &text, char by, const std::string &form) {
  size_t at = text.find(by);
  if (at == std::string::npos || at == 0)
    return usageError(flag + ": expected " + form + ", got '" + printable(text) + "'");
  return std::pair<std::string, std::string>(text.substr(0, at), text.substr(at + 1));
}

/// A finite number that is not negative, or nothing.
std::optional<double> numberIn(const std::string &text) {
  char *end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  return text.empty() || *end || !std::isfinite(value) || value < 0 ? std::nullopt : std::optional<double>(value);
}

Status checkReport(ServeOptions &o) {
  static const std::vector<std::string> known = {"ttft", "tpot", "itl", "e2el", "client_queue_time", "e2el_including_client_queue"};
  o.metrics = split(o.report.percentileMetrics);
  for (const std::string &m : o.metrics)
    if (std::find(known.begin(), known.end(), m) == known.end())
      return usageError("--percentile-metrics: expected ttft, tpot, itl, e2el, client_queue_time or e2el_including_client_queue, got '" + printable(m) + "'");
  for (const std::string &p : split(o.report.percentiles)) {
    std::optional<double> value = numberIn(p);
    if (!value || *value > 100)
      return usageError("--metric-percentiles: expected numbers in [0, 100], got '" + printable(p) + "'");
    o.percentiles.push_back(*value);
  }
  for (const std::string &text : o.report.goodput) {
    auto pair = pairOf("--goodput", text, ':', "KEY:MILLISECONDS");
    if (!pair)
      return pair.error();
    std::optional<double> value = numberIn(pair->second);
    if (!value || (pair->first != "ttft" && pair->first != "tpot" && pair->first != "e2el"))
      return usageError("--goodput: expected ttft:MS, tpot:MS or e2el:MS, got '" + printable(text) + "'");
    o.goodput[pair->first] = *value;
  }
  for (const std::string &text : o.report.metadata) {
    auto pair = pairOf("--metadata", text, '=', "KEY=VALUE");
    if (!pair)
      return pair.error();
    o.metadataList.push_back(*pair);
  }
  return {};
}

Status checkTraffic(const ServeOptions &o) {
  const TrafficOptions &t = o.traffic;
  // Not a validator's business: these may be infinite.
  for (auto [flag, value] : {std::pair("--request-rate", t.requestRate), std::pair("--burstiness", t.burstiness)})
    if (!(value > 0))
      return usageError(std::string(flag) + ": expected a number above 0, or inf");
  if (t.rampUp.empty() && (t.rampUpStart || t.rampUpEnd))
    return usageError("--ramp-up-start-rps: expected --ramp-up-strategy as well, got none");
  if (t.rampUp.empty())
    return {};
  if (std::isfinite(t.requestRate))
    return usageError("--ramp-up-strategy: expected no --request-rate beside it, got one");
  if (!t.rampUpStart || !t.rampUpEnd)
    return usageError("--ramp-up-strategy: expected --ramp-up-start-rps and --ramp-up-end-rps, got " +
                      std::string(t.rampUpStart ? "only the first" : "no start"));
  if (*t.rampUpStart > *t.rampUpEnd || *t.rampUpStart == 0)
    return usageError("--ramp-up-start-rps: expected a rate above 0 and up to --ramp-up-end-rps, got another");
  return {};
}

Status takeBody(ServeOptions &o) {
  auto put = [&](const char *key, const auto &value) {
    if (value)
      o.extraBody[key] = *value;
  };
  put("top_p", o.topP);
  put("top_k", o.topK);
  put("min_p", o.minP);
  put("temperature", o.temperature);
  put("frequency_penalty", o.frequencyPenalty);
  put("presence_penalty", o.presencePenalty);
  put("repetition_penalty", o.repetitionPenalty);
  if (o.extraBodyText.empty())
    return {};
  Result<Json> more = parseJson(o.extraBodyText, "--extra-body");
  if (!more)
    return usageError(more.error().message);
  if (!more->is_object())
    return usageError("--extra-body: expected a JSON object, got " + describe(*more));
  o.extraBody.update(*more);
  return {};
}
} // namespace

std::string ServeOptions::url() const {
  if (!baseUrl.empty())
    return baseUrl;
  bool v6 = host.find(':') != std::string::npos;
  return "http://" + (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

void declareServe(CLI::App &app, ServeOptions &o) {
  app.option_defaults()->always_capture_default();
  app.add_option("--backend", o.backend, "openai (or vllm): completions; openai-chat: chat completions")
      ->check(CLI::IsMember({"openai", "vllm", "openai-chat"}));
  app.add_option("--base-url", o.baseUrl, "http://HOST:PORT, instead of --host and --port");
  app.add_option("--host", o.host, "Host of the server");
  app.add_option("--port", o.port, "Its port")->check(CLI::Range(1, 65535));
  app.add_option("--endpoint", o.endpoint, "Path; default: /v1/completions, or /v1/chat/completions with openai-chat");
  app.add_option("--header", o.headers, "NAME=VALUE headers of each request");
  app.add_option("--model", o.model, "Name of the model; default: the first of the server's /v1/models");
  app.add_option("--served-model-name", o.servedModelName, "Name in the requests, where it is another than --model");
  app.add_option("--tokenizer", o.tokenizer, "Only recorded: the server's /tokenize counts");
  app.add_option("--request-id-prefix", o.requestIdPrefix, "Of the header x-request-id");
  declareDataset(app, o.dataset);
  declareTraffic(app, o.traffic);
  declareReport(app, o.report);
  declareSampling(app, o);
  app.add_option("--sweep-concurrency", o.sweep, "One run for each of these bounds of concurrency, such as 1,2,4,8")
      ->delimiter(',')
      ->check(CLI::PositiveNumber);
}

Status check(ServeOptions &o) {
  if (o.endpoint.empty())
    o.endpoint = o.chat() ? "/v1/chat/completions" : "/v1/completions";
  if (o.endpoint.front() != '/')
    return usageError("--endpoint: expected a path that starts with '/', got '" + printable(o.endpoint) + "'");
  if (o.chat() && o.logprobs)
    return usageError("--logprobs: expected a backend of completions, got openai-chat");
  bool file = o.dataset.name == "sharegpt" || o.dataset.name == "custom";
  if (file != !o.dataset.path.empty())
    return usageError("--dataset-path: expected " + std::string(file ? "a file for" : "none with") + " the data set " + o.dataset.name);
  if (!o.sweep.empty() && o.traffic.maxConcurrency)
    return usageError("--sweep-concurrency: expected no --max-concurrency beside it, got one");
  for (const std::string &text : o.headers) {
    auto pair = pairOf("--header", text, '=', "NAME=VALUE");
    if (!pair)
      return pair.error();
    o.headerList.push_back(*pair);
  }
  // Drawn prompts mean nothing: a text would end anywhere.
  o.ignoreEos = o.ignoreEos || o.dataset.name == "random";
  if (Status s = checkTraffic(o); !s)
    return s;
  if (Status s = takeBody(o); !s)
    return s;
  return checkReport(o);
}

} // namespace dsv3::bench::serve
