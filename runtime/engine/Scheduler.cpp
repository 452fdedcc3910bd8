#include "runtime/engine/Scheduler.h"

#include <algorithm>

namespace dsv3 {

/// Seconds of waiting that a unit of priority is worth.
static constexpr double kAging = 10;

const char *finishReasonName(FinishReason reason) {
  switch (reason) {
  case FinishReason::Stop: return "stop";
  case FinishReason::Length: return "length";
  case FinishReason::Cancelled: return "cancelled";
  case FinishReason::Error: return "error";
  }
  return "?";
}

int64_t Scheduler::Step::rows() const {
  int64_t sum = 0;
  for (const StepItem &item : items)
    sum += item.rows;
  return sum;
}

static int64_t orUnlimited(int64_t n) { return n > 0 ? n : kNoLimit; }

Scheduler::Scheduler(const dsv3_module_desc &module, const ProgramSet &programs, BlockManager &blocks, const SchedulerOptions &options)
    : module(module), programs(programs), blocks(blocks), options(options) {
  uint32_t phase = options.schedule == Schedule::Mixed ? DSV3_PHASE_PREFILL : DSV3_PHASE_DECODE;
  // A running sequence has a row in every step, so no more run than a step has tokens for.
  mostRunning = size_t(std::min({int64_t(module.programs[programs.largest(phase)].seqs), orUnlimited(options.maxNumSeqs), orUnlimited(options.maxNumBatchedTokens)}));
}

//===-- Requests ----------------------------------------------------------===//

/// Puts `generation` where it belongs in the order of `list`.
template <typename List> static void insert(List &list, std::unique_ptr<Generation> generation) {
  auto at = std::upper_bound(list.begin(), list.end(), generation, [](const auto &a, const auto &b) { return a->before(*b); });
  list.insert(at, std::move(generation));
}

void Scheduler::add(std::unique_ptr<Generation> generation, double now) {
  generation->order = now + (options.policy == Policy::Priority ? kAging * generation->request.priority : 0);
  insert(waiting, std::move(generation));
}

bool Scheduler::finish(RequestId id, FinishReason reason) {
  auto mark = [&](const std::unique_ptr<Generation> &g) {
    if (g->id != id || g->finished)
      return false;
    g->finished = reason;
    return true;
  };
  return std::any_of(running.begin(), running.end(), mark) || std::any_of(waiting.begin(), waiting.end(), mark);
}

void Scheduler::finishAll(FinishReason reason) {
  auto mark = [&](const std::unique_ptr<Generation> &g) {
    if (!g->finished)
      g->finished = reason;
  };
  std::for_each(running.begin(), running.end(), mark);
  std::for_each(waiting.begin(), waiting.end(), mark);
}

std::vector<std::unique_ptr<Generation>> Scheduler::retire() {
  List ended;
  auto sweep = [&](auto &list) {
    for (std::unique_ptr<Generation> &g : list)
      if (g->finished)
        ended.push_back(std::move(g));
    list.erase(std::remove(list.begin(), list.end(), nullptr), list.end());
  };
  sweep(running);
  sweep(waiting);
  for (const std::unique_ptr<Generation> &g : ended)
    blocks.release(g->sequence.pages);
  return ended;
}

//===-- Pages -------------------------------------------------------------===//

void Scheduler::admit() {
  while (!waiting.empty() && running.size() < mostRunning && admit(*waiting.front())) {
    insert(running, std::move(waiting.front()));
    waiting.pop_front();
  }
  // Later ones wait too when the first does not fit: else a large request could wait forever.
}

bool Scheduler::admit(Generation &next) {
  // The last token of the prompt is computed in any case: its logits choose the next one.
  int64_t most = next.request.promptLogprobs ? 0 : (next.promptTokens - 1) / blocks.pageTokens();
  BlockManager::Match found = blocks.match(next.sequence.tokens, most, next.request.cacheSalt);
  // A page for each that runs: without it, who comes now would send away who came before, or itself, at once.
  int64_t reserve = static_cast<int64_t>(running.size());
  int64_t pages = blocks.pagesFor(next.length()) - static_cast<int64_t>(found.pages.size());
  if (pages + reserve > blocks.freePages()) {
    blocks.release(found.pages);
    return false;
  }
  next.blocks = static_cast<int64_t>(found.pages.size());
  next.block = found.last;
  next.sequence.cached = next.blocks * blocks.pageTokens();
  next.sequence.pages = std::move(found.pages);
  for (int32_t page : blocks.allocate(pages))
    next.sequence.pages.push_back(page);
  if (!next.started) { // a request that comes back looks for its own pages, which says nothing about the cache
    blocks.count(next.promptTokens, next.sequence.cached);
    next.started = true;
    if (next.request.onStart)
      next.request.onStart(next.sequence.cached);
  }
  return true;
}

void Scheduler::preempt(Generation &generation) {
  blocks.release(generation.sequence.pages);
  generation.sequence.cached = 0;
  generation.block = 0;
  generation.blocks = 0;
  ++generation.preemptions;
  ++preempted;
  auto at = std::find_if(running.begin(), running.end(), [&](const auto &g) { return g.get() == &generation; });
  insert(waiting, std::move(*at));
  running.erase(at);
}

bool Scheduler::grow(Generation &generation) {
  std::vector<int32_t> &pages = generation.sequence.pages;
  if (blocks.pagesFor(generation.sequence.cached + 1) <= static_cast<int64_t>(pages.size()))
    return true;
  while (blocks.freePages() == 0) {
    Generation &last = *running.back();
    preempt(last);
    if (&last == &generation)
      return false;
  }
  pages.push_back(blocks.allocate(1)[0]);
  return true;
}

void Scheduler::publish(Generation &g) {
  if (g.request.promptLogprobs)
    return; // another program wrote them
  // Under Mixed one program writes prompts and answers.
  int64_t known = options.schedule == Schedule::Mixed ? g.length() : g.promptTokens;
  while (g.sequence.tokens[size_t(known - 1)] < 0)
    --known; // a placeholder is no token yet
  int64_t end = std::min(g.sequence.cached, known);
  for (; (g.blocks + 1) * blocks.pageTokens() <= end; ++g.blocks)
    g.block = blocks.publish(g.sequence.pages[size_t(g.blocks)], g.block, g.sequence.tokens.data() + g.blocks * blocks.pageTokens(), g.request.cacheSalt);
}

//===-- Steps -------------------------------------------------------------===//

Scheduler::Step Scheduler::plan(uint32_t phase, const std::vector<Generation *> &candidates, int64_t chunk, int64_t mostRows) const {
  std::vector<Sequence *> sequences;
  const bool promptsOnly = phase != DSV3_PHASE_DECODE && options.schedule == Schedule::Split;
  for (Generation *g : candidates) {
    // What was generated before a preemption is computed anew by the program that generates.
    g->sequence.stop = promptsOnly || phase == DSV3_PHASE_SCORE ? g->promptTokens : kNoLimit;
    sequences.push_back(&g->sequence);
  }
  Step step;
  step.phase = phase;
  mostRows = std::min(mostRows, orUnlimited(options.maxNumBatchedTokens));
  step.items = planStep(module.programs[programs.largest(phase)], sequences, chunk, mostRows);
  step.program = programs.smallestFor(phase, step.items);
  // The plan keeps the order but may skip some.
  auto candidate = candidates.begin();
  for (const StepItem &item : step.items) {
    candidate = std::find_if(candidate, candidates.end(), [&](Generation *g) { return &g->sequence == item.sequence; });
    step.generations.push_back(*candidate);
  }
  return step;
}

std::vector<Generation *> Scheduler::runningWhere(bool prefilling) const {
  std::vector<Generation *> some;
  for (const std::unique_ptr<Generation> &g : running)
    if (g->prefilling() == prefilling && !g->finished && !g->complete())
      some.push_back(g.get());
  return some;
}

std::vector<Generation *> Scheduler::grown(const std::vector<Generation *> &candidates) {
  std::vector<Generation *> ready;
  for (Generation *g : candidates) {
    // Growing sends away those at the end of the order, which may be candidates that come later.
    bool here = std::any_of(running.begin(), running.end(), [&](const auto &r) { return r.get() == g; });
    if (here && grow(*g))
      ready.push_back(g);
  }
  return ready;
}

Scheduler::Step Scheduler::decodeStep() { return plan(DSV3_PHASE_DECODE, grown(runningWhere(false)), 1, kNoLimit); }

Scheduler::Step Scheduler::prefillStep(bool decodingToo) {
  std::vector<Generation *> prompts = runningWhere(true);
  if (prompts.empty())
    return {};
  // Prompts whose probabilities are wanted run in a program of their own.
  bool score = prompts.front()->request.promptLogprobs.has_value();
  auto other = [&](Generation *g) { return g->request.promptLogprobs.has_value() != score; };
  prompts.erase(std::remove_if(prompts.begin(), prompts.end(), other), prompts.end());
  return plan(score ? DSV3_PHASE_SCORE : DSV3_PHASE_PREFILL, prompts, orUnlimited(options.prefillChunk),
              decodingToo ? cost.rowsWithin(options.maxTokenGap) : kNoLimit);
}

Scheduler::Step Scheduler::mixedStep() {
  std::vector<Generation *> candidates = grown(runningWhere(false));
  // Those that get a token go first: behind one that computes anew what it had before a preemption they could miss the step.
  auto chosen = [](Generation *g) { return g->length() - g->sequence.cached == 1; };
  const int64_t decoding = std::stable_partition(candidates.begin(), candidates.end(), chosen) - candidates.begin();
  for (Generation *g : runningWhere(true))
    if (!g->request.promptLogprobs)
      candidates.push_back(g);
  // However tight the bound, each running sequence has its row, and prompts move.
  int64_t rows = decoding ? std::max(cost.rowsWithin(options.maxTokenGap), decoding + kQueryTile) : kNoLimit;
  return plan(DSV3_PHASE_PREFILL, candidates, orUnlimited(options.prefillChunk), rows);
}

Scheduler::Step Scheduler::schedule() {
  admit();
  std::vector<Generation *> prompts = runningWhere(true);
  bool decoding = !runningWhere(false).empty();
  if (prompts.empty() && !decoding)
    return {};
  bool prefill = !decoding || (!prompts.empty() && !lastWasPrefill);
  lastWasPrefill = prefill;
  const bool mixed = options.schedule == Schedule::Mixed, judged = prefill && prompts.front()->request.promptLogprobs;
  Step step = mixed && !judged ? mixedStep() : prefill ? prefillStep(decoding) : decodeStep();
  // Every running sequence may have had to give its pages back to one that prefills.
  return step.items.empty() && !prompts.empty() ? prefillStep(false) : step;
}

void Scheduler::launched(const Step &step) {
  for (size_t i = 0; i < step.items.size(); ++i)
    step.generations[i]->sequence.cached += step.items[i].rows;
}

void Scheduler::done(const Step &step, double seconds) {
  if (step.phase == DSV3_PHASE_DECODE)
    cost.decoded(seconds);
  else
    cost.prefilled(step.rows(), seconds);
  for (Generation *g : step.generations)
    if (!g->finished) // else its pages may be others' by now
      publish(*g);
}

} // namespace dsv3
