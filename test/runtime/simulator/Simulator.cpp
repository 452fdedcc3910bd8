#include "Simulator.h"

#include <algorithm>

namespace dsv3::sim {

namespace {

constexpr uint64_t kStepsToEnd = 3000;     // of any request, its wait included: nobody starves
constexpr uint64_t kStepsWithoutRow = 250; // of a request that runs
constexpr uint64_t kStepsToLearn = 2000;   // how long steps of each kind take
constexpr size_t kMaxClients = 40;

} // namespace

struct Simulator::Client {
  RequestId id = 0;
  Request request; // as submitted, without callbacks
  std::vector<int32_t> want; // what it gets when it runs alone to its end
  std::vector<int32_t> got;
  size_t readTo = 0;         // a reader may be slow
  size_t stopAfter = 0;      // 0: never
  double arrived = 0, lastToken = -1;
  uint64_t submittedAt = 0, movedAt = 0;
  int64_t preemptions = 0;
  int64_t rows = -1; // in the cache at movedAt
  bool started = false, cancelled = false, ran = false;
  std::optional<FinishReason> reason;
};

void Totals::add(const Totals &o) {
  steps += o.steps, requests += o.requests, preemptions += o.preemptions, hits += o.hits, evictions += o.evictions;
  faults += o.faults, scored += o.scored;
  for (int i = 0; i < 4; ++i)
    finished[i] += o.finished[i];
}

Simulator::Simulator(uint64_t seed) : random(seed * 0x9e3779b97f4a7c15u + 1) {
  SchedulerOptions &o = options.scheduling;
  o.schedule = below(2) ? Schedule::Mixed : Schedule::Split;
  o.policy = below(2) ? Policy::Priority : Policy::Fcfs;
  o.maxNumBatchedTokens = below(3) ? 0 : 6 + int64_t(below(18));
  o.maxNumSeqs = below(3) ? 0 : 1 + int64_t(below(kSeqs));
  o.maxTokenGap = 0.125; // of a full decode step, 0.031 s, and a query tile of a prompt, 0.081 s
  o.prefillChunk = below(2) ? 0 : 3 + int64_t(below(12));
  options.prefixCache = below(4) != 0;
  overlaps = below(2);
  device = std::make_unique<SimDevice>(kMaxPages + int64_t(below(3) ? below(15) : below(60)), overlaps);
  device->faults = [this] {
    if (!faulting || !chance(faultRate))
      return false;
    ++counted.faults;
    return true;
  };
  options.clock = [this] { return device->clock; };
  arrivals = 0.02 + 0.3 * double(below(100)) / 100;
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
}

Simulator::~Simulator() = default;

std::string Simulator::describe() const {
  const SchedulerOptions &o = options.scheduling;
  return std::string(mixed() ? "mixed" : "split") + (o.policy == Policy::Priority ? ", priority" : ", fcfs") + ", pages " +
         std::to_string(device->kvPages()) + ", chunk " + std::to_string(o.prefillChunk) + ", batched " +
         std::to_string(o.maxNumBatchedTokens) + ", sequences " + std::to_string(o.maxNumSeqs) + (options.prefixCache ? ", cache" : "") + (overlaps ? ", overlap" : "");
}

void Simulator::fail(const std::string &what) {
  if (!failure)
    failure = "step " + std::to_string(stepNumber) + ": " + what;
}

//===-- Traffic -----------------------------------------------------------===//

std::vector<int32_t> Simulator::makePrompt() {
  std::vector<int32_t> prompt;
  if (chance(0.3) && lastTurn.size() < 30)
    prompt = lastTurn;
  else if (const auto &document = documents[below(documents.size())]; chance(0.8))
    prompt.assign(document.begin(), document.begin() + int64_t(below(document.size() + 1)));
  const uint64_t tail = below(8) + (prompt.empty() ? 1 : 0);
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
  for (int64_t position = 0; int64_t(client.want.size()) < most; ++position) {
    uint32_t phase = position >= prompt && !mixed() ? DSV3_PHASE_DECODE
                     : position < prompt && r.promptLogprobs ? DSV3_PHASE_SCORE : DSV3_PHASE_PREFILL;
    folded = mix(folded, slotValue(folded, tokens[position], position, phase));
    if (position < prompt - 1)
      continue;
    logitsOf(folded, row);
    tokens.push_back(sampler.sample(row, r.sampling, tokens, {prompt, -1, nullptr})->id);
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
  r.maxTokens = 1 + int64_t(below(16));
  r.priority = int32_t(below(4));
  r.cacheSalt = chance(0.2) ? "other" : "";
  if (chance(0.3))
    r.endIds = {int32_t(below(kVocab)), int32_t(below(kVocab))};
  if (chance(0.3)) {
    r.sampling.temperature = 1;
    r.sampling.seed = below(1000);
    r.sampling.repetitionPenalty = chance(0.5) ? 1.3 : 1;
  }
  if (chance(0.1)) {
    r.promptLogprobs = 1;
    r.maxTokens = int64_t(below(10));
  }
  if (chance(0.1))
    c.stopAfter = 1 + below(6);
  expect(c);
  Request sent = r;
  sent.onStart = [this, &c](int64_t cached) { onStart(c, cached); };
  sent.onPrompt = [this, &c](PromptLogprobs scores) { onPrompt(c, scores); };
  sent.onToken = [this, &c](const SampledToken &token) { return onToken(c, token); };
  sent.onFinish = [this, &c](FinishReason reason) { onFinish(c, reason); };
  c.arrived = device->clock;
  c.submittedAt = stepNumber;
  Result<RequestId> id = engine->submit(std::move(sent));
  if (!id)
    return fail("a request was refused: " + id.error().message);
  c.id = *id;
  ++counted.requests;
  clients.push_back(std::move(client));
}

void Simulator::traffic() {
  if (open && clients.size() < kMaxClients && chance(arrivals))
    submit();
  if (open && clients.size() < kMaxClients && chance(0.002)) // a burst
    while (clients.size() < kMaxClients)
      submit();
  for (auto &c : clients) {
    if (chance(0.2)) // a reader takes some of what was sent
      for (; c->readTo < c->got.size(); ++c->readTo)
        if (c->got[c->readTo] != c->want[c->readTo])
          fail("request " + std::to_string(c->id) + ": a reader sees another text");
    const bool gone = chance(cancels / double(clients.size()));
    if (gone && !c->reason && !c->cancelled) {
      c->cancelled = true;
      if (!engine->cancel(c->id))
        fail("request " + std::to_string(c->id) + " is lost: it cannot be cancelled");
    }
  }
  clients.erase(std::remove_if(clients.begin(), clients.end(), [](auto &c) { return c->reason && c->readTo == c->got.size(); }),
                clients.end());
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
  if (cached >= int64_t(c.request.prompt.size()))
    fail("request " + std::to_string(c.id) + ": no prompt token is left to compute");
}

void Simulator::onPrompt(Client &c, const PromptLogprobs &scores) {
  ++counted.scored;
  uint64_t folded = 1;
  float row[kVocab];
  if (scores.size() != c.request.prompt.size() || scores[0] || !c.got.empty() || !c.request.promptLogprobs)
    return fail("request " + std::to_string(c.id) + ": probabilities of another prompt");
  for (size_t t = 1; t < scores.size(); ++t) {
    folded = mix(folded, slotValue(folded, c.request.prompt[t - 1], int64_t(t) - 1, DSV3_PHASE_SCORE));
    logitsOf(folded, row);
    if (scores[t]->token.id != c.request.prompt[t] || scores[t]->token.logprob != logProbability(row, kVocab, c.request.prompt[t]))
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
  if (chance(0.002) && !c.cancelled) { // a client that goes away while it is written to
    c.cancelled = true;
    engine->cancel(c.id);
  }
  return c.got.size() != c.stopAfter;
}

void Simulator::checkGap(Client &c) {
  // Two of the longest steps where the programs of prompts take turns with those of tokens twice over.
  const double bound = options.scheduling.maxTokenGap * (mixed() ? 2 : 1);
  if (c.lastToken >= 0 && stepNumber > kStepsToLearn && device->clock - c.lastToken > bound)
    fail("request " + std::to_string(c.id) + ": expected at most " + std::to_string(bound) + " s between tokens, got " +
         std::to_string(device->clock - c.lastToken));
  c.lastToken = device->clock;
}

void Simulator::onFinish(Client &c, FinishReason reason) {
  if (c.reason)
    fail("request " + std::to_string(c.id) + " ended twice");
  c.reason = reason;
  ++counted.finished[int(reason)];
  const bool whole = c.got.size() == c.want.size(), asked = c.stopAfter && c.got.size() == c.stopAfter;
  const bool ended = !c.got.empty() && std::count(c.request.endIds.begin(), c.request.endIds.end(), c.got.back());
  if ((reason == FinishReason::Length && (!whole || ended)) || (reason == FinishReason::Stop && !ended && !asked) ||
      (reason == FinishReason::Cancelled && !c.cancelled))
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
      ++live;
      if (stepNumber - c->submittedAt > kStepsToEnd)
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
      c.rows = rows, c.movedAt = stepNumber;
    if (runs && stepNumber - c.movedAt > kStepsWithoutRow)
      fail(g.request.name + " runs and gets no row");
    if (runs && !c.ran)
      admitted.push_back(&c);
    if (!runs && c.submittedAt < stepNumber)
      waiting.push_back(&c);
    c.ran = runs;
    if (g.preemptions != c.preemptions)
      c.lastToken = -1; // sent back: the bound is for those that run
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
  Status s = engine->step();
  if (!device->wrong.empty())
    fail(device->wrong);
  if (!s) {
    if (counted.faults == faults)
      return fail(s.error().message);
    engine->finishAll(FinishReason::Error); // as EngineLoop does
    dead = overlaps; // such a device takes no more steps, the other may go on
  }
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
    if (engine->hasWork())
      step();
    else
      ++stepNumber, device->clock += 0.05;
  }
  open = false;
  for (const uint64_t end = stepNumber + kStepsToEnd; !failure && !dead && engine->hasWork(); step())
    if (stepNumber > end)
      fail("requests go on without an end");
  if (!failure)
    checkEnd();
  return failure;
}

} // namespace dsv3::sim
