#include "runtime/server/Tokenize.h"

#include "runtime/server/Reply.h"

namespace dsv3::server {

namespace {

Outcome<std::vector<int32_t>> readTokens(const OrderedJson &body, bool addSpecial, const ServedModel &model) {
  if (body.contains("messages")) {
    Fields fields(body);
    Outcome<ToolUse> use = readTools(fields, model);
    if (!use)
      return use.error();
    Outcome<ChatPrompt> chat = readChat(body, model, use->tools);
    if (!chat)
      return chat.error();
    return std::move(chat->ids);
  }
  const OrderedJson *prompt = Fields(body).find("prompt");
  if (!prompt || !prompt->is_string())
    return badField("prompt", "expected a text, got " + (prompt ? describe(*prompt) : std::string("nothing")));
  if (!model.tokenizer())
    return badField("prompt", "the model has no tokenizer");
  const auto &text = prompt->get_ref<const std::string &>();
  if (!addSpecial)
    return model.tokenizer()->encode(text, text::SpecialTokens::Parse);
  Result<std::vector<int32_t>> ids = model.text().encodePrompt(text, "prompt");
  if (!ids)
    return fromEngine(ids.error(), "prompt");
  return std::move(*ids);
}

} // namespace

Outcome<std::string> tokenize(std::string_view text, const ServedModel &model) {
  Outcome<OrderedJson> body = parseBody(text);
  if (!body)
    return body.error();
  Fields fields(*body);
  std::string name;
  bool addSpecial = true, strings = false;
  fields.string("model", name);
  fields.boolean("add_special_tokens", addSpecial);
  fields.boolean("return_token_strs", strings);
  if (fields.error())
    return *fields.error();
  if (auto error = model.checkName(name))
    return *error;
  Outcome<std::vector<int32_t>> ids = readTokens(*body, addSpecial, model);
  if (!ids)
    return ids.error();
  OrderedJson out = {{"count", ids->size()}, {"max_model_len", model.limits().maxModelLen}, {"tokens", *ids}, {"token_strs", nullptr}};
  if (strings) {
    out["token_strs"] = OrderedJson::array();
    for (int32_t id : *ids)
      out["token_strs"].push_back(model.tokenText(id));
  }
  return dump(out);
}

Outcome<std::string> detokenize(std::string_view text, const ServedModel &model) {
  Outcome<OrderedJson> body = parseBody(text);
  if (!body)
    return body.error();
  Fields fields(*body);
  std::string name;
  fields.string("model", name);
  if (fields.error())
    return *fields.error();
  if (auto error = model.checkName(name))
    return *error;
  const OrderedJson *list = fields.find("tokens");
  if (!list || !list->is_array())
    return badField("tokens", "expected a list of token ids, got " + (list ? describe(*list) : std::string("nothing")));
  if (!model.tokenizer())
    return badField("tokens", "the model has no tokenizer");
  std::vector<int32_t> ids;
  for (const OrderedJson &id : *list) {
    if (!id.is_number_integer() || id < 0 || id >= model.limits().vocab)
      return badField("tokens", "expected token ids from 0 to " + std::to_string(model.limits().vocab - 1) + ", got " + describe(id));
    ids.push_back(id.get<int32_t>());
  }
  return dump(OrderedJson{{"prompt", model.tokenizer()->decode(ids)}});
}

} // namespace dsv3::server
