#include "tools/dsv3-bench/serve/Load.h"

#include "tools/dsv3-bench/serve/Sse.h"

#include <cmath>
#include <deque>

namespace dsv3::bench::serve {

namespace {
double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }
Clock::duration span(double s) { return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s)); }

/// Requests per second when request `i` of `n` arrives.
double rateAt(const TrafficOptions &t, int64_t i, int64_t n) {
  if (t.rampUp.empty())
    return t.requestRate;
  double progress = double(i) / double(std::max<int64_t>(n - 1, 1)), from = *t.rampUpStart, to = *t.rampUpEnd;
  return t.rampUp == "linear" ? from + (to - from) * progress : from * std::pow(to / from, progress);
}

/// Text of a field that may be missing or null.
std::string textOf(const Json &object, const char *key) {
  auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

int64_t countOf(const Json &object, const char *key, int64_t fallback) {
  auto it = object.find(key);
  return it != object.end() && it->is_number_integer() && *it >= 0 ? it->get<int64_t>() : fallback;
}
} // namespace

std::vector<double> arrivals(const TrafficOptions &t, int64_t count, uint64_t seed) {
  std::vector<double> times(size_t(count), 0.0);
  if (t.rampUp.empty() && !std::isfinite(t.requestRate))
    return times;
  // Another stream than the one prompts are drawn from.
  std::mt19937_64 random(seed ^ 0x9e3779b97f4a7c15u);
  double now = 0;
  for (int64_t i = 0; i < count; ++i) {
    double rate = rateAt(t, i, count);
    now += std::isfinite(t.burstiness) ? std::gamma_distribution<double>(t.burstiness, 1 / (rate * t.burstiness))(random) : 1 / rate;
    times[size_t(i)] = now;
  }
  if (t.rampUp.empty() && now > 0)
    for (double &time : times)
      time *= double(count) / t.requestRate / now;
  return times;
}

Json requestBody(const ServeOptions &o, const std::string &model, const Sample &sample) {
  Json body = {{"model", model}, {"stream", true}, {"stream_options", {{"include_usage", true}}}};
  if (o.chat()) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", sample.prompt}}});
    body["max_completion_tokens"] = sample.outputLen;
  } else {
    body["prompt"] = sample.prompt;
    body["max_tokens"] = sample.outputLen;
    if (o.logprobs)
      body["logprobs"] = *o.logprobs;
  }
  if (o.ignoreEos)
    body["ignore_eos"] = true;
  body.update(o.extraBody);
  return body;
}

void StreamRecord::fail(const std::string &why) {
  if (!failed)
    out.error = why;
  failed = true;
}

void StreamRecord::take(const std::string &data, Clock::time_point now) {
  if (data == "[DONE]") {
    done = true;
    return;
  }
  Result<Json> json = parseJson(data, "event");
  if (!json || !json->is_object())
    return fail("expected events of JSON objects, got " + printable(data));
  if (json->contains("error"))
    return fail(printable((*json)["error"].dump(-1, ' ', true), 200));
  if (auto it = json->find("choices"); it != json->end() && it->is_array())
    for (const Json &choice : *it)
      if (choice.is_object())
        takeChoice(choice, now);
  if (auto it = json->find("usage"); it != json->end() && it->is_object()) {
    out.outputLen = countOf(*it, "completion_tokens", 0);
    out.inputLen = countOf(*it, "prompt_tokens", out.inputLen);
  }
}

void StreamRecord::takeChoice(const Json &choice, Clock::time_point now) {
  std::string text = textOf(choice, "text");
  bool ends = choice.contains("finish_reason") && !choice["finish_reason"].is_null();
  bool token = choice.contains("text");
  if (auto delta = choice.find("delta"); delta != choice.end() && delta->is_object()) {
    std::string reasoning = textOf(*delta, "reasoning_content");
    text += (reasoning.empty() ? textOf(*delta, "reasoning") : reasoning) + textOf(*delta, "content");
    // The chunk that only says "assistant" may come before any work is done: it is not a token.
    token = !text.empty() || delta->contains("tool_calls");
  }
  // A chunk may end the text and bring none: it ends the request, and is no gap between tokens.
  if (ends && text.empty())
    token = false;
  if (token && first)
    out.ttft = seconds(now - sent);
  else if (token)
    out.itl.push_back(seconds(now - last));
  if (token) {
    first = false;
    last = now;
  }
  if (token || ends)
    out.latency = seconds(now - sent);
  out.text += text;
}

