// Answers that must call tools: whatever is chosen, it parses as calls whose arguments satisfy their schemas.
#include "Generate.h"
#include "Validator.h"

#include "runtime/text/chat/ChatOutput.h"

#include <gmock/gmock.h>

using namespace dsv3;
using namespace dsv3::guided;
using testing::HasSubstr;

namespace {

const char *kWeather = R"({"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}, "days": {"type": "integer", "minimum": 1, "maximum": 7}},
                          "required": ["city"]})";
const char *kTree = R"({"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}})";

CallRules rulesOf(bool several) { return {{{"get_weather", kWeather}, {"tree", kTree}, {"now", R"({"type": "object", "properties": {}})"}}, several}; }

/// With tokens for the markers behind the others, or without.
std::shared_ptr<const Vocabulary> vocabularyWith(bool markers) {
  std::vector<std::string> tokens = testTokens();
  std::vector<Vocabulary::Marker> made;
  if (markers)
    for (const std::string &marker : text::toolMarkers()) {
      made.push_back({marker, int32_t(tokens.size())});
      tokens.push_back(marker); // as text it would be allowed in strings
    }
  return *Vocabulary::create(std::move(tokens), -1, std::move(made));
}

struct Answer {
  std::string text;
  std::vector<int32_t> ids;
};

/// At random, closing what is open where it can. Nothing when there is no end within `most` tokens.
std::optional<Answer> answer(std::shared_ptr<Guide> guide, bool markers, std::mt19937 &random, int most = 600) {
  const int32_t end = testEnd(), firstMarker = end + 1;
  GuidedConstraint constraint(guide, {end});
  Answer out;
  for (int n = 0; n < most; ++n) {
    std::vector<float> logits(size_t(guide->vocabulary().size()), 1.0f);
    constraint.mask(logits.data(), int64_t(logits.size()));
    std::vector<int32_t> allowed, closing;
    for (int32_t id = 0; id < int32_t(logits.size()); ++id)
      if (std::isfinite(logits[size_t(id)])) {
        allowed.push_back(id);
        const std::string bytes = guide->vocabulary().bytesOf(id);
        if (id >= end || bytes == "\"" || bytes == "}")
          closing.push_back(id);
      }
    if (allowed.empty()) {
      ADD_FAILURE() << "no token may follow " << out.text;
      return {};
    }
    const auto &from = !closing.empty() && random() % 5 < (n < 100 ? 2 : 4) ? closing : allowed;
    int32_t id = from[random() % from.size()];
    constraint.accept(id);
    out.ids.push_back(id);
    if (id == end)
      return out;
    out.text += id >= firstMarker && markers ? text::toolMarkers()[size_t(id - firstMarker)] : guide->vocabulary().bytesOf(id);
  }
  return {};
}

TEST(Calls, WhateverIsChosenCallsATool) {
  std::mt19937 random(5);
  for (bool markers : {true, false})
    for (text::ToolFormat format : {text::ToolFormat::Fenced, text::ToolFormat::Plain})
      for (bool several : {true, false}) {
        Guides guides(vocabularyWith(markers));
        size_t failed = 0, whole = 0, most = 0;
        auto guide = guides.calls(rulesOf(several), format, failed);
        ASSERT_TRUE(bool(guide)) << guide.error().message;
        for (int round = 0; round < 60; ++round) {
          std::optional<Answer> a = answer(*guide, markers, random);
          if (!a)
            continue;
          ++whole;
          text::ChatOutput output({text::ReasoningStart::None, format, "id", true});
          text::ChatDelta all = output.push(a->text);
          all.append(output.flush());
          EXPECT_EQ(all.content, "") << a->text;
          ASSERT_FALSE(all.toolCalls.empty()) << a->text;
          most = std::max(most, all.toolCalls.size());
          for (const text::ToolCallDelta &call : all.toolCalls) {
            const CallRules rules = rulesOf(several);
            auto tool = std::find_if(rules.tools.begin(), rules.tools.end(), [&](auto &t) { return t.name == call.name; });
            ASSERT_NE(tool, rules.tools.end()) << call.name;
            auto schema = nlohmann::json::parse(tool->schema);
            auto value = nlohmann::json::parse(call.arguments, nullptr, false);
            ASSERT_FALSE(value.is_discarded()) << call.arguments;
            EXPECT_EQ(Validator(schema).check(schema, value), "") << call.arguments;
          }
        }
        EXPECT_GT(whole, 30u);
        EXPECT_EQ(most > 1, several);
      }
}

TEST(Calls, MarkersThatAreTokensStandAtTheirPlacesOnly) {
  auto vocabulary = vocabularyWith(true);
  Guides guides(vocabulary);
  size_t failed = 0;
  auto guide = *guides.calls(rulesOf(false), text::ToolFormat::Plain, failed);
  const int32_t first = testEnd() + 1; // in the order of toolMarkers: begin, end, call begin, call end, separator
  GuidedConstraint constraint(guide, {testEnd()});
  auto allowed = [&](int32_t id) {
    std::vector<float> logits(size_t(vocabulary->size()), 0.0f);
    constraint.mask(logits.data(), int64_t(logits.size()));
    return std::isfinite(logits[size_t(id)]);
  };
  EXPECT_TRUE(allowed(first));
  EXPECT_FALSE(allowed('<')) << "a marker is its token";
  EXPECT_FALSE(allowed(testEnd()));
  constraint.accept(first);
  EXPECT_FALSE(allowed(0xFF)) << "nor the bytes that stand for it";
  constraint.accept(first + 2);
  for (char c : std::string("get_weather"))
    constraint.accept(c);
  constraint.accept(first + 4);
  for (char c : std::string("{\"city\": \"x"))
    constraint.accept(c);
  for (int32_t marker = first; marker < vocabulary->size(); ++marker)
    EXPECT_FALSE(allowed(marker)) << "inside a string";
  EXPECT_TRUE(allowed('<')) << "as text it is text";
  constraint.accept('"');
  constraint.accept('}');
  EXPECT_TRUE(allowed(first + 3));
  constraint.accept(first + 3);
  EXPECT_FALSE(allowed(first + 2)) << "one call";
  EXPECT_TRUE(allowed(first + 1));
  constraint.accept(first + 1);
  EXPECT_TRUE(constraint.complete() && allowed(testEnd()));
}

TEST(Calls, AnErrorNamesItsTool) {
  Guides guides(vocabularyWith(true));
  CallRules rules = rulesOf(true);
  rules.tools.insert(rules.tools.begin() + 2, {"bad", R"({"type": "object", "not": {}})"});
  size_t failed = 0;
  auto guide = guides.calls(rules, text::ToolFormat::Fenced, failed);
  ASSERT_FALSE(bool(guide));
  EXPECT_EQ(failed, 2u);
  EXPECT_THAT(guide.error().message, HasSubstr("schema: #: expected a keyword that is supported, got \"not\""));
}

TEST(Calls, GuidesAreMadeOnceForEachFormat) {
  Guides guides(vocabularyWith(false));
  size_t failed = 0;
  auto a = *guides.calls(rulesOf(true), text::ToolFormat::Fenced, failed);
  EXPECT_EQ(*guides.calls(rulesOf(true), text::ToolFormat::Fenced, failed), a);
  EXPECT_NE(*guides.calls(rulesOf(true), text::ToolFormat::Plain, failed), a);
  EXPECT_NE(*guides.calls(rulesOf(false), text::ToolFormat::Fenced, failed), a);
}

} // namespace
