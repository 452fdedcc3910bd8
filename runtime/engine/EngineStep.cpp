// Engine::step: schedule, run, postprocess. Where the device takes a step while it runs another, the next one is scheduled and
// launched before the results of the current one are seen, so that the device never waits for the host.
//
// What such a step needs to know it knows: how long each sequence will be. The token that the current step chooses is a placeholder
// in its sequence (Device::launch says how a device resolves it). If a request ends with that token, the next step computes a row of
// it for nothing. Its pages may be given away at once: the device runs steps in their order, so whoever gets them writes later.
#include "runtime/engine/Engine.h"

#include <algorithm>
#include <utility>

namespace dsv3 {

Status Engine::step() {
  finishRetired(); // cancelled since the last step
  if (!current)
    if (Status s = launchNext(current); !s)
      return s;
  if (!current)
    return scheduler.empty() ? Status() : internalError("the scheduler has requests but found nothing to run");
  std::optional<Flight> next;
  if (device.stepsAtOnce() > 1 && current->foreseeable)
    if (Status s = launchNext(next); !s)
      return s;
  Flight landing = std::exchange(*current, {});
  current = std::move(next);
  if (Status s = land(landing); !s)
    return s;
  finishRetired();
  return {};
}

Status Engine::settle() {
  if (!current)
    return {};
  Flight landing = std::exchange(*current, {});
  current.reset();
  Status s = land(landing);
  finishRetired();
  return s;
}

Status Engine::launchNext(std::optional<Flight> &flight) {
  Scheduler::Step step = scheduler.schedule();
  if (step.items.empty())
    return {};
  Flight f;
  f.launched = clock();
  StepBuffer buffer(device.module(), device.stepBuffer());
  dsv3_step_host host = buffer.fill(device.module().programs[step.program], step.items);
  std::vector<HostCopy> copies = planSampling(step, buffer);
  ++counters.runs[step.program];
  if (Status s = device.launch(step.program, host, copies); !s)
    return s;
  ++counters.steps;
  for (size_t i = 0; i < step.items.size(); ++i) {
    Generation &g = *step.generations[i];
    ++g.inFlight;
    f.choosers.push_back(chooserOf(step, i));
    f.places.push_back(g.length());
    f.foreseeable &= f.choosers.back() != Chooser::Host && step.phase != DSV3_PHASE_SCORE;
  }
  scheduler.launched(step);
  for (size_t i = 0; i < step.items.size(); ++i)
    if (f.choosers[i] == Chooser::Device)
      step.generations[i]->sequence.tokens.push_back(-1 - static_cast<int32_t>(i));
  f.step = std::move(step);
  flight = std::move(f);
  return {};
}

Status Engine::land(const Flight &flight) {
  if (Status s = device.wait(); !s)
    return s;
  const double now = clock();
  // A step that was launched behind another began when that one ended.
  scheduler.done(flight.step, now - std::max(flight.launched, lastLanding));
  lastLanding = now;
  Status s = postprocess(flight);
  for (Generation *g : flight.step.generations)
    --g->inFlight;
  leaving.erase(std::remove_if(leaving.begin(), leaving.end(), [](const auto &g) { return g->inFlight == 0; }), leaving.end());
  return s;
}

Status Engine::postprocess(const Flight &flight) {
  const Scheduler::Step &step = flight.step;
  for (size_t i = 0; i < step.items.size(); ++i) {
    Generation &g = *step.generations[i];
    if (step.items[i].start < g.promptTokens)
      counters.promptTokens += uint64_t(step.items[i].rows);
    if (step.phase != DSV3_PHASE_SCORE || g.finished)
      continue;
    if (Status judged = judgePrompt(step, i); !judged)
      if (Status all = endBy(g, judged.error()); !all)
        return all;
  }
  std::vector<std::optional<Result<SampledToken>>> chosen = chooseTokens(flight);
  for (size_t i = 0; i < step.items.size(); ++i) {
    Generation &g = *step.generations[i];
    if (g.finished || !chosen[i]) // finished: maybe by the callback of another
      continue;
    ++(flight.choosers[i] == Chooser::Host ? counters.tokensOfHost : counters.tokensOfDevice);
    if (*chosen[i]) {
      advance(g, **chosen[i], flight.places[i]);
    } else if (Status all = endBy(g, chosen[i]->error()); !all) {
      return all;
    }
  }
  return {};
}

Status Engine::endBy(Generation &g, const Error &e) {
  Error named{e.code, g.request.name + ": " + e.message};
  if (e.code != ExitCode::BadCheckpoint)
    return named;
  ++counters.nonFinite;
  // Should the fault be a passing one of the machine, those who begin alike must not inherit it.
  blocks.forget(g.sequence.pages);
  g.error = std::move(named);
  g.finished = FinishReason::Error;
  return {};
}

void Engine::advance(Generation &g, const SampledToken &token, int64_t place) {
  if (place < g.length())
    g.sequence.tokens[size_t(place)] = token.id;
  else
    g.sequence.tokens.push_back(token.id);
  ++counters.generatedTokens;
  const std::vector<int32_t> &ends = g.request.endIds;
  bool goOn = !g.request.onToken || g.request.onToken(token);
  if (g.finished) // cancelled by its own callback
    return;
  if (!goOn || std::find(ends.begin(), ends.end(), token.id) != ends.end())
    g.finished = FinishReason::Stop;
  else if (place + 1 - g.promptTokens >= g.request.maxTokens)
    g.finished = FinishReason::Length;
}

} // namespace dsv3
