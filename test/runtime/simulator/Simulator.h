// Random traffic against a real engine over a SimDevice, with every promise of the engine checked after every step.
#pragma once

#include "SimDevice.h"
#include "runtime/engine/Inbox.h"

#include <memory>
#include <optional>
#include <random>
#include <string>
#include <unordered_set>
#include <vector>

namespace dsv3::sim {

/// What happened, to see that all of it was exercised.
struct Totals {
  uint64_t steps = 0, requests = 0, refused = 0, finished[4] = {}, preemptions = 0, hits = 0, evictions = 0, faults = 0, scored = 0, overflows = 0;
  void add(const Totals &other);
};

/// One episode: a seed decides the engine's options, the number of pages and the traffic. The same seed, the same episode.
class Simulator {
public:
  explicit Simulator(uint64_t seed);
  ~Simulator();

  /// Runs `steps` steps and then all that is left. What went wrong, or nothing.
  std::optional<std::string> run(uint64_t steps);

  const Totals &totals() const { return counted; }
  std::string describe() const;

private:
  struct Client;

  bool mixed() const { return options.scheduling.schedule == Schedule::Mixed; }
  uint64_t below(uint64_t n) { return random() % n; }
  bool chance(double p) { return double(random() >> 11) * 0x1p-53 < p; }
  void fail(const std::string &what);

  std::vector<int32_t> makePrompt();
  void submit();
  void expect(Client &client) const;
  bool onToken(Client &client, const SampledToken &token);
  void onStart(Client &client, int64_t cached);
  void onPrompt(Client &client, const PromptLogprobs &scores);
  void checkGap(Client &client);
  /// What the first `count` tokens of a request are to the prefix cache.
  uint64_t prefixOf(const Client &client, int64_t count) const;
  void cancel(Client &client);
  void onError(Client &client, const Error &error);
  void onFinish(Client &client, FinishReason reason);
  void traffic();
  void step();
  void checkPages();
  void checkRequests();
  void checkEnd();
  bool before(const Client &a, const Client &b) const;

  std::mt19937_64 random;
  Engine::Options options;
  double arrivals, cancels, faultRate; ///< probabilities per step
  double judged, salted;               ///< shares of requests
  bool talkative = false;              ///< short prompts, long answers
  int64_t maxQueued = 0;
  uint64_t overflows = 0;
  Manifest manifest;
  std::unique_ptr<SimDevice> device;
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Inbox> inbox;
  size_t here = 0; ///< requests that the inbox counts: those that were not done when it looked last, and those it took since
  std::unordered_set<uint64_t> prefixes;       ///< whole pages that requests computed
  std::vector<std::vector<int32_t>> documents; ///< prefixes that prompts share
  std::vector<int32_t> lastTurn;               ///< a prompt and its answer
  std::vector<std::unique_ptr<Client>> clients; ///< those that are not done and read
  bool faulting = true, open = true, overlaps = false;
  bool dead = false;   ///< a fault that the device does not survive
  bool failing = false; ///< all requests are being ended by a fault
  uint64_t stepNumber = 0;
  std::optional<std::string> failure;
  Totals counted;
};

} // namespace dsv3::sim
