#include "runtime/server/Generation.h"

namespace dsv3::server {

namespace {

double seconds(Generation::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

size_t bytesOf(const Event &event) {
  return sizeof event + event.text.size() + (event.token ? event.token->top.size() * sizeof(TokenLogprob) : 0);
}

} // namespace

std::optional<ApiError> Generation::start(Prepared &prepared, const ServedModel &model, const std::string &name, uint64_t seed) {
  Params &params = prepared.params;
  makeConstraint = prepared.makeConstraint;
  promptField = prepared.promptField;
  if (!params.seeded)
    params.completion.sampling.seed = seed;
  // All choices exist before the first is submitted: the engine may be faster than this loop.
  for (size_t i = 0; i < prepared.prompts.size() * size_t(params.n); ++i) {
    auto choice = std::make_unique<Choice>();
    params.completion.sampling.stream = i % size_t(params.n);
    Result<std::unique_ptr<Completion>> made = Completion::create(model.tokenizer(), params.completion, model.eosIds(), {});
    if (!made)
      return fromEngine(made.error(), "stop");
    choice->completion = std::move(*made);
    choices.push_back(std::move(choice));
  }
  for (const Prompt &prompt : prepared.prompts)
    promptTokens += int64_t(prompt.ids.size());
  for (size_t i = 0; i < choices.size(); ++i)
    if (auto error = submit(i, prepared.prompts[i / size_t(params.n)], params, name)) {
      cancel();
      return error;
    }
  metrics.paramsN.observe(double(params.n));
  metrics.paramsMaxTokens.observe(double(params.completion.maxTokens));
  return {};
}

std::optional<ApiError> Generation::submit(size_t index, const Prompt &prompt, const Params &params, const std::string &name) {
  Choice &choice = *choices[index];
  Request request = makeRequest(index, prompt, params);
  request.name = name + (choices.size() > 1 ? "/" + std::to_string(index) : "");
  if (request.maxTokens == 0 && !request.promptLogprobs) { // nothing to compute: echo alone
    push({index, "", std::nullopt, nullptr, FinishReason::Length});
    return {};
  }
  Result<RequestId> id = loop.submit(std::move(request));
  if (!id)
    return fromEngine(id.error(), promptField);
  choice.id = *id;
  return {};
}

/// The callbacks run on the engine's thread and may be destroyed there: they hold the generation alive.
Request Generation::makeRequest(size_t index, const Prompt &prompt, const Params &params) {
  Choice &choice = *choices[index];
  Request request = choice.completion->request(prompt.ids);
  request.priority = params.priority;
  request.cacheSalt = params.cacheSalt;
  request.topLogprobs = params.topLogprobs;
  request.promptLogprobs = params.promptLogprobs;
  if (makeConstraint)
    request.constraint = makeConstraint();
  choice.submitted = choice.started = Clock::now();
  choice.completion->onPiece = [this, index](const SampledToken *token, const std::string &text) {
    if (token)
      countToken(*choices[index]);
    push({index, text, token ? std::optional(*token) : std::nullopt, nullptr, std::nullopt});
  };
  choice.completion->onDone = [this, index] {
    FinishReason reason = choices[index]->completion->finishReason();
    countEnd(*choices[index], reason);
    push({index, "", std::nullopt, nullptr, reason, choices[index]->completion->error()});
  };
  auto self = shared_from_this();
  const auto tokens = int64_t(prompt.ids.size());
  request.onStart = [self, &choice, tokens](int64_t cached) {
    choice.started = Clock::now();
    self->metrics.promptTokens += uint64_t(tokens);
    self->metrics.promptLength.observe(double(tokens));
    choice.cached = cached;
    self->metrics.queueTime.observe(seconds(choice.started - choice.submitted));
    self->metrics.cachedTokens += uint64_t(cached);
  };
  if (request.promptLogprobs)
    request.onPrompt = [self, index](PromptLogprobs of) {
      self->push({index, "", std::nullopt, std::make_shared<PromptLogprobs>(std::move(of)), std::nullopt});
    };
  request.onFinish = [self, inner = std::move(request.onFinish)](FinishReason reason) { inner(reason); };
  return request;
}

//===-- On the engine's thread --------------------------------------------===//

void Generation::countToken(Choice &choice) {
  Clock::time_point now = Clock::now();
  if (choice.tokens++ == 0) {
    choice.first = now;
    metrics.timeToFirstToken.observe(seconds(now - choice.submitted));
    metrics.prefillTime.observe(seconds(now - choice.started));
  } else {
    metrics.interToken.observe(seconds(now - choice.last));
  }
  choice.last = now;
  ++metrics.generationTokens;
}

void Generation::countEnd(Choice &choice, FinishReason reason) {
  metrics.finished(reason);
  if (reason == FinishReason::Cancelled)
    return;
  Clock::time_point now = Clock::now();
  int64_t tokens = choice.tokens;
  metrics.endToEnd.observe(seconds(now - choice.submitted));
  metrics.inferenceTime.observe(seconds(now - choice.started));
  metrics.generationLength.observe(double(tokens));
  if (tokens == 0)
    return;
  metrics.decodeTime.observe(seconds(choice.last - choice.first));
  if (tokens > 1)
    metrics.timePerOutputToken.observe(seconds(choice.last - choice.first) / double(tokens - 1));
}

void Generation::push(Event event) {
  std::lock_guard lock(mutex);
  // Ends always pass: the server's thread waits for them.
  if (overflowed && !event.end)
    return;
  pendingBytes += bytesOf(event);
  if (maxPending && pendingBytes > maxPending)
    overflowed = true;
  pending.push_back(std::move(event));
  if (!std::exchange(posted, true))
    asio::post(executor, [self = shared_from_this()] { self->wakeUp(); });
}

//===-- On the server's thread --------------------------------------------===//

void Generation::wakeUp() {
  bool tooSlow;
  {
    std::lock_guard lock(mutex);
    posted = false;
    tooSlow = overflowed;
  }
  wake.notify();
  if (tooSlow && onOverflow)
    std::exchange(onOverflow, nullptr)();
}

awaitable<std::vector<Event>> Generation::events() {
  auto self = shared_from_this();
  while (!isInterrupted && !ended()) {
    std::vector<Event> taken;
    {
      std::lock_guard lock(mutex);
      taken.swap(pending);
      pendingBytes = 0;
    }
    for (const Event &event : taken)
      if (event.end && !std::exchange(choices[event.choice]->ended, true))
        ++endsSeen;
    if (!taken.empty())
      co_return taken;
    co_await wake.wait();
  }
  co_return std::vector<Event>();
}

void Generation::interrupt() {
  isInterrupted = true;
  wake.notify();
}

void Generation::cancel() {
  for (const auto &choice : choices)
    if (choice->id && !choice->ended)
      loop.cancel(*choice->id);
}

Generation::Usage Generation::usage() const {
  Usage usage;
  usage.prompt = promptTokens;
  for (const auto &choice : choices) {
    usage.completion += choice->tokens;
    usage.cached += choice->cached;
  }
  return usage;
}

} // namespace dsv3::server
