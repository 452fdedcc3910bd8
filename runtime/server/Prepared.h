// A request's body, parsed and tokenised: what is left to do needs the engine.
//
// Everything here is pure and thread-safe; the server runs it on a thread of its own pool, since a large body takes a while.
#pragma once

#include "runtime/server/ServedModel.h"
#include "runtime/text/chat/ChatOutput.h"

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
  text::ChatOutput::Options chat; ///< of chats: what an answer is split into
};

Outcome<Prepared> prepareCompletion(std::string_view body, const ServedModel &model);
Outcome<Prepared> prepareChat(std::string_view body, const ServedModel &model);

/// The field `prompt`: a text, a list of texts, a list of ids, or a list of lists of ids. A text gets BOS as the
/// tokenizer's configuration says (unless `addSpecial` is false), and special tokens in it are parsed.
Outcome<std::vector<Prompt>> readPrompts(const OrderedJson &body, const ServedModel &model, bool addSpecial);

/// A conversation as the chat template sees it.
struct ChatPrompt {
  std::vector<int32_t> ids;
  text::ReasoningStart reasoning;
  std::string templateSource;
};

/// The fields `messages`, `tools`, `add_generation_prompt` and `chat_template_kwargs`. Content is never parsed for special
/// tokens.
Outcome<ChatPrompt> readChat(const OrderedJson &body, const ServedModel &model);

} // namespace dsv3::server
