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
      blocks(device.kvPages(), device.module().kv_page_tokens, options.prefixCache), scheduler(device.module(), programs, blocks, options.scheduling) {
  counters.runs.resize(device.module().n_programs);
}

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
  if (request.minTokens < 0 || request.minTokens > request.maxTokens)
    return usageError("min-tokens: expected a number from 0 to " + std::to_string(request.maxTokens) + " (max-tokens), got " + std::to_string(request.minTokens));
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

Status Engine::runAll() {
  while (hasWork())
    if (Status s = step(); !s)
      return s;
  return {};
}

Status Engine::run(uint32_t program, const dsv3_step_host &step, const std::vector<HostCopy> &copies, const TapSink &taps) {
  ++counters.runs[program];
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
template Result<const float *> Engine::fetch(const HostCopy &);
template Result<const dsv3_sampled *> Engine::fetch(const HostCopy &);

void Engine::finishRetired() {
  for (std::unique_ptr<Generation> &g : scheduler.retire()) {
    ++counters.finished[static_cast<int>(*g->finished)];
    if (g->error && g->request.onError)
      g->request.onError(*g->error);
    if (g->request.onFinish)
      g->request.onFinish(*g->finished);
    if (g->inFlight > 0)
      leaving.push_back(std::move(g));
  }
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
