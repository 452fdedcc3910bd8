#include "runtime/text/TokenizerConfig.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace dsv3::text {
namespace {

using Json = nlohmann::json;

constexpr const char *kTokenNames[] = {"bos_token", "eos_token", "unk_token", "pad_token",
                                       "sep_token", "cls_token", "mask_token"};

/// The content of a file; nothing when there is no such file.
Result<std::optional<std::string>> readOptionalFile(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored))
    return std::optional<std::string>();
  std::ifstream file(path, std::ios::binary);
  std::ostringstream content;
  if (std::filesystem::is_directory(path, ignored) || !file)
    return checkpointError(path + ": cannot read the file");
  content << file.rdbuf(); // an empty file sets failbit here, which is no error
  return std::optional<std::string>(content.str());
}

class Reader {
public:
  Reader(const Json &root, const std::string &source) : root(root), source(source) {}

  Status run() {
    if (Status s = readFlag("add_bos_token", config.addBosToken); !s)
      return s;
    if (Status s = readFlag("add_eos_token", config.addEosToken); !s)
      return s;
    for (const char *name : kTokenNames)
      if (Status s = readToken(name); !s)
        return s;
    return readTemplate();
  }

  TokenizerConfig config;

private:
  Error wrong(const std::string &key, const std::string &expected, const Json &got) const {
    return checkpointError(source + ": " + key + ": expected " + expected + ", got " +
                           got.type_name());
  }

  Status readFlag(const char *key, bool &flag) {
    auto it = root.find(key);
    if (it == root.end() || it->is_null())
      return {};
    if (!it->is_boolean())
      return wrong(key, "true or false", *it);
    flag = it->get<bool>();
    return {};
  }

  /// A string, or an AddedToken object with its text under "content".
  Status readToken(const char *key) {
    auto it = root.find(key);
    if (it == root.end() || it->is_null())
      return {};
    const Json *text = &*it;
    if (it->is_object()) {
      auto content = it->find("content");
      text = content == it->end() ? text : &*content;
    }
    if (!text->is_string())
      return wrong(key, "a string or an object with a string as content", *text);
    config.specialTokens[key] = text->get<std::string>();
    return {};
  }

  Status readTemplate() {
    auto it = root.find("chat_template");
    if (it == root.end() || it->is_null())
      return {};
    if (it->is_string()) {
      config.chatTemplate = it->get<std::string>();
      return {};
    }
    if (!it->is_array())
      return wrong("chat_template", "a string or a list of named templates", *it);
    for (const Json &entry : *it) {
      if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
          !entry["name"].is_string() || !entry["template"].is_string())
        return wrong("chat_template", "entries with strings as name and template", entry);
      if (entry["name"] == "default")
        config.chatTemplate = entry["template"].get<std::string>();
    }
    if (!config.chatTemplate)
      return checkpointError(source + ": chat_template: expected a template named 'default', got " +
                             std::to_string(it->size()) + " with other names");
    return {};
  }

  const Json &root;
  const std::string &source;
};

} // namespace

std::optional<std::string> TokenizerConfig::token(const std::string &name) const {
  auto it = specialTokens.find(name);
  return it == specialTokens.end() ? std::nullopt : std::optional<std::string>(it->second);
}

Result<TokenizerConfig> TokenizerConfig::loadFromMemory(const std::string &json,
                                                        const std::string &source) {
  Json root = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (root.is_discarded())
    return checkpointError(source + ": expected JSON, got a text that does not parse");
  if (!root.is_object())
    return checkpointError(source + ": expected a JSON object, got " + root.type_name());
  Reader reader(root, source);
  if (Status s = reader.run(); !s)
    return s.error();
  return std::move(reader.config);
}

Result<TokenizerConfig> TokenizerConfig::load(const std::string &folder) {
  std::string jsonPath = folder + "/tokenizer_config.json";
  Result<std::optional<std::string>> json = readOptionalFile(jsonPath);
  if (!json)
    return json.error();
  Result<TokenizerConfig> config =
      *json ? loadFromMemory(**json, jsonPath) : Result<TokenizerConfig>(TokenizerConfig());
  if (!config)
    return config;
  Result<std::optional<std::string>> jinja = readOptionalFile(folder + "/chat_template.jinja");
  if (!jinja)
    return jinja.error();
  if (*jinja)
    config->chatTemplate = std::move(**jinja);
  return config;
}

} // namespace dsv3::text
