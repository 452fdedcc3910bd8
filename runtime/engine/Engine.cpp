#include "runtime/engine/Engine.h"

#include "runtime/engine/ModuleCheck.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace dsv3 {

Result<std::unique_ptr<Engine>> Engine::create(Device &device, const Manifest &manifest,
                                               const Options &options) {
  Result<ProgramSet> programs = ProgramSet::create(device.module());
  if (!programs)
    return programs.error();
  return std::unique_ptr<Engine>(new Engine(device, manifest, std::move(*programs), options));
}

static double steadySeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Engine::Engine(Device &device, const Manifest &manifest, ProgramSet set, const Options &options)
    : device(device), manifest(manifest), programs(std::move(set)),
      chunk(options.scheduling.prefillChunk > 0 ? options.scheduling.prefillChunk : std::numeric_limits<int64_t>::max()),
      clock(options.clock ? options.clock : steadySeconds), sampleOnDevice(options.sampleOnDevice),
      blocks(device.kvPages(), device.module().kv_page_tokens, options.prefixCache), buffer(device.module(), device.stepBuffer()),
      scheduler(device.module(), programs, blocks, options.scheduling), sampler(manifest.model.vocabSize),
      runs(device.module().n_programs, 0) {}

Status Engine::checkPrompt(const std::vector<int32_t> &prompt) const {
  if (prompt.empty())
    return usageError("the prompt is empty: expected at least one token id");
  int64_t length = static_cast<int64_t>(prompt.size()), limit = manifest.config.maxModelLen;
  if (length > limit)
    return usageError("prompt: expected at most " + std::to_string(limit) +
                      " tokens (max_model_len of the artifact), got " + std::to_string(length));
  for (size_t i = 0; i < prompt.size(); ++i)
    if (prompt[i] < 0 || prompt[i] >= manifest.model.vocabSize)
      return usageError("prompt: token " + std::to_string(i) + ": expected an id from 0 to " +
                        std::to_string(manifest.model.vocabSize - 1) + ", got " + std::to_string(prompt[i]));
  return {};
}

Status Engine::check(const Request &request) const {
  if (Status s = checkPrompt(request.prompt); !s)
    return s.error();
  if (Status s = request.sampling.validate(manifest.model.vocabSize); !s)
    return s.error();
  const int64_t least = request.promptLogprobs ? 0 : 1, vocab = manifest.model.vocabSize;
  if (request.maxTokens < least)
    return usageError("max-tokens: expected at least " + std::to_string(least) + ", got " + std::to_string(request.maxTokens));
  if (request.topLogprobs > vocab)
    return usageError("top-logprobs: expected at most " + std::to_string(vocab) + ", got " + std::to_string(request.topLogprobs));
  if (request.promptLogprobs && (*request.promptLogprobs < 0 || *request.promptLogprobs > vocab))
    return usageError("prompt-logprobs: expected a number from 0 to " + std::to_string(vocab) + ", got " + std::to_string(*request.promptLogprobs));
  if (request.promptLogprobs && !hasScore())
    return unsupportedError("prompt-logprobs: expected an artifact with a score program, got one without");
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const int64_t more = tokensOf(request), pages = blocks.pagesFor(prompt + std::max<int64_t>(more, 1) - 1);
  if (pages > blocks.totalPages())
    return doesNotFitError("request of " + std::to_string(prompt) + " prompt tokens and " + std::to_string(more) +
                           " more: expected at most " + std::to_string(blocks.totalPages()) + " kv pages, got " +
                           std::to_string(pages));
  return {};
}

int64_t Engine::tokensOf(const Request &request) const {
  // The last token is never fed back: it may lie one past the plan.
  return std::min(request.maxTokens, manifest.config.maxModelLen - static_cast<int64_t>(request.prompt.size()) + 1);
}

Result<RequestId> Engine::submit(Request request) {
  if (Status s = check(request); !s)
    return s.error();
  RequestId id = newId();
  enqueue(id, std::move(request));
  return id;
}

void Engine::enqueue(RequestId id, Request request) {
  auto generation = std::make_unique<Generation>();
  generation->id = id;
  generation->promptTokens = static_cast<int64_t>(request.prompt.size());
  request.maxTokens = tokensOf(request);
  generation->sequence.tokens = std::move(request.prompt);
  generation->request = std::move(request);
  if (generation->request.name.empty())
    generation->request.name = "request " + std::to_string(id);
  scheduler.add(std::move(generation), clock());
}

void Engine::finishAll(FinishReason reason) {
  // A callback may submit another request: that one ends too.
  while (!scheduler.empty()) {
    scheduler.finishAll(reason);
    finishRetired();
  }
}

Status Engine::step() {
  finishRetired(); // cancelled since the last step
  Scheduler::Step step = scheduler.schedule();
  if (step.items.empty())
    return scheduler.empty() ? Status()
                             : internalError("the scheduler has requests but found nothing to run");
  const double start = clock();
  dsv3_step_host host = buffer.fill(device.module().programs[step.program], step.items);
  if (Status s = run(step.program, host, planSampling(step)); !s)
    return s;
  ++counters.steps;
  scheduler.done(step, clock() - start);
  if (Status s = postprocess(step); !s)
    return s;
  finishRetired();
  return {};
}

Status Engine::runAll() {
  while (hasWork())
    if (Status s = step(); !s)
      return s;
  return {};
}

