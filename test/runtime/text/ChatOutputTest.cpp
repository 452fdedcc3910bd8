#include "runtime/text/chat/ChatOutput.h"

#include "runtime/text/Utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

using namespace dsv3;
using namespace dsv3::text;

namespace {

const std::string kBegin = "<｜tool▁calls▁begin｜>", kEnd = "<｜tool▁calls▁end｜>";
const std::string kCall = "<｜tool▁call▁begin｜>", kCallEnd = "<｜tool▁call▁end｜>", kSep = "<｜tool▁sep｜>";

std::string fenced(const std::string &name, const std::string &arguments) {
  return kCall + "function" + kSep + name + "\n```json\n" + arguments + "\n```" + kCallEnd;
}
std::string plain(const std::string &name, const std::string &arguments) {
  return kCall + name + kSep + arguments + kCallEnd;
}

struct Parsed {
  std::string reasoning, content;
  std::vector<std::pair<std::string, std::string>> calls;
  bool operator==(const Parsed &o) const {
    return reasoning == o.reasoning && content == o.content && calls == o.calls;
  }
};

std::ostream &operator<<(std::ostream &out, const Parsed &p) {
  out << "reasoning {" << p.reasoning << "} content {" << p.content << "}";
  for (auto &[name, arguments] : p.calls)
    out << " call " << name << " {" << arguments << "}";
  return out;
}

/// Whole characters, a few at a time by `random`.
Parsed parse(const std::string &text, ChatOutput::Options options, std::mt19937 *random = nullptr) {
  options.idSeed = "r";
  ChatOutput output(options);
  ChatDelta all;
  std::set<std::string> ids;
  auto take = [&](const ChatDelta &d) {
    EXPECT_EQ(toValidUtf8(d.content), d.content);
    EXPECT_EQ(toValidUtf8(d.reasoning), d.reasoning);
    for (const ToolCallDelta &call : d.toolCalls) {
      EXPECT_EQ(toValidUtf8(call.arguments), call.arguments);
      if (!call.id.empty()) {
        EXPECT_TRUE(ids.insert(call.id).second) << "ids are unique";
        EXPECT_EQ(call.id.substr(0, 5), "call_");
        EXPECT_FALSE(call.name.empty());
      }
    }
    all.append(d);
  };
  for (size_t done = 0; done < text.size();) {
    size_t end = text.size();
    if (random) {
      end = done;
      for (size_t n = 1 + (*random)() % 4; n > 0 && end < text.size(); --n)
        end += decodeUtf8(text, end).length;
    }
    take(output.push(std::string_view(text).substr(done, end - done)));
    done = end;
  }
  take(output.flush());
  EXPECT_EQ(output.toolCalls(), all.toolCalls.size());
  Parsed result{all.reasoning, all.content, {}};
  for (const ToolCallDelta &call : all.toolCalls)
    result.calls.push_back({call.name, call.arguments});
  return result;
}

/// At once, and cut at random: always `want`.
void expectParsed(const std::string &text, ChatOutput::Options options, const Parsed &want) {
  EXPECT_EQ(parse(text, options), want) << text;
  std::mt19937 random(3);
  for (int round = 0; round < 20; ++round)
    ASSERT_EQ(parse(text, options, &random), want) << text;
}

TEST(ToolCalls, FormatIsThatOfTheTemplate) {
  EXPECT_EQ(toolFormatOf("{{ '" + fenced("f", "{}") + "' }}"), ToolFormat::Fenced);
  EXPECT_EQ(toolFormatOf("{{ '" + plain("f", "{}") + "' }}"), ToolFormat::Plain);
  EXPECT_EQ(toolFormatOf("{{ bos_token }}"), ToolFormat::None);
}

TEST(ToolCalls, FencedAndPlain) {
  ChatOutput::Options v3{ReasoningStart::None, ToolFormat::Fenced, ""}, v31{ReasoningStart::None, ToolFormat::Plain, ""};
  std::string arguments = "{\"city\": \"Köln\", \"code\": \"```<b>```\"}";
  expectParsed("Sure." + kBegin + fenced("get_weather", arguments) + "\n" + fenced("now", "{}") + kEnd, v3,
               {"", "Sure.", {{"get_weather", arguments}, {"now", "{}"}}});
  expectParsed(kBegin + plain("get_weather", arguments) + plain("now", "{}") + kEnd + " after", v31,
               {"", " after", {{"get_weather", arguments}, {"now", "{}"}}});
  expectParsed("no calls < here <｜tool", v31, {"", "no calls < here <｜tool", {}});
  expectParsed("raw " + kBegin, {}, {"", "raw " + kBegin, {}});
}

TEST(ToolCalls, MalformedIsContent) {
  ChatOutput::Options v3{ReasoningStart::None, ToolFormat::Fenced, ""}, v31{ReasoningStart::None, ToolFormat::Plain, ""};
  for (const std::string &text :
       {kBegin, kBegin + kEnd, kBegin + "hello", kBegin + kCall + "function" + kSep + "f", kBegin + kCall + kCallEnd + kEnd,
        kBegin + kCall + "f\n```json\n{}\n```" + kCallEnd + kEnd, kBegin + kCall + "function" + kSep + "a b\n```json\n{}",
        kBegin + std::string(2000, ' ') + "x", kBegin + kCall + std::string(2000, 'n')})
    expectParsed("x" + text, v3, {"", "x" + text, {}});
  expectParsed(kBegin + kCall + kSep + "{}" + kCallEnd, v31, {"", kBegin + kCall + kSep + "{}" + kCallEnd, {}});
  expectParsed(kBegin + plain("f", "{}") + "what? " + kBegin + plain("g", "[1]") + kEnd, v31,
               {"", "what? ", {{"f", "{}"}, {"g", "[1]"}}});
}

TEST(ToolCalls, BrokenOffCallsKeepWhatTheyHave) {
  ChatOutput::Options v3{ReasoningStart::None, ToolFormat::Fenced, ""}, v31{ReasoningStart::None, ToolFormat::Plain, ""};
  std::string begin = kBegin + kCall + "function" + kSep + "f\n```json\n";
  expectParsed(begin + "{\"a\": 1", v3, {"", "", {{"f", "{\"a\": 1"}}});
  expectParsed(begin + "{}\n```", v3, {"", "", {{"f", "{}"}}});
  expectParsed(begin + "{}\n```<｜tool▁call", v3, {"", "", {{"f", "{}"}}});
  expectParsed(kBegin + plain("f", "{}"), v31, {"", "", {{"f", "{}"}}});
}

TEST(ToolCalls, ForcedCallsAreReadAsJson) {
  std::string arguments = "{\"a\": \"```\\n" + kCallEnd + kEnd + "\\\"}\", \"b\": [{}, \"]\"]}";
  for (ToolFormat format : {ToolFormat::Fenced, ToolFormat::Plain}) {
    const bool isFenced = format == ToolFormat::Fenced;
    auto call = [&](const std::string &a) { return isFenced ? fenced("f", a) : plain("f", a); };
    ChatOutput::Options options{ReasoningStart::Inside, format, "", true};
    expectParsed("Hm.</think>\n\n" + kBegin + call(arguments) + (isFenced ? "\n" : "") + call("12") + call("\"" + kCallEnd + "\"") + kEnd, options,
                 {"Hm.", "", {{"f", arguments}, {"f", "12"}, {"f", "\"" + kCallEnd + "\""}}});
    options.reasoning = ReasoningStart::None;
    const std::string cut = "{\"a\": [1, \"x";
    expectParsed(kBegin + kCall + (isFenced ? "function" + kSep + "f\n```json\n" : "f" + kSep) + cut, options, {"", "", {{"f", cut}}});
  }
}

TEST(ToolCalls, OneCallMayBeAll) {
  ChatOutput::Options options{ReasoningStart::None, ToolFormat::Plain, "", false, true};
  std::string text = "a" + kBegin + plain("f", "{}") + plain("g", "[1]") + kEnd + "b";
  ChatOutput output(options);
  ChatDelta all = output.push(text);
  all.append(output.flush());
  EXPECT_EQ(all.content, "ab");
  ASSERT_EQ(all.toolCalls.size(), 1u);
  EXPECT_EQ(all.toolCalls[0].name + all.toolCalls[0].arguments, "f{}");
}

TEST(ToolCalls, ArgumentsComeAsTheyAreWritten) {
  ChatOutput output({ReasoningStart::None, ToolFormat::Plain, "r"});
  EXPECT_TRUE(output.push(kBegin + kCall + "f").empty());
  ChatDelta first = output.push(kSep);
  ASSERT_EQ(first.toolCalls.size(), 1u);
  EXPECT_EQ(first.toolCalls[0].name, "f");
  ChatDelta second = output.push("{\"a");
  ASSERT_EQ(second.toolCalls.size(), 1u);
  EXPECT_EQ(second.toolCalls[0].arguments, "{\"a");
  EXPECT_TRUE(second.toolCalls[0].id.empty() && second.toolCalls[0].name.empty());
  EXPECT_EQ(second.toolCalls[0].index, 0u);
}

TEST(Reasoning, SplitsAtTheFirstEnd) {
  expectParsed("\nHm.\n</think>\n\nYes</think>.", {ReasoningStart::Inside, ToolFormat::None, ""}, {"\nHm.\n", "\n\nYes</think>.", {}});
  expectParsed("never </thin ends </t", {ReasoningStart::Inside, ToolFormat::None, ""}, {"never </thin ends </t", "", {}});
  expectParsed(" \n<think>a</think>b", {ReasoningStart::Opens, ToolFormat::None, ""}, {"a", "b", {}});
  expectParsed(" \n<thinking>", {ReasoningStart::Opens, ToolFormat::None, ""}, {"", " \n<thinking>", {}});
  expectParsed("Say <think>", {ReasoningStart::Opens, ToolFormat::None, ""}, {"", "Say <think>", {}});
  expectParsed("<th", {ReasoningStart::Opens, ToolFormat::None, ""}, {"", "<th", {}});
  expectParsed("<think>x</think>", {}, {"", "<think>x</think>", {}});
  std::string call = kBegin + plain("f", "{}") + kEnd;
  expectParsed("I could " + call + "</think>" + call, {ReasoningStart::Inside, ToolFormat::Plain, ""},
               {"I could " + call, "", {{"f", "{}"}}});
}

TEST(Reasoning, StartsWhereThePromptLeavesIt) {
  std::string source = "{{ '<think>' }}";
  EXPECT_EQ(reasoningStart({{"hi", false}, {"<｜Assistant｜><think>\n", true}}, source), ReasoningStart::Inside);
  EXPECT_EQ(reasoningStart({{"<｜Assistant｜></think>", true}}, source), ReasoningStart::None);
  EXPECT_EQ(reasoningStart({{"<｜Assistant｜>", true}}, source), ReasoningStart::Opens);
  EXPECT_EQ(reasoningStart({{"<｜Assistant｜>", true}}, "{{ bos_token }}"), ReasoningStart::None);
  EXPECT_EQ(reasoningStart({{"x", true}, {"<think>", false}}, source), ReasoningStart::Opens) << "a user wrote it";
}

TEST(ChatOutput, SurvivesRandomMixturesOfMarkers) {
  std::mt19937 random(9);
  const std::vector<std::string> parts = {kBegin, kEnd, kCall, kCallEnd, kSep, "\n```json\n", "\n```", "```", "<think>", "</think>",
                                          "f", "{}", "ü", " ", "\n", "<", "function", "[", "}", "\"", "\\"};
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int n = random() % 20; n > 0; --n)
      text += parts[random() % parts.size()];
    ChatOutput::Options options{ReasoningStart(round % 3), ToolFormat(random() % 3), "", round % 4 == 0};
    ASSERT_EQ(parse(text, options, &random), parse(text, options)) << text;
  }
}

} // namespace
