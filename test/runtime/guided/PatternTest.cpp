#include "Generate.h"

#include <regex>

using namespace dsv3;
using namespace dsv3::guided;

namespace {

std::shared_ptr<Guide> patternGuide(const std::string &pattern) {
  return guideOf(nlohmann::json{{"type", "string"}, {"pattern", pattern}}.dump());
}

/// The language of each, against std::regex on all short texts.
TEST(Pattern, AgreesWithARegularExpressionEngine) {
  const std::string letters = "ab1-";
  std::vector<std::string> texts = {""};
  for (size_t i = 0; i < texts.size() && texts[i].size() < 5; ++i)
    for (char c : letters)
      texts.push_back(texts[i] + c);
  for (const char *pattern :
       {"", "a", "^a", "a$", "^a$", "^ab|1$", "^(a|b)*$", "^(a*b?)+$", "^a{2}$", "^a{2,}$", "^a{1,3}b$", "^(ab){0,2}$", "^[^a]$", "^[a-b1]+$",
        "^\\d-\\w$", "^\\D+$", "^.$", "^(?:a|1)?b+?$", "^((a)(b|1)){2}$", "^a*a*a*$", "^(a|)b$", "^[\\d-]$", "^[a\\-]{2}$", "^(a+)+$", "^a{0}b$",
        "^(a{2}){2}$", "-", "^\\x61\\u0062$", "^[^\\d]$"}) {
    auto guide = patternGuide(pattern);
    std::regex regex(pattern);
    int matches = 0;
    for (const std::string &text : texts) {
      bool want = std::regex_search(text, regex);
      matches += want;
      ASSERT_EQ(takes(*guide, "\"" + text + "\""), want) << pattern << " on " << text;
    }
    EXPECT_GT(matches, 0) << pattern;
  }
}

TEST(Pattern, WritesCharactersAsJsonDoes) {
  EXPECT_TRUE(takes(*patternGuide("^\"\\\\$"), R"("\"\\")"));
  EXPECT_TRUE(takes(*patternGuide("^\\n\\x01$"), R"("\n\u0001")"));
  EXPECT_TRUE(takes(*patternGuide("^ä[α-ω]😀$"), "\"äβ😀\""));
  EXPECT_FALSE(takes(*patternGuide("^[α-ω]$"), "\"ä\""));
  EXPECT_TRUE(takes(*patternGuide("^[^x]$"), "\"\\\"\""));
  for (const char *c : {"\u007F", "\u0080", "\u07FF", "\u0800", "\uD7FF", "\uE000", "\uFFFF", "\U00010000", "\U0010FFFF"})
    EXPECT_TRUE(takes(*patternGuide("^[^x]$"), "\"" + std::string(c) + "\"")) << c;
  for (const char *c : {"\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE0\x80\x80", "\x80"})
    EXPECT_FALSE(takes(*patternGuide("^[^x]$"), "\"" + std::string(c) + "\"")) << "ill-formed UTF-8";
}

TEST(Pattern, RefusesTheRest) {
  auto error = [](const std::string &pattern) {
    Result<Grammar> g = compileSchema(nlohmann::json{{"type", "string"}, {"pattern", pattern}}.dump());
    return g ? "" : g.error().message;
  };
  for (const char *pattern : {"(a", "a)", "[a", "a**", "*a", "a{2", "a{2,1}", "a{2000}", "\\1", "\\b", "(?<n>a)", "(?!a)", "a^b", "a$b", "[b-a]", "\\", "\\xg1",
                              "[]", "(a$)", "\\p{L}"})
    EXPECT_NE(error(pattern).find("schema: #/pattern: expected "), std::string::npos) << pattern << ": " << error(pattern);
}

} // namespace
