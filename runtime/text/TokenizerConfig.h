// HuggingFace's tokenizer_config.json: what surrounds the tokenizer.
#pragma once

#include "runtime/core/Result.h"

#include <map>
#include <optional>
#include <string>

namespace dsv3::text {

struct TokenizerConfig {
  bool addBosToken = false; ///< a plain prompt starts with `bosToken()`
  bool addEosToken = false;

  /// "bos_token", "eos_token", "pad_token", ... -> the token's text, absent when null.
  std::map<std::string, std::string> specialTokens;

  /// Jinja source; absent when the model has no chat form.
  std::optional<std::string> chatTemplate;

  /// The text of a special token, if the config names one.
  std::optional<std::string> token(const std::string &name) const;
  std::optional<std::string> bosToken() const { return token("bos_token"); }
  std::optional<std::string> eosToken() const { return token("eos_token"); }

  /// Reads `folder`/tokenizer_config.json and `folder`/chat_template.jinja, both optional;
  /// the latter wins over a template in the former, as in transformers. Of several named
  /// templates the one called "default" is taken. Error BadCheckpoint, naming file and key.
  static Result<TokenizerConfig> load(const std::string &folder);

  /// The JSON part for a text in memory; `source` names it in messages.
  static Result<TokenizerConfig> loadFromMemory(const std::string &json, const std::string &source);
};

} // namespace dsv3::text
