#include "runtime/server/ServedModel.h"

#include "runtime/text/Utf8.h"

#include <algorithm>
#include <chrono>

namespace dsv3::server {

ServedModel::ServedModel(const TextModel &text, const Manifest &manifest, std::vector<std::string> names)
    : textModel(text), manifest(manifest), modelNames(std::move(names)),
      bounds{manifest.model.vocabSize, manifest.config.maxModelLen},
      createdAt(std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count()) {
  if (const text::Tokenizer *t = tokenizer())
    for (int32_t id = 0; id < t->vocabSize(); ++id)
      longestToken = std::max(longestToken, t->idToBytes(id).size());
}

std::optional<ApiError> ServedModel::checkName(const std::string &name) const {
  if (name.empty() || std::find(modelNames.begin(), modelNames.end(), name) != modelNames.end())
    return {};
  ApiError error = badField("model", "expected \"" + modelNames.front() + "\", got \"" + printable(name) + "\"");
  error.status = 404;
  error.type = "not_found_error";
  error.code = "model_not_found";
  return error;
}

std::optional<ApiError> ServedModel::checkBytes(size_t bytes, const std::string &field) const {
  size_t most = size_t(bounds.maxModelLen) * longestToken;
  if (bytes <= most)
    return {};
  ApiError error = badField(field, "expected at most " + std::to_string(bounds.maxModelLen) +
                                       " tokens (the model's maximum context length), got a text of " + std::to_string(bytes) +
                                       " bytes, which is more");
  error.code = "context_length_exceeded";
  return error;
}

Result<guided::Guides *> ServedModel::guides() const {
  std::call_once(guidesOnce, [this] {
    Result<std::shared_ptr<const guided::Vocabulary>> vocabulary = guided::Vocabulary::create(*tokenizer(), eosIds(), text::toolMarkers());
    if (vocabulary)
      madeGuides = std::make_unique<guided::Guides>(*vocabulary);
    else
      guidesError = vocabulary.error();
  });
  if (guidesError)
    return *guidesError;
  return madeGuides.get();
}

std::string ServedModel::tokenText(int32_t id) const {
  const text::Tokenizer *t = tokenizer();
  if (!t)
    return "token_id:" + std::to_string(id);
  return id < t->vocabSize() ? text::toValidUtf8(t->idToBytes(id)) : "";
}

} // namespace dsv3::server
