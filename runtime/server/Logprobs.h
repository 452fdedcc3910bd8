// Probabilities of tokens in the two shapes of the API.
#pragma once

#include "runtime/server/Reply.h"

namespace dsv3::server {

/// Of completions: parallel lists {"text_offset", "token_logprobs", "tokens", "top_logprobs"}. Offsets count characters of
/// the tokens' own texts, as vLLM's do.
class CompletionLogprobs {
public:
  /// `top`: how many of the likeliest tokens are listed beside the chosen one; -1: nothing is collected.
  CompletionLogprobs(const ServedModel &model, int32_t top) : model(&model), top(top) {}

  void add(const SampledToken &token);
  /// The first token of a prompt has no probability: null.
  void addPrompt(const std::vector<int32_t> &ids, const PromptLogprobs &of);

  bool empty() const { return tokens.empty(); }
  OrderedJson json() const;
  /// Forgets what json() gave; offsets go on.
  void restart();

private:
  void addOne(int32_t id, OrderedJson logprob, OrderedJson topOfToken);
  OrderedJson topJson(const SampledToken &token) const;

  const ServedModel *model;
  int32_t top;
  size_t offset = 0;
  OrderedJson offsets = OrderedJson::array(), logprobs = OrderedJson::array(), tokens = OrderedJson::array(),
              tops = OrderedJson::array();
};

/// Of chats, one token: {"token", "logprob", "bytes", "top_logprobs"}.
OrderedJson chatLogprob(const ServedModel &model, const SampledToken &token, int32_t top);

/// vLLM's `prompt_logprobs`: null for the first token, then of each {id: {"logprob", "rank", "decoded_token"}} of itself and of the
/// `top` likeliest.
OrderedJson promptLogprobsJson(const ServedModel &model, const PromptLogprobs &of, int32_t top);

/// JSON has no infinity: what is less likely than e^-9999 counts as that, as in vLLM.
double finiteLogprob(double logprob);

} // namespace dsv3::server
