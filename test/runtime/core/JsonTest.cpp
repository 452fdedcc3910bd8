#include "TempDir.h"

#include "runtime/core/Json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;
using testing::HasSubstr;

TEST(Json, ParsesAndKeepsOrderWhenAsked) {
  auto plain = parseJson(R"({"b": [1, {"x": null}], "a": 2.5})", "t");
  ASSERT_TRUE(bool(plain)) << plain.error().message;
  EXPECT_EQ((*plain)["a"], 2.5);
  auto ordered = parseOrderedJson(R"({"b": 1, "a": 2})", "t");
  ASSERT_TRUE(bool(ordered));
  EXPECT_EQ(ordered->dump(), R"({"b":1,"a":2})");
}

TEST(Json, RefusesDuplicateKeysAtAnyDepth) {
  for (const char *text : {R"({"k": 1, "k": 1})", R"([{"a": {"k": 1, "x": [{}], "k": 2}}])"}) {
    auto json = parseJson(text, "some.json");
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().message, "some.json: duplicate key \"k\"");
  }
  EXPECT_TRUE(bool(parseJson(R"({"k": {"k": 1}, "l": {"k": 1}, "m": [{"k": 1}, {"k": 1}]})", "t")));
}

TEST(Json, SyntaxErrorsAreOneLineWithThePlace) {
  for (std::string text : {"", "{", "{\"a\": 1,}", "[1 2]", "nul", "{} x", "\"\xff\"", "{\n\"a\": \n]"}) {
    auto json = parseJson(text, "some.json");
    ASSERT_FALSE(json) << text;
    EXPECT_EQ(json.error().code, ExitCode::BadCheckpoint);
    EXPECT_THAT(json.error().message, HasSubstr("some.json: not valid JSON: parse error at line "));
    EXPECT_EQ(json.error().message.find('\n'), std::string::npos);
  }
}

TEST(Json, DeepNestingDoesNotOverflowTheStack) {
  EXPECT_FALSE(parseJson(std::string(2000000, '['), "deep"));
  EXPECT_TRUE(bool(parseJson(std::string(200000, '[') + std::string(200000, ']'), "deep")));
}

TEST(Json, FilesThatCannotBeReadAreNamed) {
  dsv3::test::TempDir dir;
  auto json = parseJsonFile(dir / "none.json");
  ASSERT_FALSE(json);
  EXPECT_THAT(json.error().message, HasSubstr("none.json: cannot open: No such file"));
}

class JsonFieldsTest : public testing::Test {
protected:
  Json json = Json::parse(R"({"int": 3, "big": 18446744073709551615, "half": 0.5, "text": "a\nb",
                              "null": null, "yes": true, "sub": {"factor": "x"}, "list": [1]})");
  JsonFields fields{json, "config.json"};
};

TEST_F(JsonFieldsTest, GettersReturnValues) {
  EXPECT_EQ(*fields.integer("int", 0, 10), 3);
  EXPECT_EQ(*fields.number("int"), 3.0);
  EXPECT_EQ(*fields.number("half"), 0.5);
  EXPECT_EQ(*fields.string("text"), "a\nb");
  EXPECT_EQ(*fields.boolean("yes"), true);
  EXPECT_EQ(*fields.integerOr("none", 7, 0, 10), 7);
  EXPECT_EQ(*fields.integerOr("null", 7, 0, 10), 7);
  EXPECT_EQ(*fields.integerOrNull("null", 0, 10), std::nullopt);
  EXPECT_EQ(*fields.integerOrNull("int", 0, 10), 3);
  EXPECT_EQ(*fields.numberOr("none", 1.5), 1.5);
  EXPECT_EQ(*fields.booleanOr("none", true), true);
  EXPECT_EQ(*fields.stringOr("none", "x"), "x");
}

/// The parser takes a null byte for the end of the text.
TEST(Json, NothingHidesBehindANullByte) {
  using namespace std::string_view_literals;
  EXPECT_EQ(parseJson("{}\0 x"sv, "t").error().message, "t: not valid JSON: a null byte at byte 3");
  EXPECT_EQ(parseOrderedJson("[1]\0"sv, "t").error().message, "t: not valid JSON: a null byte at byte 4");
  EXPECT_TRUE(bool(parseJson("\"\\u0000\""sv, "t"))) << "written as an escape it is a character";
}

TEST(JsonLines, BlankLinesCountButAreNotRead) {
  std::vector<std::string> seen;
  auto read = [&](const Json &line, const std::string &where) -> Status {
    seen.push_back(where + " " + line.dump());
    return line.contains("bad") ? Status(usageError(where + ": bad")) : Status();
  };
  auto lines = [&](std::string_view text, int64_t limit = 0) {
    seen.clear();
    return eachJsonLine(text, "f", limit, read);
  };
  EXPECT_EQ(*lines(""), 0);
  EXPECT_EQ(*lines("\n{\"a\": 1}\r\n \t\n{}"), 2);
  EXPECT_EQ(seen, (std::vector<std::string>{"f: line 2 {\"a\":1}", "f: line 4 {}"}));
  EXPECT_EQ(*lines("{}\n{}\n[1]", 2), 2) << "what lies beyond the limit is not looked at";
  EXPECT_EQ(lines("{}\n[1]").error().message, "f: line 2: expected an object, got a list");
  EXPECT_EQ(lines("{}\n{\"a\"").error().message.substr(0, 10), "f: line 2:");
  EXPECT_EQ(lines("{\"bad\": 0}\n{}").error().message, "f: line 1: bad");
  EXPECT_EQ(seen.size(), 1u);
}

TEST_F(JsonFieldsTest, ErrorsNameFieldAndValue) {
  EXPECT_EQ(fields.integer("none", 0, 9).error().message, "config.json: none is missing");
  EXPECT_EQ(fields.integer("null", 0, 9).error().message, "config.json: null is missing");
  EXPECT_EQ(fields.integer("half", 0, 9).error().message,
            "config.json: half: expected an integer, got 0.5");
  EXPECT_EQ(fields.integer("int", 4, 9).error().message,
            "config.json: int: expected an integer from 4 to 9, got 3");
  EXPECT_EQ(fields.integer("big", 0, INT64_MAX).error().message,
            "config.json: big: expected an integer from 0 to 9223372036854775807, got "
            "18446744073709551615");
  EXPECT_EQ(fields.number("text").error().message,
            "config.json: text: expected a finite number, got \"a?b\"");
  EXPECT_EQ(fields.boolean("list").error().message,
            "config.json: list: expected true or false, got a list");
  EXPECT_EQ(fields.child("int").error().message, "config.json: int: expected an object, got 3");
  EXPECT_EQ(fields.integerOr("text", 1, 0, 9).error().message,
            "config.json: text: expected an integer, got \"a?b\"");
}

TEST_F(JsonFieldsTest, NestedErrorsCarryThePath) {
  auto sub = fields.child("sub");
  ASSERT_TRUE(bool(sub));
  EXPECT_EQ(sub->number("factor").error().message,
            "config.json: sub.factor: expected a finite number, got \"x\"");
}
