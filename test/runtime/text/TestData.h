// The shipped tokenizer and its goldens, made with HuggingFace tokenizers.
#pragma once

#include "runtime/text/Tokenizer.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <string>
#include <vector>

namespace dsv3::text {

inline std::string exampleFile(const std::string &name) {
  return std::string(DSV3_SOURCE_DIR) + "/examples/dsv3-tiny/" + name;
}

inline nlohmann::json readJson(const std::string &path) {
  std::ifstream file(path);
  return nlohmann::json::parse(file);
}

/// `strings`: [{text, ids, decoded}], `chat`: [{messages, text}].
inline const nlohmann::json &goldens() {
  static const nlohmann::json json =
      readJson(std::string(DSV3_SOURCE_DIR) + "/test/goldens/tokenizer.json");
  return json;
}

inline const Tokenizer &exampleTokenizer() {
  static const Result<Tokenizer> *tokenizer =
      new Result<Tokenizer>(Tokenizer::load(exampleFile("tokenizer.json")));
  if (!*tokenizer)
    throw std::runtime_error(tokenizer->error().message);
  return **tokenizer;
}

inline int32_t idOf(const std::string &token) {
  std::optional<int32_t> id = exampleTokenizer().tokenToId(token);
  EXPECT_TRUE(id) << token;
  return id.value_or(-1);
}

} // namespace dsv3::text
