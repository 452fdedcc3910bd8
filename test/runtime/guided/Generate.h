// Random answers under a guide.
#pragma once

#include "runtime/guided/Guide.h"
#include "runtime/guided/SchemaCompiler.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace dsv3::guided {

/// All bytes, and tokens that cross the borders of JSON's parts. The last id is the end.
inline std::vector<std::string> testTokens() {
  std::vector<std::string> tokens;
  for (int b = 0; b < 256; ++b)
    tokens.push_back(std::string(1, char(b)));
  for (const char *t : {"{\"", "\":", "\": ", "\",", "\", \"", "\"}", "}}", "]}", "],", ", ", "true", "false", "null", "tr", " \"", "12", "3.5",
                        "-1", "e+1", "\\n", "\\u00", "4e", "name", "age", "\"name\"", "{\"name\": \"", "ü", "ö\"", "\xC3", "\x9F\x98", "😀",
                        "  ", "\n  ", "\n\n", "abc", "a", "[[", "[{\"", "</think>", "</thi", "nk>{", ">{\"", ">x", "0", "00", "2024-", "-01"})
    tokens.push_back(t);
  tokens.push_back("");
  return tokens;
}

inline std::shared_ptr<const Vocabulary> testVocabulary() {
  static auto v = Vocabulary::create(testTokens());
  if (!v)
    throw std::runtime_error(v.error().message);
  return *v;
}

inline int32_t testEnd() { return testVocabulary()->size() - 1; }

inline std::shared_ptr<Guide> guideOf(const std::string &schema, const Limits &limits = {}) {
  Result<Grammar> grammar = compileSchema(schema, limits);
  if (!grammar)
    throw std::runtime_error(schema + ": " + grammar.error().message);
  return std::make_shared<Guide>(std::move(*grammar), testVocabulary());
}

/// Chooses tokens at random, those that close something more often. Nothing when there is no end within `most` tokens.
inline std::optional<std::string> generate(std::shared_ptr<Guide> guide, std::mt19937 &random, int most = 400) {
  GuidedConstraint constraint(guide, {testEnd()});
  const Vocabulary &v = guide->vocabulary();
  std::string text;
  for (int n = 0; n < most; ++n) {
    std::vector<float> logits(size_t(v.size() + 5), 1.0f); // more rows than tokens, as models have
    constraint.mask(logits.data(), int64_t(logits.size()));
    std::vector<int32_t> allowed, closing;
    for (int32_t id = 0; id < int32_t(logits.size()); ++id)
      if (std::isfinite(logits[size_t(id)])) {
        allowed.push_back(id);
        const std::string bytes = id < v.size() ? v.bytesOf(id) : "?";
        if (id == testEnd() || bytes == "\"" || bytes == "}" || bytes == "]")
          closing.push_back(id);
      }
    if (allowed.empty()) {
      ADD_FAILURE() << "no token may follow " << text;
      return {};
    }
    bool ends = std::isfinite(logits[size_t(testEnd())]);
    EXPECT_EQ(ends, constraint.complete()) << text;
    EXPECT_FALSE(allowed.back() > testEnd()) << "rows without a token";
    const auto &from = !closing.empty() && random() % 5 < (n < 100 ? 1 : 4) ? closing : allowed;
    int32_t id = from[random() % from.size()];
    constraint.accept(id);
    if (id == testEnd())
      return text;
    text += v.bytesOf(id);
  }
  return {};
}

/// Whether the text is one of the grammar, read byte by byte, and complete.
inline bool takes(Guide &guide, const std::string &text) {
  Guide::Position p = guide.start();
  return guide.advance(p, text) && guide.complete(p);
}

} // namespace dsv3::guided
