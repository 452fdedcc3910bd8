// Runs requests on a device: schedule, run, postprocess, again and again.
//
// Not thread-safe: one thread owns an engine and calls step() (a server gives it a
// queue). No global state: several engines live side by side.
#pragma once

#include "runtime/engine/Device.h"
#include "runtime/engine/EngineSnapshot.h"
#include "runtime/engine/Manifest.h"
#include "runtime/engine/Programs.h"
#include "runtime/engine/Request.h"
#include "runtime/engine/Sampler.h"
#include "runtime/engine/Scheduler.h"
#include "runtime/engine/StepBuffer.h"

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace dsv3 {

/// Receives what score() computes. `prompt` is the index of the prompt, `row` the position
/// of the first of `rows` rows; rows of one prompt come in order. Data is valid during
/// the call only. Any of the functions may be empty. An error ends score().
struct ScoreSink {
  using Rows = std::function<Status(size_t prompt, int64_t row, int64_t rows, const float *logits)>;
  Rows logits;    ///< row i: logits after token i, [rows, vocab]
  Rows mtpLogits; ///< row i predicts token i + 2; the last token has none
  /// Rows of a tapped state, in the tap's own type.
  std::function<Status(size_t prompt, uint32_t tap, int64_t rows, const void *data)> taps;
};

class Engine {
public:
  struct Options {
    SchedulerOptions scheduling;
    bool prefixCache = false;    ///< keys of prompts are kept for others that begin alike
    std::function<double()> clock; ///< seconds; empty: a steady clock. The scheduler measures steps with it
    bool sampleOnDevice = true;  ///< where the device can; else from logits that are copied. The tokens are the same
  };

  /// `device` and `manifest` must outlive the engine. BadCheckpoint when programs are missing.
  static Result<std::unique_ptr<Engine>> create(Device &device, const Manifest &manifest,
                                                const Options &options);

  /// Queues a request; it runs in later steps. Usage errors: empty prompt, an id outside
  /// the vocabulary, a prompt longer than max_model_len, bad sampling parameters.
  /// DoesNotFit: more pages than the cache has. Unsupported: what no program or sampler here does.
  Result<RequestId> submit(Request request);

  /// What submit() would say. Any thread.
  Status check(const Request &request) const;

  /// submit() in two halves, for who has to know the id before the engine has the request. newId: any thread.
  RequestId newId() { return nextId++; }
  /// Queues a request that check() has let through.
  void enqueue(RequestId id, Request request);

  /// Ends a request at the next step; false when it is unknown or has ended.
  bool cancel(RequestId id) { return scheduler.finish(id, FinishReason::Cancelled); }

  /// Ends all requests at once, whatever they were doing.
  void finishAll(FinishReason reason);

  /// Something waits, runs or has yet to come back from the device.
  bool hasWork() const { return !scheduler.empty() || current; }

  /// Takes one step's results. An error concerns the device, not one request: a request whose logits are not finite ends by
  /// itself, with FinishReason::Error and Request::onError, and its pages are not found by others.
  Status step();

  /// Steps until nothing is left.
  Status runAll();

  /// Logits (and MTP logits when the sink wants them and the artifact has the
  /// module) of every position of `prompts`, packed into as few steps as fit.
  /// Requests in progress keep their pages. BadCheckpoint for a row that is not
  /// finite, which no sink gets to see ("request 0: ...": the prompt's index).
  /// Unsupported when the artifact has no score program.
  Status score(const std::vector<std::vector<int32_t>> &prompts, const ScoreSink &sink);

  /// Tapped states of every position of `prompts` by the prefill program, which computes the head for one row of a
  /// sequence only; taps of the MTP program are not among them. Errors as score()'s.
  Status states(const std::vector<std::vector<int32_t>> &prompts,
                const std::function<Status(size_t prompt, uint32_t tap, int64_t rows, const void *data)> &taps);

  bool hasScore() const { return programs.has(DSV3_PHASE_SCORE); }
  bool hasMtp() const { return hasScore() && programs.has(DSV3_PHASE_MTP); }
  const Manifest &artifact() const { return manifest; }
  EngineSnapshot snapshot() const;

  /// For checks from outside.
  const Scheduler &requests() const { return scheduler; }
  const BlockManager &pages() const { return blocks; }

private:
  class Scoring;

  Engine(Device &device, const Manifest &manifest, ProgramSet programs, const Options &options);

  Status checkPrompt(const std::vector<int32_t> &prompt) const;
  int64_t tokensOf(const Request &request) const;
  Status run(uint32_t program, const dsv3_step_host &step, const std::vector<HostCopy> &copies, const TapSink &taps = {});
  /// Rows [first, first + rows) of output `name`.
  HostCopy rowsOf(uint32_t program, const char *name, int64_t first, int64_t rows) const;
  template <typename T> Result<const T *> fetch(const HostCopy &copy);

  /// Who chooses a sequence's next token.
  enum class Chooser {
    Nobody, ///< in the middle of its prompt, or of what it had before a preemption
    Device,
    Host
  };

  /// A step on the device.
  struct Flight {
    Scheduler::Step step;
    std::vector<Chooser> choosers;
    std::vector<int64_t> places; ///< where the chosen token goes in its sequence
    double launched = 0;
    bool foreseeable = true; ///< nothing of the next step hangs on what the host does with this one's results
  };

  /// Schedules and launches; leaves `flight` empty when nothing can run.
  Status launchNext(std::optional<Flight> &flight);
  /// Waits for a step and takes its results.
  Status land(const Flight &flight);
  /// Waits for the step in flight, if there is one: the device is idle.
  Status settle();

  Chooser chooserOf(const Scheduler::Step &step, size_t item) const;
  /// Tells the device how to choose, and lists what has to come back: tokens, or logits of the rows that are left to the host.
  std::vector<HostCopy> planSampling(const Scheduler::Step &step, StepBuffer &buffer);
  Status postprocess(const Flight &flight);
  /// The token of each item that gets one; rows that the host chooses are shared by the machine's threads.
  std::vector<std::optional<Result<SampledToken>>> chooseTokens(const Flight &flight);
  Result<SampledToken> tokenOfDevice(const Flight &flight, size_t item);
  /// One that nobody uses.
  std::unique_ptr<Sampler> takeSampler();
  /// Row of an item's last logits in the output: programs of the score phase give one per token, the others one per sequence.
  static int64_t logitsRow(const Scheduler::Step &step, size_t item);
  /// Keeps what a score step says about a prompt; hands it out with the last row.
  Status judgePrompt(const Scheduler::Step &step, size_t item);
  void advance(Generation &generation, const SampledToken &token, int64_t place);
  /// Ends one request by its own fault and gives nothing; an error of anything else is given back.
  Status endBy(Generation &generation, const Error &error);
  void finishRetired();

  Device &device;
  const Manifest &manifest;
  ProgramSet programs;
  int64_t chunk;
  std::function<double()> clock;
  bool sampleOnDevice;
  BlockManager blocks;
  Scheduler scheduler;
  std::optional<Flight> current;
  std::vector<std::unique_ptr<Generation>> leaving; ///< ended, but a row of them is in flight
  double lastLanding = 0;
  std::mutex samplersMutex;
  std::vector<std::unique_ptr<Sampler>> samplers; ///< not in use
  std::atomic<RequestId> nextId = 0;
  EngineSnapshot counters; ///< only the counters in it are kept up
};

} // namespace dsv3
