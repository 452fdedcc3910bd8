#include "Simulator.h"

#include <algorithm>
#include <array>
#include <utility>

namespace dsv3::sim {

namespace {

constexpr uint64_t kStepsToEnd = 3000;     // of any request, its wait included: nobody starves...
constexpr double kSecondsToEnd = 90;       // ...once it has waited for longer than any priority is worth
constexpr uint64_t kStepsWithoutRow = 250; // of a request that runs...
constexpr double kSecondsWithoutRow = 45;  // ...the same
constexpr double kNoToken = -1e9;
constexpr uint64_t kStepsToLearn = 300;    // how long steps of each kind take
constexpr size_t kMaxClients = 60;

} // namespace

struct Simulator::Client {
  RequestId id = 0;
  Request request; // as submitted, without callbacks
  std::vector<int32_t> want; // what it gets when it runs alone to its end
  std::vector<int32_t> got;
  size_t readTo = 0;         // a reader may be slow
  size_t stopAfter = 0;      // 0: never
  bool overflows = false;    // behind the last of `want`, or in a prompt that is judged
  double submittedTime = 0, arrived = 0, lastToken = kNoToken, movedTime = 0;
  uint64_t submittedAt = 0, movedAt = 0, cancelledAt = 0;
  SimDevice::Steps stepsThen; // at its last token
  int64_t preemptions = 0;
  int64_t rows = -1; // in the cache at movedAt
  bool delivered = false, started = false, cancelled = false, ran = false;
  std::optional<FinishReason> reason;
  std::optional<Error> error;
};

void Totals::add(const Totals &o) {
  steps += o.steps, requests += o.requests, preemptions += o.preemptions, hits += o.hits, evictions += o.evictions;
  faults += o.faults, scored += o.scored, refused += o.refused, overflows += o.overflows;
  for (int i = 0; i < 4; ++i)
    finished[i] += o.finished[i];
}

Simulator::Simulator(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15u + 1) {
  SchedulerOptions &o = options.scheduling;
  o.schedule = below(2) ? Schedule::Mixed : Schedule::Split;
  o.policy = below(2) ? Policy::Priority : Policy::Fcfs;
  const int64_t batched[] = {0, 0, 1 + int64_t(below(6)), 6 + int64_t(below(30))}, chunks[] = {0, 1 + int64_t(below(4)), 3 + int64_t(below(12))};
  o.maxNumBatchedTokens = batched[below(4)];
  o.maxNumSeqs = below(3) ? 0 : 1 + int64_t(below(kSeqs));
  // The least prompt step takes 0.081 s, a decode step up to 0.101 s, a mixed one up to 0.181 s.
  o.maxTokenGap = std::array{0.02, 0.15, 0.2, 0.25, 0.5, 2.0}[below(6)];
  o.prefillChunk = chunks[below(3)];
  options.prefixCache = below(4) != 0;
  overlaps = below(2);
  overflows = below(2) ? 300 : 0;
  maxQueued = below(2) ? 0 : 1 + int64_t(below(12));
  judged = below(3) ? 0.1 : 0.5;
  salted = below(2) ? 0.2 : 0.7;
  talkative = below(3) == 0;
  const int64_t scarce[] = {int64_t(below(4)), int64_t(below(20)), int64_t(below(40)), int64_t(below(200))};
  device = std::make_unique<SimDevice>(kMaxPages + scarce[below(4)], overlaps, overflows);
  device->faults = [this] {
    if (!faulting || !chance(faultRate))
      return false;
    ++counted.faults;
    return true;
  };
  options.clock = [this] { return device->clock; };
  arrivals = 0.02 + 0.6 * double(below(100)) / 100;
  cancels = below(2) ? 0.02 : 0.001;
  faultRate = below(2) ? 0.0005 : 0;
  manifest.model.vocabSize = kVocab;
  manifest.config.maxModelLen = kMaxLen;
  for (int i = 0; i < 4; ++i) {
    documents.emplace_back();
    for (int t = 0; t < 20; ++t) // the second two differ in their first page only
      documents.back().push_back(i == 3 && t >= kPageTokens ? documents[2][t] : int32_t(below(kVocab)));
  }
  engine = std::move(*Engine::create(*device, manifest, options));
  inbox = std::make_unique<Inbox>(*engine, maxQueued);
}

Simulator::~Simulator() = default;

std::string Simulator::describe() const {
  const SchedulerOptions &o = options.scheduling;
  return std::string(mixed() ? "mixed" : "split") + (o.policy == Policy::Priority ? ", priority" : ", fcfs") + ", pages " +
         std::to_string(device->kvPages()) + ", chunk " + std::to_string(o.prefillChunk) + ", batched " +
         std::to_string(o.maxNumBatchedTokens) + ", sequences " + std::to_string(o.maxNumSeqs) + ", gap " + std::to_string(o.maxTokenGap) +
         ", queue " + std::to_string(maxQueued) + (overflows ? ", overflows" : "") + (talkative ? ", talkative" : "") + (options.prefixCache ? ", cache" : "") + (overlaps ? ", overlap" : "");
}

void Simulator::fail(const std::string &what) {
  if (!failure)
    failure = "step " + std::to_string(stepNumber) + ": " + what;
}

//===-- Traffic -----------------------------------------------------------===//

std::vector<int32_t> Simulator::makePrompt() {
  std::vector<int32_t> prompt;
  if (chance(talkative ? 0.05 : 0.3) && lastTurn.size() < 30)
    prompt = lastTurn;
  else if (const auto &document = documents[below(documents.size())]; chance(talkative ? 0.1 : 0.8))
    prompt.assign(document.begin(), document.begin() + int64_t(below(document.size() + 1)));
  const uint64_t tail = below(talkative ? 3 : 8) + (prompt.empty() ? 1 : 0);
  for (uint64_t i = 0; i < tail; ++i)
    prompt.push_back(int32_t(below(kVocab)));
  return prompt;
}

/// The tokens that a request gets when nothing else runs, without engine, cache or device.
void Simulator::expect(Client &client) const {
  const Request &r = client.request;
  std::vector<int32_t> tokens = r.prompt;
  const auto prompt = int64_t(tokens.size());
  const int64_t most = std::min(r.maxTokens, kMaxLen - prompt + 1);
  Sampler sampler(kVocab);
  uint64_t folded = 1;
  float row[kVocab];
  for (int64_t position = 0; int64_t(client.want.size()) < most || position < prompt; ++position) {
    uint32_t phase = position >= prompt && !mixed() ? DSV3_PHASE_DECODE
                     : position < prompt && r.promptLogprobs ? DSV3_PHASE_SCORE : DSV3_PHASE_PREFILL;
    folded = mix(folded, slotValue(folded, tokens[position], position, phase));
    if (position < prompt - 1 && !r.promptLogprobs)
      continue;
    logitsOf(folded, overflows, row);
    if (!checkFinite(row, kVocab, position)) {
      client.overflows = true;
      return;
    }
    if (position < prompt - 1)
      continue;
    if (most == 0) // a prompt that is judged, and nothing else
      return;
    const bool early = int64_t(client.want.size()) < r.minTokens;
    tokens.push_back(sampler.sample(row, r.sampling, tokens, {prompt, -1, nullptr, early ? &r.endIds : nullptr})->id);
    client.want.push_back(tokens.back());
    if (std::count(r.endIds.begin(), r.endIds.end(), tokens.back()))
      return;
  }
}

void Simulator::submit() {
  auto client = std::make_unique<Client>();
  Client &c = *client;
  Request &r = c.request;
  r.prompt = makePrompt();
  r.maxTokens = 1 + int64_t(below(talkative ? 36 : 16));
  r.priority = int32_t(below(4));
  r.cacheSalt = chance(salted) ? std::string(1, "ab"[below(2)]) : "";
  if (chance(0.3))
    r.endIds = {int32_t(below(kVocab)), int32_t(below(kVocab))};
  if (chance(0.3)) {
    r.sampling.temperature = 1;
    r.sampling.seed = below(1000);
    r.sampling.repetitionPenalty = chance(0.5) ? 1.3 : 1;
  }
  if (chance(judged)) {
    r.promptLogprobs = 1;
    r.maxTokens = int64_t(below(10));
  }
  if (chance(0.3))
    r.minTokens = int64_t(below(uint64_t(r.maxTokens) + 1));
  if (chance(0.1))
    c.stopAfter = 1 + below(6);
  expect(c);
  Request sent = r;
  sent.onStart = [this, &c](int64_t cached) { onStart(c, cached); };
  sent.onPrompt = [this, &c](PromptLogprobs scores) { onPrompt(c, scores); };
  sent.onToken = [this, &c](const SampledToken &token) { return onToken(c, token); };
  sent.onError = [this, &c](const Error &error) { onError(c, error); };
  sent.onFinish = [this, &c](FinishReason reason) { onFinish(c, reason); };
  c.submittedAt = stepNumber;
  c.submittedTime = device->clock;
  const bool full = maxQueued && here >= engine->requests().maxRunning() + size_t(maxQueued);
  Result<RequestId> id = inbox->submit(std::move(sent));
  if (!id && full && id.error().code == ExitCode::Busy) {
    ++counted.refused;
    return;
  }
  if (!id)
    return fail("a request was refused: " + id.error().message);
  if (full)
    fail("a request was taken although " + std::to_string(here) + " are there");
  ++here;
  c.id = *id;
  ++counted.requests;
  clients.push_back(std::move(client));
}

void Simulator::traffic() {
  if (open && clients.size() < kMaxClients && chance(arrivals))
    submit();
  if (open && clients.size() < kMaxClients && chance(0.002)) // a burst
    for (size_t i = clients.size(); i < kMaxClients; ++i)
      submit();
  for (auto &c : clients) {
    if (chance(0.2)) // a reader takes some of what was sent
      for (; c->readTo < c->got.size(); ++c->readTo)
        if (c->got[c->readTo] != c->want[c->readTo])
          fail("request " + std::to_string(c->id) + ": a reader sees another text");
    const bool gone = chance(cancels / double(clients.size()));
    if (gone && !c->reason && !c->cancelled)
      cancel(*c);
  }
  clients.erase(std::remove_if(clients.begin(), clients.end(), [](auto &c) { return c->reason && c->readTo == c->got.size(); }),
                clients.end());
}

void Simulator::cancel(Client &c) {
  c.cancelled = true;
  c.cancelledAt = stepNumber;
  inbox->cancel(c.id);
}

//===-- What a client sees ------------------------------------------------===//

bool Simulator::before(const Client &a, const Client &b) const {
  const double worth = options.scheduling.policy == Policy::Priority ? 10 : 0; // seconds of waiting, of a unit of priority
  const double first = a.arrived + worth * a.request.priority, second = b.arrived + worth * b.request.priority;
  return first != second ? first < second : a.id < b.id;
}

void Simulator::onStart(Client &c, int64_t cached) {
  if (c.started || c.reason)
    fail("request " + std::to_string(c.id) + " started twice or after its end");
  c.started = true;
  const auto prompt = int64_t(c.request.prompt.size());
  if (cached >= prompt)
    fail("request " + std::to_string(c.id) + ": no prompt token is left to compute");
  if (cached && !prefixes.count(prefixOf(c, cached)))
    fail("request " + std::to_string(c.id) + ": " + std::to_string(cached) + " tokens were found that none of its salt has computed");
  for (int64_t end = kPageTokens; end <= prompt && !c.request.promptLogprobs; end += kPageTokens)
    prefixes.insert(prefixOf(c, end));
}

uint64_t Simulator::prefixOf(const Client &c, int64_t count) const {
  uint64_t hash = std::hash<std::string>()(c.request.cacheSalt);
  for (int64_t i = 0; i < count; ++i) {
    const auto prompt = int64_t(c.request.prompt.size());
    hash = mix(hash, uint64_t(i < prompt ? c.request.prompt[size_t(i)] : c.got[size_t(i - prompt)]));
  }
  return hash;
}

void Simulator::onPrompt(Client &c, const PromptLogprobs &scores) {
  ++counted.scored;
  uint64_t folded = 1;
  float row[kVocab];
  if (scores.size() != c.request.prompt.size() || scores[0] || !c.got.empty() || !c.request.promptLogprobs)
    return fail("request " + std::to_string(c.id) + ": probabilities of another prompt");
  for (size_t t = 1; t < scores.size(); ++t) {
    folded = mix(folded, slotValue(folded, c.request.prompt[t - 1], int64_t(t) - 1, DSV3_PHASE_SCORE));
    logitsOf(folded, overflows, row);
    if (scores[t]->token.id != c.request.prompt[t] || scores[t]->token.logprob != logProbability(describeToken(row, kVocab, c.request.prompt[t])))
      return fail("request " + std::to_string(c.id) + ": wrong probability of prompt token " + std::to_string(t));
  }
}

bool Simulator::onToken(Client &c, const SampledToken &token) {
  if (c.reason || !c.started)
    fail("request " + std::to_string(c.id) + " got a token before its start or after its end");
  if (c.got.size() >= c.want.size() || token.id != c.want[c.got.size()])
    fail("request " + std::to_string(c.id) + ": token " + std::to_string(c.got.size()) + " is not the one it gets alone");
  c.got.push_back(token.id);
  checkGap(c);
  const auto length = int64_t(c.request.prompt.size() + c.got.size());
  if (mixed() && !c.request.promptLogprobs && length % kPageTokens == 0) // one program writes prompts and answers
    prefixes.insert(prefixOf(c, length));
  if (chance(0.002) && !c.cancelled) // a client that goes away while it is written to
    cancel(c);
  return c.got.size() != c.stopAfter;
}

/// What SchedulerOptions::maxTokenGap says: which steps lie between two tokens, and how long they take. A mean of steps tells the cost
/// of one to within the fixed part of it.
void Simulator::checkGap(Client &c) {
  const SimDevice &d = *device;
  const SimDevice::Steps before = std::exchange(c.stepsThen, d.ran);
  const double elapsed = d.clock - std::exchange(c.lastToken, d.clock);
  if (elapsed > d.clock) // its first token, or the first after it was sent back
    return;
  const uint64_t prefill = d.ran.prefill - before.prefill, score = d.ran.score - before.score, decode = d.ran.decode - before.decode;
  if (mixed() ? prefill != 1 || score > 1 || decode : decode != 1 || prefill + score > 1)
    fail("request " + std::to_string(c.id) + ": " + std::to_string(prefill) + " steps of prompts, " + std::to_string(score) + " of judged ones and " +
         std::to_string(decode) + " of tokens lie between tokens");
  const double half = 0.5 * options.scheduling.maxTokenGap + d.fixedCost, least = d.cost(kQueryTile);
  const double prompts = prefill + score > (mixed() ? 1 : 0) ? std::max(half, least) : 0;
  const auto running = int64_t(engine->requests().maxRunning());
  const double bound = prompts + (mixed() ? std::max(half, d.cost(running + kQueryTile)) : d.cost(d.ran.lastRows));
  if (stepNumber > kStepsToLearn && elapsed > bound + 1e-9)
    fail("request " + std::to_string(c.id) + ": expected at most " + std::to_string(bound) + " s between tokens, got " + std::to_string(elapsed));
}

void Simulator::onError(Client &c, const Error &error) {
  if (c.reason || c.error || error.code != ExitCode::BadCheckpoint)
    fail("request " + std::to_string(c.id) + ": an error out of place: " + error.message);
  c.error = error;
  ++counted.overflows;
}

void Simulator::onFinish(Client &c, FinishReason reason) {
  if (c.reason)
    fail("request " + std::to_string(c.id) + " ended twice");
  c.reason = reason;
  ++counted.finished[int(reason)];
  const bool whole = c.got.size() == c.want.size(), asked = c.stopAfter && c.got.size() == c.stopAfter;
  const bool ended = !c.got.empty() && std::count(c.request.endIds.begin(), c.request.endIds.end(), c.got.back());
  if ((reason == FinishReason::Length && (!whole || ended)) || (reason == FinishReason::Stop && !ended && !asked) ||
      (reason == FinishReason::Length && c.overflows) || (reason == FinishReason::Cancelled && !c.cancelled) ||
      (reason == FinishReason::Error && !failing && !(c.overflows && whole)) || c.error.has_value() != (reason == FinishReason::Error && !failing))
    fail("request " + std::to_string(c.id) + " ended for no reason: " + finishReasonName(reason));
  if (whole && !c.got.empty()) {
    lastTurn = c.request.prompt;
    lastTurn.insert(lastTurn.end(), c.got.begin(), c.got.end());
  }
  if (open && clients.size() < kMaxClients && chance(0.05))
    submit(); // from the callback
}

//===-- After every step --------------------------------------------------===//

void Simulator::checkPages() {
  const BlockManager &blocks = engine->pages();
  std::vector<int64_t> owners(blocks.totalPages(), 0);
  engine->requests().forEach([&](const Generation &g, bool runs) {
    if (!runs && (!g.sequence.pages.empty() || g.sequence.cached))
      fail(g.request.name + " waits and holds pages");
    if (int64_t(g.sequence.pages.size()) < blocks.pagesFor(g.sequence.cached))
      fail(g.request.name + " has more rows than pages");
    for (int32_t page : g.sequence.pages) {
      ++owners.at(page);
      if (std::count(g.sequence.pages.begin(), g.sequence.pages.end(), page) > 1)
        fail(g.request.name + " holds a page twice");
    }
  });
  int64_t free = 0;
  for (int64_t page = 0; page < blocks.totalPages(); ++page) {
    free += owners[page] == 0;
    if (blocks.references(int32_t(page)) != owners[page])
      fail("page " + std::to_string(page) + ": expected " + std::to_string(owners[page]) + " references, got " +
           std::to_string(blocks.references(int32_t(page))));
  }
  if (free != blocks.freePages() || blocks.unusedCachedPages() > free)
    fail("expected " + std::to_string(free) + " free pages, got " + std::to_string(blocks.freePages()));
}

void Simulator::checkRequests() {
  size_t live = 0;
  for (const auto &c : clients)
    if (!c->reason) {
      live += c->delivered;
      if (c->cancelled && stepNumber > c->cancelledAt + 1)
        fail("request " + std::to_string(c->id) + " was cancelled and goes on");
      if (stepNumber - c->submittedAt > kStepsToEnd && device->clock - c->submittedTime > kSecondsToEnd)
        fail("request " + std::to_string(c->id) + " starves");
    }
  std::vector<Client *> admitted, waiting;
  engine->requests().forEach([&](const Generation &g, bool runs) {
    auto at = std::lower_bound(clients.begin(), clients.end(), g.id, [](auto &c, RequestId id) { return c->id < id; });
    if (at == clients.end() || (*at)->id != g.id || (*at)->reason)
      return fail(g.request.name + " is there, but has ended");
    --live;
    Client &c = **at;
    const int64_t rows = runs ? g.sequence.cached : -1;
    if (rows != c.rows)
      c.rows = rows, c.movedAt = stepNumber, c.movedTime = device->clock;
    if (runs && stepNumber - c.movedAt > kStepsWithoutRow && device->clock - c.movedTime > kSecondsWithoutRow)
      fail(g.request.name + " runs and gets no row");
    if (runs && !c.ran)
      admitted.push_back(&c);
    if (!runs && c.submittedAt < stepNumber)
      waiting.push_back(&c);
    c.ran = runs;
    if (g.preemptions != c.preemptions)
      c.lastToken = kNoToken; // sent back: the bound is for those that run
    c.preemptions = g.preemptions;
  });
  if (live)
    fail(std::to_string(live) + " requests are lost");
  for (const Client *a : admitted)
    for (const Client *w : waiting)
      if (before(*w, *a))
        fail("request " + std::to_string(a->id) + " overtook " + std::to_string(w->id));
}

void Simulator::step() {
  ++stepNumber;
  const uint64_t faults = counted.faults;
  inbox->deliver();
  for (auto &c : clients)
    if (!c->delivered && !c->reason)
      c->delivered = true, c->arrived = device->clock;
  Status s = engine->hasWork() ? engine->step() : Status();
  if (!device->wrong.empty())
    fail(device->wrong);
  if (!s) {
    if (counted.faults == faults)
      return fail(s.error().message);
    failing = true;
    engine->finishAll(FinishReason::Error); // as EngineLoop does
    failing = false;
    dead = overlaps; // such a device takes no more steps, the other may go on
  }
  inbox->publish();
  here = size_t(std::count_if(clients.begin(), clients.end(), [](auto &c) { return !c->reason; }));
  if (inbox->idle() != (here == 0))
    fail("the inbox counts other requests than there are");
  checkPages();
  checkRequests();
}

void Simulator::checkEnd() {
  EngineSnapshot now = engine->snapshot();
  if (now.freePages != now.totalPages)
    fail(std::to_string(now.totalPages - now.freePages) + " pages did not come back");
  counted.preemptions += now.preemptions;
  counted.hits += now.prefixHits;
  counted.evictions += now.prefixEvictions;
  counted.steps += stepNumber;
}

std::optional<std::string> Simulator::run(uint64_t steps) {
  while (!failure && !dead && stepNumber < steps) {
    traffic();
    if (!inbox->idle())
      step();
    else
      ++stepNumber, device->clock += 0.05;
  }
  open = false;
  for (const uint64_t end = stepNumber + kStepsToEnd; !failure && !dead && !inbox->idle(); step())
    if (stepNumber > end)
      fail("requests go on without an end");
  if (!failure)
    checkEnd();
  return failure;
}

} // namespace dsv3::sim