Status Engine::run(uint32_t program, const dsv3_step_host &step, const std::vector<HostCopy> &copies, const TapSink &taps) {
  ++runs[program];
  return device.run(program, step, copies, taps);
}

HostCopy Engine::rowsOf(uint32_t program, const char *name, int64_t first, int64_t rows) const {
  const dsv3_output_desc *out = findOutput(device.module().programs[program], name);
  uint64_t rowBytes = out->cols * elemBytes(out->elem);
  HostCopy copy{out->ref, uint64_t(rows) * rowBytes};
  copy.ref.offset += uint64_t(first) * rowBytes;
  return copy;
}

template <typename T> Result<const T *> Engine::fetch(const HostCopy &copy) {
  Result<const void *> data = device.fetch(copy.ref, copy.bytes);
  if (!data)
    return data.error();
  return static_cast<const T *>(*data);
}
template Result<const float *> Engine::fetch(const HostCopy &); // for scores

//===-- Sampling ----------------------------------------------------------===//

static SamplingContext contextOf(const Generation &g) {
  return {g.promptTokens, g.request.topLogprobs, g.request.constraint.get()};
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

std::vector<HostCopy> Engine::planSampling(const Scheduler::Step &step) {
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

Result<SampledToken> Engine::sample(const Scheduler::Step &step, size_t item, Chooser chooser) {
  const Generation &g = *step.generations[item];
  const auto row = static_cast<int64_t>(item), length = static_cast<int64_t>(g.sequence.tokens.size());
  if (chooser == Chooser::Host) {
    Result<const float *> logits = fetch<float>(rowsOf(step.program, "logits", logitsRow(step, item), 1));
    if (!logits)
      return logits.error();
    ++tokensOfHost;
    return sampler.sample(*logits, g.request.sampling, g.sequence.tokens, contextOf(g));
  }
  Result<const dsv3_sampled *> chosen = fetch<dsv3_sampled>(rowsOf(step.program, "sampled", row, 1));
  if (!chosen)
    return chosen.error();
  ++tokensOfDevice;
  if (!(*chosen)->fault && ((*chosen)->id < 0 || (*chosen)->id >= manifest.model.vocabSize))
    return internalError("expected a token id below " + std::to_string(manifest.model.vocabSize) + " from the device, got " +
                         std::to_string((*chosen)->id));
  return tokenOf(**chosen, length - 1);
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
    known.push_back(PromptLogprob{{id, logProbability(row, vocab, id)}, topLogprobs(row, vocab, *g.request.promptLogprobs)});
  }
  if (rows.start + rows.rows == g.promptTokens && g.generated() == 0) {
    if (g.request.onPrompt)
      g.request.onPrompt(std::exchange(known, {}));
    if (g.request.maxTokens == 0 && !g.finished)
      g.finished = FinishReason::Length;
  }
  return {};
}

Status Engine::postprocess(const Scheduler::Step &step) {
  for (size_t i = 0; i < step.items.size(); ++i) {
    Generation &g = *step.generations[i];
    if (step.items[i].start < g.promptTokens)
      counters.promptTokens += uint64_t(step.items[i].rows);
    if (g.finished)
      continue;
    if (Status s = step.phase == DSV3_PHASE_SCORE ? judgePrompt(step, i) : Status(); !s)
      return Error{s.error().code, g.request.name + ": " + s.error().message};
    Chooser chooser = chooserOf(step, i);
    if (chooser == Chooser::Nobody || g.finished)
      continue;
    Result<SampledToken> token = sample(step, i, chooser);
    if (!token)
      return Error{token.error().code, g.request.name + ": " + token.error().message};
    advance(g, *token);
  }
  return {};
}

void Engine::advance(Generation &g, const SampledToken &token) {
  g.sequence.tokens.push_back(token.id);
  ++counters.generatedTokens;
  const std::vector<int32_t> &ends = g.request.endIds;
  bool goOn = !g.request.onToken || g.request.onToken(token);
  if (g.finished) // cancelled by its own callback
    return;
  if (!goOn || std::find(ends.begin(), ends.end(), token.id) != ends.end())
    g.finished = FinishReason::Stop;
  else if (g.generated() >= g.request.maxTokens)
    g.finished = FinishReason::Length;
}

void Engine::finishRetired() {
  for (const std::unique_ptr<Generation> &g : scheduler.retire()) {
    ++counters.finished[static_cast<int>(*g->finished)];
    if (g->request.onFinish)
      g->request.onFinish(*g->finished);
  }
}

Engine::Stats Engine::stats() const {
  return {runs, tokensOfDevice, tokensOfHost, blocks.freePages(), blocks.totalPages(), scheduler.waitingCount(), scheduler.runningCount(),
          scheduler.preemptions(), blocks.stats()};
}

EngineSnapshot Engine::snapshot() const {
  EngineSnapshot now = counters;
  now.waiting = scheduler.waitingCount();
  now.running = scheduler.runningCount();
  now.maxRunning = scheduler.maxRunning();
  now.totalPages = blocks.totalPages();
  now.freePages = blocks.freePages();
  now.cachedPages = blocks.unusedCachedPages();
  now.preemptions = uint64_t(scheduler.preemptions());
  const PrefixCacheStats cache = blocks.stats();
  now.prefixQueries = uint64_t(cache.queries);
  now.prefixHits = uint64_t(cache.hits);
  now.prefixEvictions = uint64_t(cache.evictions);
  return now;
}

} // namespace dsv3
