#include "runtime/engine/TextModel.h"

#include <sys/stat.h>

namespace dsv3 {

namespace {

Error noTokenizer(const std::string &what) {
  return usageError(what + " needs a tokenizer, and the artifact has none: use --ids");
}

} // namespace

Result<TextModel> TextModel::load(const Artifact &artifact) {
  TextModel model;
  model.modelBos = artifact.manifest().model.bosId;
  std::string path = artifact.tokenizerFile("tokenizer.json");
  struct stat info;
  if (stat(path.c_str(), &info) != 0)
    return model;
  Result<text::Tokenizer> tokenizer = text::Tokenizer::load(path);
  if (!tokenizer)
    return tokenizer.error();
  model.tokens.emplace(std::move(*tokenizer));
  Result<text::TokenizerConfig> config = text::TokenizerConfig::load(artifact.folder() + "/tokenizer");
  if (!config)
    return config.error();
  model.config = std::move(*config);
  model.chat = std::make_shared<const Result<text::ChatTemplate>>(text::ChatTemplate::create(model.config));
  return model;
}

TextModel TextModel::create(text::Tokenizer tokenizer, text::TokenizerConfig config) {
  TextModel model;
  model.tokens.emplace(std::move(tokenizer));
  model.config = std::move(config);
  return model;
}

std::optional<int32_t> TextModel::bosId() const {
  std::optional<std::string> bos = config.bosToken();
  std::optional<int32_t> id = tokens && bos ? tokens->tokenToId(*bos) : std::nullopt;
  return id ? id : modelBos;
}

Result<std::vector<int32_t>> TextModel::encodePrompt(const std::string &prompt,
                                                     const std::string &what) const {
  if (!tokens)
    return noTokenizer(what);
  std::vector<int32_t> ids = tokens->encode(prompt, text::SpecialTokens::Parse);
  if (std::optional<int32_t> bos = bosId(); bos && config.addBosToken && (ids.empty() || ids.front() != *bos))
    ids.insert(ids.begin(), *bos);
  return ids;
}

Result<std::vector<int32_t>> TextModel::encodeChat(const std::vector<text::ChatMessage> &messages,
                                                   const std::string &what) const {
  if (!tokens)
    return noTokenizer(what);
  if (!*chat)
    return Error{chat->error().code, what + ": " + chat->error().message};
  Result<std::vector<text::Segment>> segments = (*chat)->render(messages);
  if (!segments)
    return Error{segments.error().code, what + ": " + segments.error().message};
  return text::encodeChat(*tokens, *segments);
}

Result<text::ChatTemplate> TextModel::chatTemplate() const {
  if (!chat)
    return noTokenizer("a chat");
  return *chat;
}

std::vector<int32_t> TextModel::encodeText(const std::string &content) const {
  return tokens->encode(content, text::SpecialTokens::AsText);
}

} // namespace dsv3
