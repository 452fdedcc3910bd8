#include "runtime/engine/Scheduler.h"

#include <algorithm>

namespace dsv3 {

const char *finishReasonName(FinishReason reason) {
  switch (reason) {
  case FinishReason::Stop: return "stop";
  case FinishReason::Length: return "length";
  case FinishReason::Cancelled: return "cancelled";
  case FinishReason::Error: return "error";
  }
  return "?";
}

Scheduler::Scheduler(const dsv3_module_desc &module, const ProgramSet &programs, BlockManager &blocks,
                     int64_t chunk)
    : module(module), programs(programs), blocks(blocks), chunk(chunk),
      maxRunning(module.programs[programs.largest(DSV3_PHASE_DECODE)].seqs) {}

void Scheduler::add(std::unique_ptr<Generation> generation) { waiting.push_back(std::move(generation)); }

bool Scheduler::cancel(RequestId id) {
  auto mark = [id](const std::unique_ptr<Generation> &g) {
    if (g->id != id)
      return false;
    if (!g->finished)
      g->finished = FinishReason::Cancelled;
    return true;
  };
  return std::any_of(running.begin(), running.end(), mark) ||
         std::any_of(waiting.begin(), waiting.end(), mark);
}

void Scheduler::finishAll(FinishReason reason) {
  auto mark = [reason](auto &list) {
    for (const std::unique_ptr<Generation> &g : list)
      if (!g->finished)
        g->finished = reason;
  };
  mark(running);
  mark(waiting);
}

void Scheduler::admit() {
  while (!waiting.empty() && running.size() < maxRunning) {
    Generation &next = *waiting.front();
    // The last token is never fed back, so it needs no place in the cache.
    int64_t pages = blocks.pagesFor(next.promptTokens + next.request.maxTokens - 1);
    if (pages > blocks.freePages())
      return; // later ones wait too: else a large request could wait forever
    next.sequence.pages = blocks.allocate(pages);
    running.push_back(std::move(waiting.front()));
    waiting.pop_front();
  }
}

Scheduler::Step Scheduler::stepOf(uint32_t phase, const std::vector<Generation *> &candidates) {
  std::vector<Sequence *> sequences;
  for (Generation *g : candidates)
    sequences.push_back(&g->sequence);
  Step step;
  int64_t rows = phase == DSV3_PHASE_DECODE ? 1 : chunk;
  step.items = planStep(module.programs[programs.largest(phase)], sequences, rows);
  step.program = programs.smallestFor(phase, step.items);
  // The plan keeps the order but may skip some.
  auto candidate = candidates.begin();
  for (const StepItem &item : step.items) {
    candidate = std::find_if(candidate, candidates.end(),
                             [&](Generation *g) { return &g->sequence == item.sequence; });
    step.generations.push_back(*candidate);
  }
  return step;
}

Scheduler::Step Scheduler::schedule() {
  admit();
  std::vector<Generation *> prompts, decoding;
  for (const std::unique_ptr<Generation> &g : running)
    (g->prefilling() ? prompts : decoding).push_back(g.get());
  if (prompts.empty() && decoding.empty())
    return {};
  bool prefill = decoding.empty() || (!prompts.empty() && !lastWasPrefill);
  lastWasPrefill = prefill;
  return prefill ? stepOf(DSV3_PHASE_PREFILL, prompts) : stepOf(DSV3_PHASE_DECODE, decoding);
}

std::vector<std::unique_ptr<Generation>> Scheduler::retire() {
  std::vector<std::unique_ptr<Generation>> done;
  auto sweep = [&](auto &list) {
    for (std::unique_ptr<Generation> &g : list)
      if (g->finished)
        done.push_back(std::move(g));
    list.erase(std::remove(list.begin(), list.end(), nullptr), list.end());
  };
  sweep(running);
  sweep(waiting);
  for (const std::unique_ptr<Generation> &g : done)
    blocks.release(g->sequence.pages);
  return done;
}

} // namespace dsv3
