#include "runtime/engine/Completion.h"

#include <algorithm>

namespace dsv3 {

namespace {

double milliseconds(std::chrono::steady_clock::duration d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

} // namespace

Result<std::unique_ptr<Completion>> Completion::create(const text::Tokenizer *tokenizer,
                                                       const CompletionParams &params,
                                                       const std::vector<int32_t> &eosIds, OnText onText) {
  if (!tokenizer && !params.stops.empty())
    return usageError("--stop needs a tokenizer, and the artifact has none");
  Result<text::StopMatcher> matcher = text::StopMatcher::create(params.stops);
  if (!matcher)
    return matcher.error();
  return std::unique_ptr<Completion>(
      new Completion(tokenizer, params, eosIds, std::move(*matcher), std::move(onText)));
}

Completion::Completion(const text::Tokenizer *tokenizer, const CompletionParams &params,
                       const std::vector<int32_t> &eosIds, text::StopMatcher matcher, OnText onText)
    : params(params), eosIds(eosIds), matcher(std::move(matcher)), onText(std::move(onText)) {
  if (tokenizer)
    decoder.emplace(*tokenizer, params.skipSpecial);
}

Request Completion::request(std::vector<int32_t> prompt) {
  Request r;
  r.prompt = std::move(prompt);
  r.sampling = params.sampling;
  r.maxTokens = params.maxTokens;
  if (!params.ignoreEos)
    r.endIds = eosIds;
  r.endIds.insert(r.endIds.end(), params.stopIds.begin(), params.stopIds.end());
  r.minTokens = params.minTokens;
  r.onToken = [this](const SampledToken &token) { return take(token); };
  r.onError = [this](const Error &error) { failure = error; };
  r.onFinish = [this](FinishReason why) { finish(why); };
  start = first = last = Clock::now();
  return r;
}

bool Completion::take(const SampledToken &token) {
  last = Clock::now();
  if (tokenIds.empty())
    first = last;
  tokenIds.push_back(token.id);
  tokenLogprobs.push_back(token.logprob);
  show(&token, decoder && (!isEnd(token.id) || params.includeStop) ? visible(decoder->push(token.id)) : "");
  return !matcher.stopped();
}

/// What of a piece of text can be shown.
std::string Completion::visible(const std::string &piece) {
  if (int64_t(tokenIds.size()) <= params.minTokens)
    return matcher.pass(piece);
  std::string ready = matcher.push(piece);
  return matcher.stopped() && params.includeStop ? ready + matcher.matchedText() : ready;
}

/// An end id is no text, whether or not the tokenizer calls it special.
bool Completion::isEnd(int32_t id) const {
  return std::find(eosIds.begin(), eosIds.end(), id) != eosIds.end() ||
         std::find(params.stopIds.begin(), params.stopIds.end(), id) != params.stopIds.end();
}

void Completion::finish(FinishReason why) {
  if (decoder && !matcher.stopped()) {
    std::string rest = visible(decoder->flush());
    rest += matcher.flush();
    if (!rest.empty())
      show(nullptr, rest);
    if (matcher.stopped() && why == FinishReason::Length)
      why = FinishReason::Stop; // only now did the text become certain
  }
  reason = why;
  if (onDone)
    onDone();
}

void Completion::show(const SampledToken *token, const std::string &piece) {
  shown += piece;
  if (onText && !piece.empty())
    onText(piece);
  if (onPiece)
    onPiece(token, piece);
}

CompletionTimings Completion::timings() const {
  CompletionTimings t;
  double total = milliseconds(last - start);
  t.ttftMs = milliseconds(first - start);
  if (tokenIds.size() > 1)
    t.tpotMs = milliseconds(last - first) / double(tokenIds.size() - 1);
  if (total > 0)
    t.tokensPerSecond = double(tokenIds.size()) * 1000 / total;
  return t;
}

} // namespace dsv3
