#include "runtime/server/Logprobs.h"

#include <algorithm>

namespace dsv3::server {

namespace {

size_t characters(const std::string &text) {
  return size_t(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

OrderedJson bytesJson(const ServedModel &model, int32_t id) {
  const text::Tokenizer *t = model.tokenizer();
  if (!t || id >= t->vocabSize())
    return nullptr;
  OrderedJson bytes = OrderedJson::array();
  for (unsigned char c : t->idToBytes(id))
    bytes.push_back(c);
  return bytes;
}

OrderedJson entry(const ServedModel &model, int32_t id, double logprob) {
  return {{"token", model.tokenText(id)}, {"logprob", finiteLogprob(logprob)}, {"bytes", bytesJson(model, id)}};
}

} // namespace

double finiteLogprob(double logprob) { return std::max(logprob, -9999.0); }

void CompletionLogprobs::addOne(int32_t id, OrderedJson logprob, OrderedJson topOfToken) {
  std::string text = model->tokenText(id);
  offsets.push_back(offset);
  offset += characters(text);
  tokens.push_back(std::move(text));
  logprobs.push_back(std::move(logprob));
  tops.push_back(std::move(topOfToken));
}

/// Different tokens may have one text (parts of characters): the likelier stays.
OrderedJson CompletionLogprobs::topJson(const SampledToken &token) const {
  OrderedJson out = {{model->tokenText(token.id), finiteLogprob(token.logprob)}};
  int32_t left = top;
  for (const TokenLogprob &one : token.top) {
    if (left-- <= 0)
      break;
    const std::string text = model->tokenText(one.id);
    double logprob = finiteLogprob(one.logprob);
    if (auto it = out.find(text); it != out.end())
      *it = std::max(it->get<double>(), logprob);
    else
      out[text] = logprob;
  }
  return out;
}

void CompletionLogprobs::add(const SampledToken &token) {
  if (top >= 0)
    addOne(token.id, finiteLogprob(token.logprob), topJson(token));
}

void CompletionLogprobs::addPrompt(const std::vector<int32_t> &ids, const PromptLogprobs &of) {
  for (size_t i = 0; i < ids.size() && i < of.size(); ++i)
    if (of[i])
      add(SampledToken{of[i]->token.id, of[i]->token.logprob, of[i]->top});
    else
      addOne(ids[i], nullptr, nullptr);
}

OrderedJson CompletionLogprobs::json() const {
  return {{"text_offset", offsets}, {"token_logprobs", logprobs}, {"tokens", tokens}, {"top_logprobs", tops}};
}

void CompletionLogprobs::restart() { offsets = logprobs = tokens = tops = OrderedJson::array(); }

OrderedJson chatLogprob(const ServedModel &model, const SampledToken &token, int32_t top) {
  OrderedJson out = entry(model, token.id, token.logprob);
  OrderedJson list = OrderedJson::array();
  for (const TokenLogprob &one : token.top)
    if (int32_t(list.size()) < top)
      list.push_back(entry(model, one.id, one.logprob));
  out["top_logprobs"] = std::move(list);
  return out;
}

OrderedJson promptLogprobsJson(const ServedModel &model, const PromptLogprobs &of, int32_t top) {
  OrderedJson list = OrderedJson::array();
  auto entryOf = [&](const TokenLogprob &token, int64_t rank) {
    return OrderedJson{{"logprob", finiteLogprob(token.logprob)}, {"rank", rank}, {"decoded_token", model.tokenText(token.id)}};
  };
  for (const std::optional<PromptLogprob> &one : of) {
    OrderedJson at = nullptr;
    if (one) {
      at = {{std::to_string(one->token.id), entryOf(one->token, one->rank)}};
      for (size_t i = 0; i < one->top.size() && int32_t(i) < top; ++i)
        if (one->top[i].id != one->token.id)
          at[std::to_string(one->top[i].id)] = entryOf(one->top[i], int64_t(i) + 1);
    }
    list.push_back(std::move(at));
  }
  return list;
}

} // namespace dsv3::server
