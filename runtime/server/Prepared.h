// A request's body, parsed and tokenised: what is left to do needs the engine.
//
// Everything here is pure and thread-safe; the server runs it on a thread of its own pool, since a large body takes a while.
#pragma once

#include "runtime/server/ServedModel.h"
#include "runtime/text/chat/ChatOutput.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace dsv3::server {

struct Prompt {
  std::vector<int32_t> ids;
  std::string text; ///< for echo: as given, or decoded
};

struct Prepared {
  Params params;
  std::vector<Prompt> prompts;    ///< a chat has one
  const char *promptField = "prompt"; ///< what errors about them name
  text::ChatOutput::Options chat; ///< of chats: what an answer is split into
  bool namedTool = false;         ///< of chats: the one function that is called was given
  /// Of guided requests: a constraint for one more choice.
  std::function<std::shared_ptr<TokenConstraint>()> makeConstraint;
};

Outcome<Prepared> prepareCompletion(std::string_view body, const ServedModel &model);
Outcome<Prepared> prepareChat(std::string_view body, const ServedModel &model);

/// The field `prompt`: a text, a list of texts, a list of ids, or a list of lists of ids. A text gets BOS as the
/// tokenizer's configuration says (unless `addSpecial` is false), and special tokens in it are parsed. Of each at most `most` tokens
/// are kept, the last ones, and behind the BOS that a text got.
Outcome<std::vector<Prompt>> readPrompts(const OrderedJson &body, const ServedModel &model, bool addSpecial, std::optional<int64_t> most);

/// A conversation as the chat template sees it.
struct ChatPrompt {
  std::vector<int32_t> ids;
  text::ReasoningStart reasoning;
  std::string templateSource;
};

/// What a chat says of tools; none for `tool_choice` "none".
struct ToolUse {
  enum class Choice { Auto, Required, Named };
  const OrderedJson *tools = nullptr; ///< inside the body
  text::ToolFormat format = text::ToolFormat::None;
  Choice choice = Choice::Auto;
  size_t named = 0;     ///< which of `tools`, of Named
  bool parallel = true; ///< more than one call in an answer
};

/// `tools`, `tool_choice` and `parallel_tool_calls`. 400 when the template knows no tools.
Outcome<ToolUse> readTools(Fields &fields, const ServedModel &model);

/// Makes the answer calls and nothing else where `tool_choice` says so. To be called after everything else was read, which may
/// contradict it. 400 for a tool whose schema is not supported.
std::optional<ApiError> forceCalls(const ToolUse &use, const ServedModel &model, Prepared &prepared);

/// `response_format`, and vLLM's `structured_outputs`, `guided_json` and `guided_choice`: sets `makeConstraint`. To be read after
/// everything else, which may contradict it.
std::optional<ApiError> readResponseFormat(Fields &fields, const ServedModel &model, Prepared &prepared);

/// What a guide would contradict, or would make its promise (a text that ends with "stop" is valid) untrue. `field` asks for it.
std::optional<ApiError> checkGuided(const Params &params, const ServedModel &model, const std::string &field);

/// The answers follow `guide`, behind the reasoning if the prompt begins one.
void guideBy(std::shared_ptr<guided::Guide> guide, const ServedModel &model, Prepared &prepared);

/// The fields `messages`, `add_generation_prompt` and `chat_template_kwargs`. Content is never parsed for special
/// tokens.
Outcome<ChatPrompt> readChat(const OrderedJson &body, const ServedModel &model, const OrderedJson *tools);

} // namespace dsv3::server
