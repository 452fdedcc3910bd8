#include "Generate.h"
#include "Validator.h"

#include <chrono>

using namespace dsv3;
using namespace dsv3::guided;

namespace {

struct Case {
  const char *schema;
  std::vector<const char *> good, bad;
};

const std::vector<Case> &cases() {
  static const std::vector<Case> all = {
      {R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}, "required": ["name", "age"]})",
       {R"({"name":"x","age":3})", R"({ "name" : "x" , "age" : -3 })", "{\n  \"name\": \"\\u00e4\\n\",\n  \"age\": 0\n}", "\n{\"name\":\"\",\"age\":1}"},
       {R"({"name":"x"})", R"({"age":3,"name":"x"})", R"({"name":"x","age":3.5})", R"({"name":"x","age":03})", R"({"name":"x","age":3,})",
        R"({"name":"x","age":3} )", "{\"name\":\"a\nb\",\"age\":1}", R"({"name":"\x","age":1})", R"({"name":"\ud800","age":1})", "{\"name\":\"\xff\",\"age\":1}",
        "{\"name\":\"\xC3\",\"age\":1}", R"({"name":"x","age":-0})", R"({  "name":"x","age":1})"}},
      {R"({"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": ["null", "boolean"]}, "c": {}}})",
       {"{}", R"({"a":1.5e-3})", R"({"b":null})", R"({"a":0,"c":[1,{"x":"y"}]})", R"({"b":true,"c":null})", R"({"c":{}})"},
       {R"({"b":1})", R"({"d":1})", R"({"a":.5})", R"({"a":1.})", R"({"a":1e})", R"({,})", R"({"c":[1,]})"}},
      {R"({"type": "object", "properties": {"ab": {"type": "null"}}, "additionalProperties": {"type": "integer"}})",
       {"{}", R"({"ab":null,"a":1,"abc":2,"b":3})", R"({"x":1})"},
       {R"({"ab":1})", R"({"x":null})", R"({"x":1,"ab":1})", R"({"\u0061b":1})"}},
      {R"({"type": "object", "required": ["z"], "additionalProperties": true, "properties": {"y": true}})",
       {R"({"z":[]})", R"({"y":1,"z":2,"w":3})"}, {"{}", R"({"y":1})"}},
      {R"({"type": "object"})", {"{}", R"({"a":{"b":[true,false]}})"}, {"[]", "1", R"({"a"})"}},
      {R"({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3})", {"[1,2]", "[1, 2,\n3]"}, {"[]", "[1]", "[1,2,3,4]", "[1,]"}},
      {R"({"type": "array", "items": {"type": "string"}})", {"[]", R"(["a"])", R"(["a","b","c","d"])"}, {"[1]", R"(["a" "b"])"}},
      {R"({"type": "array", "minItems": 2})", {"[1,2]", "[[],{},null]"}, {"[1]", "[]"}},
      {R"({"type": "array", "maxItems": 0})", {"[]"}, {"[1]"}},
      {R"({"type": "array", "prefixItems": [{"type": "string"}, {"type": "null"}], "items": {"type": "boolean"}})",
       {"[]", R"(["a",null,true,false])", R"(["a"])"}, {"[null]", R"(["a",null,1])"}},
      {R"({"type": "array", "prefixItems": [{"type": "string"}], "items": false, "minItems": 1})", {R"(["a"])"}, {"[]", R"(["a",1])"}},
      {R"({"enum": ["red", "gr\"een", 3, null, {"a": [1]}]})", {R"("red")", R"("gr\"een")", "3", "null", R"({"a":[1]})"}, {R"("blue")", "4"}},
      {R"({"type": "string", "enum": ["a", 1]})", {R"("a")"}, {"1"}},
      {R"({"const": "ü"})", {"\"ü\""}, {R"("u")"}},
      {R"({"anyOf": [{"type": "string"}, {"type": "object", "properties": {"k": {"const": 1}}, "required": ["k"]}]})",
       {R"("s")", R"({"k":1})"}, {R"({})", "1"}},
      {R"({"type": "string", "minLength": 2, "maxLength": 4})", {R"("ab")", R"("äöü😀")", R"("\n\u00e4")"}, {R"("a")", R"("abcde")"}},
      {R"({"type": "string", "minLength": 3})", {R"("abc")", R"("abcdefgh")"}, {R"("ab")"}},
      {R"({"type": "integer", "minimum": -5, "maximum": 120})", {"-5", "0", "7", "99", "120"}, {"-6", "121", "1200", "-0", "07"}},
      {R"({"type": "integer", "exclusiveMinimum": 9, "exclusiveMaximum": 1001})", {"10", "99", "100", "1000"}, {"9", "1001", "0", "-10"}},
      {R"({"type": "integer", "minimum": 0.5})", {"1", "999"}, {"0", "-1"}},
      {R"({"type": "integer", "maximum": -17})", {"-17", "-20", "-100"}, {"-16", "-1", "0", "17"}},
      {R"({"type": "boolean"})", {"true", "false"}, {"null", "True"}},
      {R"({"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}, "required": ["v", "next"]}}})",
       {R"({"v":1,"next":null})", R"({"v":1,"next":{"v":2,"next":null}})"}, {R"({"v":1})", R"({"v":1,"next":{}})"}},
      {R"({"type": "array", "items": {"$ref": "#"}})", {"[]", "[[],[[]]]"}, {"[1]", "["}},
      {R"({"type": "string", "format": "date"})", {R"("2024-02-28")"}, {R"("2024-13-01")", R"("2024-02-30")", R"("x")"}},
      {R"({"type": "string", "pattern": "^[A-Z]{2}-\\d+$"})", {R"("AB-1")", R"("XY-123")"}, {R"("AB-")", R"("ABC-1")", R"("AB-1 ")"}},
      {R"(true)", {"1", R"("x")", "{}", "[]", "null"}, {"", "nul"}},
      {R"({"title": "T", "description": "d"})", {"1", "{}"}, {"x"}},
  };
  return all;
}

