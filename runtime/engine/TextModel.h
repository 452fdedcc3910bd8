// The text side of an artifact: its tokenizer, begin token and chat template.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/engine/Artifact.h"
#include "runtime/text/ChatTemplate.h"
#include "runtime/text/Tokenizer.h"
#include "runtime/text/TokenizerConfig.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dsv3 {

/// Movable; `tokenizer()` keeps its address only as long as the object is not moved.
class TextModel {
public:
  /// An artifact without tokenizer.json loads too: then only ids work. BadCheckpoint for
  /// files that are there but damaged.
  static Result<TextModel> load(const Artifact &artifact);

  /// Of a tokenizer that is loaded already.
  static TextModel create(text::Tokenizer tokenizer, text::TokenizerConfig config);

  /// nullptr when the artifact has none.
  const text::Tokenizer *tokenizer() const { return tokens ? &*tokens : nullptr; }

  /// The begin token of the tokenizer's configuration, else the model's.
  std::optional<int32_t> bosId() const;

  /// Text of the operator: special tokens are parsed, BOS is added if the configuration
  /// says so and the text does not begin with it. Usage error naming `what` ("--prompt") without a tokenizer.
  Result<std::vector<int32_t>> encodePrompt(const std::string &prompt, const std::string &what) const;

  /// Messages by the chat template; their content is never parsed for special tokens.
  /// Usage error naming `what` without a tokenizer; errors of the template.
  Result<std::vector<int32_t>> encodeChat(const std::vector<text::ChatMessage> &messages,
                                          const std::string &what) const;

  /// What the checkpoint's template makes of a conversation; parsed once. Errors of ChatTemplate::create, and a usage
  /// error without a tokenizer.
  Result<text::ChatTemplate> chatTemplate() const;
  const text::TokenizerConfig &tokenizerConfig() const { return config; }

  /// Plain text as data: no special tokens, no BOS. Needs a tokenizer.
  std::vector<int32_t> encodeText(const std::string &content) const;

private:
  std::optional<text::Tokenizer> tokens;
  text::TokenizerConfig config;
  std::shared_ptr<const Result<text::ChatTemplate>> chat; ///< absent without a tokenizer
  std::optional<int32_t> modelBos;
};

} // namespace dsv3
