// The text side of what is served: names, limits, tokenising of requests. Any thread may use it.
#pragma once

#include "runtime/engine/Manifest.h"
#include "runtime/engine/TextModel.h"
#include "runtime/guided/Guide.h"
#include "runtime/server/Params.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace dsv3::server {

class ServedModel {
public:
  /// `text` and `manifest` must outlive this. `names`: what clients may call the model, at least one.
  ServedModel(const TextModel &text, const Manifest &manifest, std::vector<std::string> names);

  const TextModel &text() const { return textModel; }
  const text::Tokenizer *tokenizer() const { return textModel.tokenizer(); }
  const ModelLimits &limits() const { return bounds; }
  const std::vector<int32_t> &eosIds() const { return manifest.model.eosIds; }
  const std::vector<std::string> &names() const { return modelNames; }
  int64_t created() const { return createdAt; } ///< seconds since 1970

  /// 404 for a model that is not served. An empty name means the one there is.
  std::optional<ApiError> checkName(const std::string &name) const;

  /// Refuses text that cannot fit the context whatever its tokens are, before time is spent on tokenising it.
  std::optional<ApiError> checkBytes(size_t bytes, const std::string &field) const;

  /// Guides of answers that must be JSON, made on first use. Unsupported error when the tokenizer cannot write JSON.
  Result<guided::Guides *> guides() const;

  /// The text of one token as replies show it: ill-formed UTF-8 replaced; "token_id:5" without a tokenizer.
  std::string tokenText(int32_t id) const;

private:
  const TextModel &textModel;
  const Manifest &manifest;
  std::vector<std::string> modelNames;
  ModelLimits bounds;
  int64_t createdAt;
  size_t longestToken = 1; ///< bytes
  mutable std::once_flag guidesOnce;
  mutable std::unique_ptr<guided::Guides> madeGuides;
  mutable std::optional<Error> guidesError;
};

} // namespace dsv3::server