TEST(Schema, TakesWhatItAllowsAndNothingElse) {
  for (const Case &c : cases()) {
    auto guide = guideOf(c.schema);
    for (const char *text : c.good) {
      EXPECT_TRUE(takes(*guide, text)) << c.schema << "\n" << text;
      EXPECT_EQ(violation(nlohmann::json::parse(c.schema), text), "") << c.schema << "\n" << text;
    }
    for (const char *text : c.bad)
      EXPECT_FALSE(takes(*guide, text)) << c.schema << "\n" << text;
  }
}

TEST(Schema, RandomAnswersSatisfyIt) {
  std::mt19937 random(1);
  int complete = 0, total = 0;
  for (const Case &c : cases()) {
    auto guide = guideOf(c.schema);
    nlohmann::json schema = nlohmann::json::parse(c.schema);
    for (int i = 0; i < 40; ++i, ++total)
      if (std::optional<std::string> text = generate(guide, random)) {
        ASSERT_EQ(violation(schema, *text), "") << c.schema << "\n" << *text;
        ++complete;
      }
  }
  EXPECT_GT(complete, total * 9 / 10) << "most end by themselves";
}

/// The depth of the stack is a bound on nesting, and never a dead end.
TEST(Schema, DeepNestingEndsByItself) {
  Limits limits;
  limits.stackDepth = 20;
  auto guide = guideOf(R"({"type": "array", "items": {"$ref": "#"}})", limits);
  Guide::Position p = guide->start();
  int depth = 0;
  while (guide->advance(p, "["))
    ++depth;
  EXPECT_GT(depth, 5);
  EXPECT_LT(depth, 20);
  EXPECT_TRUE(guide->advance(p, std::string(size_t(depth), ']')));
  EXPECT_TRUE(guide->complete(p));
  std::mt19937 random(2);
  auto any = guideOf("true", limits);
  for (int i = 0; i < 100; ++i)
    generate(any, random);
}

std::string errorOf(const std::string &schema, const Limits &limits = {}) {
  Result<Grammar> g = compileSchema(schema, limits);
  EXPECT_TRUE(bool(g) || g.error().code == ExitCode::Usage) << schema;
  return g ? "" : g.error().message;
}

TEST(Schema, RefusesWhatItCannotKeepNamingThePlace) {
  EXPECT_EQ(errorOf(R"({"type": "object", "properties": {"a": {"not": {}}}})"),
            "schema: #/properties/a: expected a keyword that is supported, got \"not\"");
  EXPECT_EQ(errorOf(R"({"type": "array", "uniqueItems": true})"), "schema: #: expected a keyword that is supported, got \"uniqueItems\"");
  EXPECT_EQ(errorOf(R"({"type": "number", "minimum": 0})"), "schema: #: expected bounds of integers only, got \"minimum\"");
  EXPECT_EQ(errorOf(R"({"anyOf": [{"type": "null"}], "type": "string"})"), "schema: #: expected no other keyword beside \"anyOf\", got \"type\"");
  EXPECT_EQ(errorOf(R"({"$ref": "https://x/y"})"), "schema: #/$ref: expected a reference into this schema (\"#/$defs/...\"), got \"https://x/y\"");
  EXPECT_EQ(errorOf(R"({"$ref": "#/$defs/a"})"), "schema: #/$ref: expected a place in this schema, got \"#/$defs/a\"");
  EXPECT_EQ(errorOf(R"({"type": "text"})"), "schema: #/type: expected a type, or a list of types, got \"text\"");
  EXPECT_EQ(errorOf(R"({"type": "string", "minItems": 1})"), "schema: #: expected keywords of its type, got \"minItems\"");
  EXPECT_EQ(errorOf(R"({"properties": {}})"), "schema: #: expected a type beside \"properties\"");
  EXPECT_EQ(errorOf(R"_({"type": "string", "pattern": "(?=a)"})_"), "schema: #/pattern: expected a group '(...)' or '(?:...)', got '=' at 2");
  EXPECT_EQ(errorOf(R"({"type": "string", "minLength": 2, "maxLength": 1})"), "schema: #: expected minLength up to maxLength, got more");
  EXPECT_EQ(errorOf(R"({"type": "integer", "minimum": 2, "maximum": 1})"),
            "schema: #: expected a range with an integer of at most 18 digits, got none");
  EXPECT_EQ(errorOf(R"({"type": "array", "minItems": 2.5})"), "schema: #/minItems: expected an integer from 0 to 1000000000, got 2.5");
  EXPECT_EQ(errorOf("[]"), "schema: #: expected an object or true, got an empty list");
  EXPECT_EQ(errorOf("false"), "schema: #: expected an object or true, got false");
  EXPECT_NE(errorOf("{"), "");
  EXPECT_NE(errorOf(""), "");
}

TEST(Schema, CostsAreBounded) {
  auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(errorOf(R"({"$ref": "#"})"), "schema: no finite value satisfies the schema: it contains itself without an end");
  EXPECT_NE(errorOf(R"({"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]})"), "");
  EXPECT_NE(errorOf(R"({"type": "array", "minItems": 100000000})"), "");
  EXPECT_NE(errorOf(R"({"type": "string", "minLength": 100000000})"), "");
  EXPECT_NE(errorOf(R"_({"type": "string", "pattern": "((((a{1000}){1000}){1000}){1000})"})_"), "");
  EXPECT_NE(errorOf(std::string(100'000, '[')), "");
  std::string nested = "true";
  for (int i = 0; i < 100; ++i)
    nested = R"({"type": "array", "items": )" + nested + "}";
  EXPECT_NE(errorOf(nested), "");
  // Every definition is a choice of all: many edges, few states.
  std::string defs;
  for (int i = 0; i < 600; ++i) {
    std::string choices;
    for (int k = 0; k < 5; ++k)
      choices += std::string(k ? "," : "") + R"({"$ref":"#/$defs/d)" + std::to_string((i * 7 + k) % 600) + "\"}";
    defs += std::string(i ? "," : "") + "\"d" + std::to_string(i) + R"(":{"anyOf":[)" + choices + ",true]}";
  }
  errorOf(R"({"$ref":"#/$defs/d0","$defs":{)" + defs + "}}"); // compiles or is refused
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

} // namespace
