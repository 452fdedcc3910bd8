#include "runtime/text/ChatTemplate.h"

#include "runtime/text/Utf8.h"
#include "runtime/text/jinja/Evaluator.h"
#include "runtime/text/jinja/Lexer.h"
#include "runtime/text/jinja/Parser.h"

namespace dsv3::text {

using jinja::Text;
using jinja::Value;

struct ChatTemplate::Parsed {
  std::string source;
  jinja::Body body;
  std::map<std::string, std::string> specialTokens;
};

Result<ChatTemplate> ChatTemplate::create(const TokenizerConfig &config) {
  if (!config.chatTemplate)
    return unsupportedError("the model has no chat template: expected chat_template in "
                            "tokenizer_config.json or a file chat_template.jinja");
  std::string source = jinja::normaliseTemplate(*config.chatTemplate);
  Result<jinja::Body> body = jinja::parseTemplate(source);
  if (!body)
    return body.error();
  ChatTemplate result;
  result.parsed = std::make_shared<const Parsed>(
      Parsed{std::move(source), std::move(*body), config.specialTokens});
  return result;
}

Result<std::vector<Segment>> ChatTemplate::render(const std::vector<ChatMessage> &messages,
                                                  const ChatOptions &options) const {
  jinja::List list;
  for (const ChatMessage &message : messages) {
    jinja::Dict dict;
    dict.set("role", Text(toValidUtf8(message.role), false));
    dict.set("content", Text(toValidUtf8(message.content), false));
    list.push_back(std::move(dict));
  }
  return render(Value(std::move(list)), options);
}

Result<std::vector<Segment>> ChatTemplate::render(const Value &messages,
                                                  const ChatOptions &options) const {
  // transformers defines these two always, none when the caller has none.
  jinja::Scope globals = {{"tools", Value::none()}, {"documents", Value::none()}};
  for (const auto &[name, value] : options.variables)
    globals[name] = value;
  for (const auto &[name, token] : parsed->specialTokens)
    globals[name] = Text(token, true);
  globals["messages"] = messages;
  globals["add_generation_prompt"] = Value(options.addGenerationPrompt);
  Result<Text> text = jinja::Evaluator(parsed->source, std::move(globals)).run(parsed->body);
  if (!text)
    return text.error();
  return text->segments();
}

std::vector<int32_t> encodeChat(const Tokenizer &tokenizer, const std::vector<Segment> &segments) {
  return tokenizer.encode(segments);
}

std::string joinSegments(const std::vector<Segment> &segments) {
  std::string text;
  for (const Segment &segment : segments)
    text += segment.text;
  return text;
}

} // namespace dsv3::text
