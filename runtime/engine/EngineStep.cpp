// Engine::step: schedule, run, postprocess. Where the device takes a step while it runs another, the next one is scheduled and
// launched before the results of the current one are seen, so that the device never waits for the host.
//
// What such a step needs to know it knows: how long each sequence will be. The token that the current step chooses is a placeholder
// in its sequence (Device::launch says how a device resolves it). If a request ends with that token, the next step computes a row of
// it for nothing. Its pages may be given away at once: the device runs steps in their order, so whoever gets them writes later.
#include "runtime/engine/Engine.h"

#include "runtime/engine/ModuleCheck.h"

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

//===-- Sampling ----------------------------------------------------------===//

static SamplingContext contextOf(const Generation &g) {
  const bool early = g.generated() < g.request.minTokens;
  return {g.promptTokens, g.request.topLogprobs, g.request.constraint.get(), early ? &g.request.endIds : nullptr};
}

int64_t Engine::logitsRow(const Scheduler::Step &step, size_t item) {
  if (step.phase != DSV3_PHASE_SCORE)
    return static_cast<int64_t>(item);
  int64_t row = -1;
  for (size_t i = 0; i <= item; ++i)
    row += step.items[i].rows;
  return row;
}

Engine::Chooser Engine::chooserOf(const Scheduler::Step &step, size_t item) const {
  const Generation &g = *step.generations[item];
  const StepItem &rows = step.items[item];
  if (rows.start + rows.rows < g.length() || g.request.maxTokens == 0)
    return Chooser::Nobody;
  bool can = sampleOnDevice && step.phase != DSV3_PHASE_SCORE && findOutput(device.module().programs[step.program], "sampled");
  return can && canChooseOnDevice(g.request.sampling, contextOf(g)) ? Chooser::Device : Chooser::Host;
}

std::vector<HostCopy> Engine::planSampling(const Scheduler::Step &step, StepBuffer &buffer) {
  if (step.phase == DSV3_PHASE_SCORE) // every row is judged
    return {rowsOf(step.program, "logits", 0, step.rows())};
  std::vector<HostCopy> copies;
  bool onDevice = false;
  size_t last = 0; // row after the last copied one
  for (size_t i = 0; i < step.items.size(); ++i) {
    const Generation &g = *step.generations[i];
    Chooser chooser = chooserOf(step, i);
    if (chooser == Chooser::Device) {
      dsv3_sampling how = samplingOf(g.request.sampling, static_cast<int64_t>(g.sequence.tokens.size()));
      how.flags |= DSV3_SAMPLE_ROW;
      buffer.setSampling(static_cast<int64_t>(i), how);
      onDevice = true;
    } else if (chooser == Chooser::Host) {
      HostCopy row = rowsOf(step.program, "logits", static_cast<int64_t>(i), 1);
      if (!copies.empty() && last == i) // neighbours come together
        copies.back().bytes += row.bytes;
      else
        copies.push_back(row);
      last = i + 1;
    }
  }
  if (onDevice)
    copies.push_back(rowsOf(step.program, "sampled", 0, static_cast<int64_t>(step.items.size())));
  return copies;
}

Result<SampledToken> Engine::sample(const Flight &flight, size_t item) {
  const Scheduler::Step &step = flight.step;
  const Generation &g = *step.generations[item];
  const auto row = static_cast<int64_t>(item);
  if (flight.choosers[item] == Chooser::Host) {
    Result<const float *> logits = fetch<float>(rowsOf(step.program, "logits", logitsRow(step, item), 1));
    if (!logits)
      return logits.error();
    ++counters.tokensOfHost;
    return sampler.sample(*logits, g.request.sampling, g.sequence.tokens, contextOf(g));
  }
  Result<const dsv3_sampled *> chosen = fetch<dsv3_sampled>(rowsOf(step.program, "sampled", row, 1));
  if (!chosen)
    return chosen.error();
  ++counters.tokensOfDevice;
  if (!(*chosen)->fault && ((*chosen)->id < 0 || (*chosen)->id >= manifest.model.vocabSize))
    return internalError("expected a token id below " + std::to_string(manifest.model.vocabSize) + " from the device, got " +
                         std::to_string((*chosen)->id));
  return tokenOf(**chosen, flight.places[item] - 1);
}

Status Engine::judgePrompt(const Scheduler::Step &step, size_t item) {
  Generation &g = *step.generations[item];
  const StepItem &rows = step.items[item];
  const int64_t vocab = manifest.model.vocabSize, first = logitsRow(step, item) - rows.rows + 1;
  Result<const float *> logits = fetch<float>(rowsOf(step.program, "logits", first, rows.rows));
  if (!logits)
    return logits.error();
  PromptLogprobs &known = g.promptLogprobs;
  if (known.empty())
    known.emplace_back(); // nothing precedes the first token
  for (int64_t i = 0; i < rows.rows; ++i) {
    const float *row = *logits + i * vocab;
    const int64_t next = rows.start + i + 1;
    if (Status s = checkFinite(row, vocab, next - 1); !s)
      return s;
    // Before a preemption some rows were judged, or all of them.
    if (next >= g.promptTokens || next < static_cast<int64_t>(known.size()) || g.generated() > 0)
      continue;
    const int32_t id = g.sequence.tokens[size_t(next)];
    const int64_t rank = std::count_if(row, row + vocab, [&](float logit) { return logit >= row[id]; });
    known.push_back(PromptLogprob{{id, logProbability(row, vocab, id)}, topLogprobs(row, vocab, *g.request.promptLogprobs), rank});
  }
  if (rows.start + rows.rows == g.promptTokens && g.generated() == 0) {
    if (g.request.onPrompt)
      g.request.onPrompt(std::exchange(known, {}));
    if (g.request.maxTokens == 0 && !g.finished)
      g.finished = FinishReason::Length;
  }
  return {};
}

Status Engine::postprocess(const Flight &flight) {
  const Scheduler::Step &step = flight.step;
  for (size_t i = 0; i < step.items.size(); ++i) {
    Generation &g = *step.generations[i];
    if (step.items[i].start < g.promptTokens)
      counters.promptTokens += uint64_t(step.items[i].rows);
    if (g.finished)
      continue;
    if (Status s = step.phase == DSV3_PHASE_SCORE ? judgePrompt(step, i) : Status(); !s)
      if (Status all = endBy(g, s.error()); !all)
        return all;
    if (flight.choosers[i] == Chooser::Nobody || g.finished)
      continue;
    Result<SampledToken> token = sample(flight, i);
    if (token) {
      advance(g, *token, flight.places[i]);
    } else if (Status all = endBy(g, token.error()); !all) {
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
