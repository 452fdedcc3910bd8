// Who chooses the tokens of a step, what has to come back for it, and the choosing on the host.
#include "runtime/engine/Engine.h"

#include "runtime/engine/ModuleCheck.h"

#include <algorithm>
#include <utility>

namespace dsv3 {

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

Result<SampledToken> Engine::tokenOfDevice(const Flight &flight, size_t item) {
  Result<const dsv3_sampled *> chosen = fetch<dsv3_sampled>(rowsOf(flight.step.program, "sampled", static_cast<int64_t>(item), 1));
  if (!chosen)
    return chosen.error();
  if (!(*chosen)->fault && ((*chosen)->id < 0 || (*chosen)->id >= manifest.model.vocabSize))
    return internalError("expected a token id below " + std::to_string(manifest.model.vocabSize) + " from the device, got " +
                         std::to_string((*chosen)->id));
  return tokenOf(**chosen, flight.places[item] - 1);
}

/// Calls fn(first, last) for parts of [0, rows), on the threads that the machine has for it.
template <typename Fn> static void share(Device &device, size_t rows, Fn fn) {
  if (rows == 0)
    return;
  device.share(
      static_cast<int64_t>(rows), [](void *context, int64_t first, int64_t last, void *) { (*static_cast<Fn *>(context))(size_t(first), size_t(last)); }, &fn);
}

std::vector<std::optional<Result<SampledToken>>> Engine::chooseTokens(const Flight &flight) {
  const Scheduler::Step &step = flight.step;
  std::vector<std::optional<Result<SampledToken>>> chosen(step.items.size());
  std::vector<std::pair<size_t, const float *>> ofHost; // items with their logits
  for (size_t i = 0; i < step.items.size(); ++i) {
    if (step.generations[i]->finished || flight.choosers[i] == Chooser::Nobody)
      continue;
    if (flight.choosers[i] == Chooser::Device) {
      chosen[i] = tokenOfDevice(flight, i);
      continue;
    }
    Result<const float *> logits = fetch<float>(rowsOf(step.program, "logits", logitsRow(step, i), 1));
    if (logits)
      ofHost.push_back({i, *logits});
    else
      chosen[i] = logits.error();
  }
  // Rows know nothing of each other: a token does not depend on who chooses it, or when.
  share(device, ofHost.size(), [&](size_t first, size_t last) {
    std::unique_ptr<Sampler> sampler = takeSampler();
    for (size_t k = first; k < last; ++k) {
      const Generation &g = *step.generations[ofHost[k].first];
      chosen[ofHost[k].first] = sampler->sample(ofHost[k].second, g.request.sampling, g.sequence.tokens, contextOf(g));
    }
    std::lock_guard lock(samplersMutex);
    samplers.push_back(std::move(sampler));
  });
  return chosen;
}

std::unique_ptr<Sampler> Engine::takeSampler() {
  std::lock_guard lock(samplersMutex);
  if (samplers.empty())
    return std::make_unique<Sampler>(manifest.model.vocabSize);
  std::unique_ptr<Sampler> sampler = std::move(samplers.back());
  samplers.pop_back();
  return sampler;
}

static PromptLogprob judge(const float *row, int64_t vocab, int32_t id, int32_t count) {
  const int64_t rank = std::count_if(row, row + vocab, [&](float logit) { return logit >= row[id]; });
  return {{id, logProbability(describeToken(row, vocab, id))}, topLogprobs(row, vocab, count), rank};
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
  // Before a preemption some rows were judged, or all of them.
  const int64_t from = g.generated() > 0 ? g.promptTokens : static_cast<int64_t>(known.size());
  const int64_t to = std::min(rows.start + rows.rows + 1, g.promptTokens);
  known.resize(size_t(std::max(to, static_cast<int64_t>(known.size()))));
  std::vector<Status> finite(size_t(rows.rows));
  share(device, finite.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      const float *row = *logits + int64_t(i) * vocab;
      const int64_t next = rows.start + int64_t(i) + 1;
      finite[i] = checkFinite(row, vocab, next - 1);
      if (finite[i] && next >= from && next < to)
        known[size_t(next)] = judge(row, vocab, g.sequence.tokens[size_t(next)], *g.request.promptLogprobs);
    }
  });
  for (const Status &s : finite)
    if (!s)
      return s;
  if (rows.start + rows.rows == g.promptTokens && g.generated() == 0) {
    if (g.request.onPrompt)
      g.request.onPrompt(std::exchange(known, {}));
    if (g.request.maxTokens == 0 && !g.finished)
      g.finished = FinishReason::Length;
  }
  return {};
}

} // namespace dsv3
