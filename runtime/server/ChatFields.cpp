#include "runtime/server/Prepared.h"
#include "runtime/text/jinja/Json.h"

namespace dsv3::server {

namespace {

/// OpenAI allows a list of parts where a template expects text; its texts are joined by line ends, as vLLM does.
std::optional<ApiError> flattenContent(OrderedJson &content, const std::string &field) {
  if (content.is_string() || content.is_null())
    return {};
  if (!content.is_array())
    return badField(field, "expected a text or a list of parts, got " + describe(content));
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    const OrderedJson &part = content[i];
    const std::string where = field + "[" + std::to_string(i) + "]";
    auto text = part.is_object() ? part.find("text") : part.end();
    if (!part.is_object() || part.value("type", OrderedJson("")) != "text")
      return badField(where, "expected a part of type \"text\", got " +
                                 (part.is_object() ? describe(part.value("type", OrderedJson(nullptr))) : describe(part)));
    if (text == part.end() || !text->is_string())
      return badField(where + ".text", "expected a text");
    joined += (i ? "\n" : "") + text->get_ref<const std::string &>();
  }
  content = joined;
  return {};
}

Outcome<OrderedJson> readMessages(const OrderedJson &body) {
  auto list = body.find("messages");
  if (list == body.end() || !list->is_array() || list->empty())
    return badField("messages", "expected a list of at least one message, got " +
                                    (list == body.end() ? std::string("nothing") : describe(*list)));
  OrderedJson messages = *list;
  for (size_t i = 0; i < messages.size(); ++i) {
    OrderedJson &m = messages[i];
    const std::string field = "messages[" + std::to_string(i) + "]";
    if (!m.is_object())
      return badField(field, "expected an object, got " + describe(m));
    if (!m.contains("role") || !m["role"].is_string())
      return badField(field + ".role", "expected a text");
    if (!m.contains("content")) {
      if (m["role"] != "assistant")
        return badField(field + ".content", "expected a text or a list of parts, got nothing");
      m["content"] = nullptr;
    }
    if (std::optional<ApiError> error = flattenContent(m["content"], field + ".content"))
      return *error;
  }
  return messages;
}

size_t bytesOf(const OrderedJson &messages) {
  size_t bytes = 0;
  for (const OrderedJson &m : messages)
    if (m["content"].is_string())
      bytes += m["content"].get_ref<const std::string &>().size();
  return bytes;
}

/// Values of the request that the template may read, beside the messages.
std::optional<ApiError> readVariables(Fields &fields, const OrderedJson *tools, text::ChatOptions &options) {
  auto add = [&](const std::string &field, const std::string &name, const OrderedJson &value) -> std::optional<ApiError> {
    Result<text::jinja::Value> converted = text::jinja::fromJson(value);
    if (!converted)
      return badField(field, converted.error().message);
    options.variables.insert_or_assign(name, std::move(*converted));
    return {};
  };
  fields.boolean("add_generation_prompt", options.addGenerationPrompt);
  if (const OrderedJson *kwargs = fields.child("chat_template_kwargs"))
    for (const auto &[key, value] : kwargs->items())
      if (auto error = add("chat_template_kwargs." + key, key, value))
        return error;
  if (tools)
    if (auto error = add("tools", "tools", *tools))
      return error;
  return fields.error();
}

/// Leaves the final message open: what the template wrote behind its content goes, as in transformers' continue_final_message.
std::optional<ApiError> cutBehind(const OrderedJson &messages, const text::ChatOptions &options, std::vector<text::Segment> &segments) {
  const char *field = "continue_final_message";
  const OrderedJson &last = messages.back();
  if (options.addGenerationPrompt)
    return badField(field, "expected only with \"add_generation_prompt\": false");
  if (last["role"] != "assistant" || !last["content"].is_string() || last["content"].get_ref<const std::string &>().empty())
    return badField(field, "expected a last message of role \"assistant\" with content");
  while (!segments.empty() && segments.back().trusted)
    segments.pop_back();
  // A template may leave out what a message begins with (its reasoning), and white space.
  const auto &content = last["content"].get_ref<const std::string &>();
  const std::string shown = segments.empty() ? "" : segments.back().text;
  if (shown.empty() || content.find(shown) == content.npos)
    return badField(field, "expected a chat template that ends with the content of the last message");
  return {};
}

} // namespace

Outcome<ChatPrompt> readChat(const OrderedJson &body, const ServedModel &model, const OrderedJson *tools) {
  Fields fields(body);
  if (fields.find("chat_template"))
    fields.fail("chat_template", "is not supported: the checkpoint's own template is used");
  bool goesOn = false;
  fields.boolean("continue_final_message", goesOn);
  text::ChatOptions options;
  if (auto error = readVariables(fields, tools, options))
    return *error;
  Outcome<OrderedJson> messages = readMessages(body);
  if (!messages)
    return messages.error();
  if (auto error = model.checkBytes(bytesOf(*messages), "messages"))
    return *error;
  Result<text::ChatTemplate> chat = model.text().chatTemplate();
  if (!chat)
    return badField("messages", chat.error().message);
  Result<text::jinja::Value> value = text::jinja::fromJson(*messages);
  if (!value)
    return badField("messages", value.error().message);
  Result<std::vector<text::Segment>> segments = chat->render(*value, options);
  if (!segments)
    return badField("messages", segments.error().message);
  if (goesOn)
    if (auto error = cutBehind(*messages, options, *segments))
      return *error;
  ChatPrompt prompt;
  prompt.templateSource = model.text().tokenizerConfig().chatTemplate.value_or("");
  prompt.reasoning = goesOn ? text::ReasoningStart::None : text::reasoningStart(*segments, prompt.templateSource);
  prompt.ids = text::encodeChat(*model.tokenizer(), *segments);
  if (prompt.ids.empty())
    return badField("messages", "expected at least one token, got an empty prompt");
  return prompt;
}

} // namespace dsv3::server
