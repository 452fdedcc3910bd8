// Sends requests as they arrive and records when each token comes back.
#pragma once

#include "tools/dsv3-bench/serve/Dataset.h"

#include <functional>

namespace dsv3::bench::serve {

/// What a request did; seconds, from when it was sent.
struct Outcome {
  bool success = false;
  std::string error, text;
  int64_t inputLen = 0;
  int64_t outputLen = 0;      ///< the usage of the server; 0: it sent none
  double start = 0;           ///< since the start of the run
  double queued = 0;          ///< from arrival to start: it waited for --max-concurrency
  double ttft = 0, latency = 0; ///< to the first and to the last token
  std::vector<double> itl;    ///< gaps between the chunks that carry text
};

struct Load {
  std::vector<Outcome> outcomes; ///< in the order of the samples
  double duration = 0;           ///< from the first arrival to the last reply
};

struct Target {
  std::string model;                                        ///< as requests name it
  std::vector<std::pair<std::string, std::string>> headers; ///< of every request
};

/// Seconds after the start at which each of `count` requests arrives. Gaps are drawn from a gamma distribution of shape
/// `burstiness`, and stretched so that the last request arrives when the rate says so.
std::vector<double> arrivals(const TrafficOptions &t, int64_t count, uint64_t seed);

/// `progress` is called after each reply with the number of replies.
Load runLoad(HttpLoop &http, const ServeOptions &o, const Target &target, const std::vector<Sample> &samples, int64_t maxConcurrency,
             const std::function<void(int64_t done)> &progress);

/// The body of a request.
Json requestBody(const ServeOptions &o, const std::string &model, const Sample &sample);

/// Follows a stream of completions or of chat completions.
class StreamRecord {
public:
  StreamRecord(Outcome &out, Clock::time_point sent) : out(out), sent(sent), last(sent) {}
  /// The data of one event.
  void take(const std::string &data, Clock::time_point now);
  /// No more events follow. Fails a stream without [DONE] or without a token.
  void end();

private:
  void takeChoice(const Json &choice, Clock::time_point now);
  void fail(const std::string &why);

  Outcome &out;
  Clock::time_point sent, last;
  bool first = true, done = false, failed = false;
};

} // namespace dsv3::bench::serve
