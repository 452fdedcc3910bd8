// Chat messages to a prompt, by the template that comes with the model.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/text/Segment.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/text/TokenizerConfig.h"
#include "runtime/text/jinja/Value.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace dsv3::text {

struct ChatMessage {
  std::string role;    ///< "system", "user", "assistant", ...
  std::string content; ///< ill-formed UTF-8 counts as U+FFFD
};

struct ChatOptions {
  /// End with what asks the model to answer.
  bool addGenerationPrompt = true;

  /// Further variables of the template, "thinking" for DeepSeek-V3.1. They cannot
  /// replace the ones we set: messages, add_generation_prompt, the special tokens.
  std::map<std::string, jinja::Value> variables;
};

/// A parsed template. Immutable; `render` is thread-safe; copies share the tree.
///
/// The language is a subset of Jinja 3 with transformers' settings (trim_blocks,
/// lstrip_blocks, loop controls); see jinja/Parser.h and jinja/Builtins.h.
class ChatTemplate {
public:
  /// Takes the config's template and special tokens. Errors: Unsupported when there is
  /// no template or it needs Jinja we do not have, BadCheckpoint when it does not parse;
  /// both with line and column.
  static Result<ChatTemplate> create(const TokenizerConfig &config);

  /// The prompt, cut by origin: what the template itself says is trusted, what comes from
  /// messages and variables is not, through every concatenation, slice and filter.
  /// Errors: Usage when the template calls raise_exception; see jinja/Evaluator.h.
  Result<std::vector<Segment>> render(const std::vector<ChatMessage> &messages,
                                      const ChatOptions &options = {}) const;

  /// The same for messages with more than role and content (see jinja::fromJson).
  Result<std::vector<Segment>> render(const jinja::Value &messages,
                                      const ChatOptions &options = {}) const;

private:
  struct Parsed;
  std::shared_ptr<const Parsed> parsed;
};

/// The ids of a rendered chat: special tokens in trusted segments only. Adds nothing: the
/// template writes the begin token itself.
std::vector<int32_t> encodeChat(const Tokenizer &tokenizer, const std::vector<Segment> &segments);

/// All segments in one string.
std::string joinSegments(const std::vector<Segment> &segments);

} // namespace dsv3::text
