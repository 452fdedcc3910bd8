#include "runtime/server/Prepared.h"

#include <algorithm>

namespace dsv3::server {

namespace {

/// Fields that change what an answer means, so that leaving them out would be a wrong answer. Clients that send all fields they know
/// send them as false, or empty.
void refuseUnsupported(Fields &fields, std::vector<const char *> keys) {
  for (const char *key : {"use_beam_search", "logits_processors", "bad_words", "allowed_token_ids", "guided_regex", "guided_grammar"})
    keys.push_back(key);
  for (const char *key : keys)
    if (const OrderedJson *value = fields.find(key); value && *value != false && *value != "" && !(value->is_structured() && value->empty()))
      fields.fail(key, "is not supported");
}

bool isSpecial(const std::string &token, const ServedModel &model) {
  std::optional<int32_t> id = model.tokenizer() ? model.tokenizer()->tokenToId(token) : std::nullopt;
  return id && model.tokenizer()->isSpecial(*id);
}

std::optional<ApiError> settle(Prepared &prepared, std::optional<int64_t> fallback, const ServedModel &model, const char *field) {
  int64_t longest = 0;
  for (const Prompt &prompt : prepared.prompts)
    longest = std::max(longest, int64_t(prompt.ids.size()));
  if (auto error = settleLength(prepared.params, longest, fallback, model.limits(), field))
    return error;
  if (prepared.params.completion.maxTokens == 0 && !prepared.params.echo && !prepared.params.promptLogprobs)
    return badField(prepared.params.maxTokensField, "expected at least 1 without echo, got 0");
  if (int64_t(prepared.prompts.size()) * prepared.params.n > kMaxChoices)
    return badField("n", "expected at most " + std::to_string(kMaxChoices) + " sequences in all, got " +
                             std::to_string(prepared.prompts.size()) + " prompts times " + std::to_string(prepared.params.n));
  if (!prepared.params.completion.stops.empty() && !model.tokenizer())
    return badField("stop", "expected none: the model has no tokenizer");
  return {};
}

} // namespace

Outcome<Prepared> prepareCompletion(std::string_view text, const ServedModel &model) {
  Outcome<OrderedJson> body = parseBody(text);
  if (!body)
    return body.error();
  Fields fields(*body);
  Prepared prepared;
  bool addSpecial = true;
  readDelivery(fields, prepared.params);
  readSampling(fields, model.limits(), prepared.params);
  readLength(fields, model.limits(), prepared.params);
  readCompletionLogprobs(fields, prepared.params);
  fields.boolean("add_special_tokens", addSpecial);
  refuseUnsupported(fields, {"suffix", "prompt_embeds"});
  if (fields.error())
    return *fields.error();
  if (auto error = model.checkName(prepared.params.model))
    return *error;
  Outcome<std::vector<Prompt>> prompts = readPrompts(*body, model, addSpecial, prepared.params.truncatePrompt);
  if (!prompts)
    return prompts.error();
  prepared.prompts = std::move(*prompts);
  if (auto error = settle(prepared, 16, model, "prompt")) // 16: the API's default
    return *error;
  if (auto error = readResponseFormat(fields, model, prepared))
    return *error;
  return prepared;
}

Outcome<Prepared> prepareChat(std::string_view text, const ServedModel &model) {
  Outcome<OrderedJson> body = parseBody(text);
  if (!body)
    return body.error();
  Fields fields(*body);
  Prepared prepared;
  readDelivery(fields, prepared.params);
  readSampling(fields, model.limits(), prepared.params);
  readLength(fields, model.limits(), prepared.params);
  readChatLogprobs(fields, prepared.params);
  fields.boolean("include_reasoning", prepared.params.includeReasoning);
  refuseUnsupported(fields, {"functions", "function_call", "echo"});
  if (fields.error())
    return *fields.error();
  if (auto error = model.checkName(prepared.params.model))
    return *error;
  Outcome<ToolUse> use = readTools(fields, model);
  if (!use)
    return use.error();
  Outcome<ChatPrompt> chat = readChat(*body, model, use->tools);
  if (!chat)
    return chat.error();
  prepared.chat.reasoning = chat->reasoning;
  prepared.chat.tools = use->format;
  if (isSpecial("</think>", model) || (use->tools && isSpecial("<｜tool▁calls▁begin｜>", model)))
    prepared.params.completion.skipSpecial = false; // else the markers would be lost
  if (const auto most = prepared.params.truncatePrompt; most && int64_t(chat->ids.size()) > *most)
    chat->ids.erase(chat->ids.begin(), chat->ids.end() - *most);
  prepared.prompts.push_back({std::move(chat->ids), ""});
  prepared.promptField = "messages";
  prepared.chat.oneCall = !use->parallel;
  if (auto error = settle(prepared, std::nullopt, model, "messages"))
    return *error;
  if (auto error = forceCalls(*use, model, prepared))
    return *error;
  if (auto error = readResponseFormat(fields, model, prepared))
    return *error;
  return prepared;
}

} // namespace dsv3::server