void StreamRecord::end() {
  if (!done)
    fail("expected [DONE] at the end of the stream, got none");
  if (first)
    fail("expected a token, got none");
  out.success = !failed;
}

namespace {
/// One run: what waits, what runs, and what came of it.
class Runner {
public:
  Runner(HttpLoop &http, const ServeOptions &o, const Target &target, const std::vector<Sample> &samples, int64_t bound,
         const std::function<void(int64_t)> &progress)
      : http(http), o(o), target(target), samples(samples), bound(bound), progress(progress) {
    for (const Sample &s : samples) // a name from the command line may be no UTF-8
      bodies.push_back(requestBody(o, target.model, s).dump(-1, ' ', false, Json::error_handler_t::replace));
    load.outcomes.resize(samples.size());
    times = arrivals(o.traffic, int64_t(samples.size()), o.dataset.seed);
  }

  Load run() {
    begin = Clock::now();
    arrive(0);
    http.run();
    load.duration = seconds(Clock::now() - begin);
    return std::move(load);
  }

private:
  /// Request `i` and those whose time has come with it.
  void arrive(size_t i) {
    for (; i < samples.size(); ++i) {
      auto due = begin + span(times[i]);
      if (due > Clock::now())
        return http.at(due, [this, i] { arrive(i); });
      waiting.push_back({i, Clock::now()});
      startSome();
    }
  }

  void startSome() {
    while (!waiting.empty() && (bound == 0 || running < bound)) {
      auto [i, arrived] = waiting.front();
      waiting.pop_front();
      start(i, arrived);
    }
  }

  void start(size_t i, Clock::time_point arrived) {
    struct Exchange {
      int status = 0;
      std::string errorBody;
      std::unique_ptr<StreamRecord> record;
      std::unique_ptr<SseReader> reader;
    };
    Outcome &out = load.outcomes[i];
    ++running;
    Clock::time_point sent = Clock::now();
    out.start = seconds(sent - begin);
    out.queued = seconds(sent - arrived);
    out.inputLen = samples[i].inputLen;
    auto e = std::make_shared<Exchange>();
    e->record = std::make_unique<StreamRecord>(out, sent);
    e->reader = std::make_unique<SseReader>([record = e->record.get()](const std::string &data) { record->take(data, Clock::now()); });
    HttpRequest request{"POST", o.endpoint, std::move(bodies[i]), target.headers};
    request.headers.emplace_back("x-request-id", o.requestIdPrefix + std::to_string(i));
    HttpHandlers handlers;
    handlers.onStatus = [e](int status) { e->status = status; };
    handlers.onBody = [e](std::string_view piece) {
      if (e->status == 200)
        e->reader->feed(piece);
      else
        e->errorBody += piece;
    };
    handlers.onEnd = [this, e, &out](const Error *error) {
      if (error)
        out.error = error->message;
      else if (e->status != 200)
        out.error = replyError(e->status, e->errorBody);
      else
        e->record->end();
      --running;
      progress(++done);
      startSome();
    };
    http.send(std::move(request), std::move(handlers));
  }

  HttpLoop &http;
  const ServeOptions &o;
  const Target &target;
  const std::vector<Sample> &samples;
  int64_t bound;
  const std::function<void(int64_t)> &progress;
  std::vector<std::string> bodies;
  std::vector<double> times;
  std::deque<std::pair<size_t, Clock::time_point>> waiting;
  int64_t running = 0, done = 0;
  Clock::time_point begin;
  Load load;
};
} // namespace

Load runLoad(HttpLoop &http, const ServeOptions &o, const Target &target, const std::vector<Sample> &samples, int64_t maxConcurrency,
             const std::function<void(int64_t done)> &progress) {
  return Runner(http, o, target, samples, maxConcurrency, progress).run();
}

} // namespace dsv3::bench::serve
