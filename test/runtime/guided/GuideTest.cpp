#include "Generate.h"

#include <chrono>

using namespace dsv3;
using namespace dsv3::guided;

namespace {

/// What a mask says, against reading each token's bytes.
TEST(Guide, MaskIsWhatCanBeRead) {
  std::mt19937 random(4);
  for (const char *schema : {"true", R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 6}, "b": {"enum": ["abc", "abd"]}}})",
                             R"({"type": "string", "pattern": "^a.*b$"})", R"({"type": "object", "properties": {"name": {}}, "additionalProperties": {"type": "null"}})"}) {
    auto guide = guideOf(schema);
    const Vocabulary &v = guide->vocabulary();
    for (int round = 0; round < 30; ++round) {
      Guide::Position p = guide->start();
      for (int n = 0; n < 40; ++n) {
        Mask mask = guide->allowed(p);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < v.size(); ++id) {
          Guide::Position q = p;
          bool can = !v.bytesOf(id).empty() && guide->advance(q, v.bytesOf(id));
          ASSERT_EQ(bool(mask[size_t(id) / 64] >> (id % 64) & 1), can) << schema << ": " << v.bytesOf(id);
          if (can)
            allowed.push_back(id);
        }
        if (allowed.empty()) {
          EXPECT_TRUE(guide->complete(p));
          break;
        }
        ASSERT_TRUE(guide->advance(p, v.bytesOf(allowed[random() % allowed.size()])));
      }
    }
  }
}

TEST(Guide, EndIsAllowedExactlyWhenComplete) {
  GuidedConstraint constraint(guideOf(R"({"type": "integer"})"), {testEnd()});
  std::vector<float> logits(size_t(testVocabulary()->size()), 2.0f);
  constraint.mask(logits.data(), int64_t(logits.size()));
  EXPECT_EQ(logits['7'], 2.0f);
  EXPECT_FALSE(std::isfinite(logits[size_t(testEnd())]));
  constraint.accept('7');
  logits.assign(logits.size(), 2.0f);
  constraint.mask(logits.data(), int64_t(logits.size()));
  EXPECT_EQ(logits['7'], 2.0f) << "may go on";
  EXPECT_EQ(logits[size_t(testEnd())], 2.0f);
  EXPECT_FALSE(std::isfinite(logits['{']));
}

TEST(Guide, EndIdsWithTextDoNotCutAValue) {
  GuidedConstraint constraint(guideOf(R"({"type": "string"})"), {testEnd(), 'x'});
  std::vector<float> logits(size_t(testVocabulary()->size()), 2.0f);
  for (int32_t id : {'"', 'y'}) {
    constraint.accept(id);
    logits.assign(logits.size(), 2.0f);
    constraint.mask(logits.data(), int64_t(logits.size()));
    EXPECT_FALSE(std::isfinite(logits['x'])) << "would end inside the string";
    EXPECT_TRUE(std::isfinite(logits['y']));
  }
  constraint.accept('"');
  logits.assign(logits.size(), 2.0f);
  constraint.mask(logits.data(), int64_t(logits.size()));
  EXPECT_TRUE(std::isfinite(logits['x']) && std::isfinite(logits[size_t(testEnd())]));
  EXPECT_FALSE(std::isfinite(logits['y']));
}

int32_t idOf(const std::string &token) {
  auto tokens = testTokens();
  return int32_t(std::find(tokens.rbegin(), tokens.rend(), token).base() - tokens.begin()) - 1;
}

TEST(Guide, ReasoningIsFreeAndTheAnswerIsNot) {
  auto guide = guideOf(R"({"type": "object"})");
  auto maskOf = [&](GuidedConstraint &c) {
    std::vector<float> logits(size_t(testVocabulary()->size()), 0.0f);
    c.mask(logits.data(), int64_t(logits.size()));
    return logits;
  };
  GuidedConstraint constraint(guide, {testEnd()}, true);
  auto logits = maskOf(constraint);
  EXPECT_FALSE(std::isfinite(logits[size_t(testEnd())])) << "no answer yet";
  EXPECT_TRUE(std::isfinite(logits['x']) && std::isfinite(logits[size_t(idOf(">x"))]));
  constraint.accept('x');
  constraint.accept(idOf("</thi"));
  constraint.accept('n');
  constraint.accept('k');
  logits = maskOf(constraint);
  EXPECT_TRUE(std::isfinite(logits[size_t(idOf(">{\""))])) << "ends the reasoning and begins an object";
  EXPECT_FALSE(std::isfinite(logits[size_t(idOf(">x"))]));
  constraint.accept(idOf(">{\""));
  logits = maskOf(constraint);
  EXPECT_TRUE(std::isfinite(logits['x']));
  EXPECT_FALSE(std::isfinite(logits['\n']));
  constraint.accept(idOf("\":"));
  constraint.accept('1');
  constraint.accept('}');
  EXPECT_TRUE(constraint.complete());
  logits = maskOf(constraint);
  for (int32_t id = 0; id < int32_t(logits.size()); ++id)
    EXPECT_EQ(std::isfinite(logits[size_t(id)]), id == testEnd()) << id;
}

TEST(Guide, SurvivesAFreshStartOfItsTables) {
  Result<Grammar> grammar = compileSchema(R"({"type": "array", "items": {"$ref": "#"}})");
  ASSERT_TRUE(bool(grammar));
  Matcher a(*grammar), b(*grammar);
  std::mt19937 random(6);
  for (int round = 0; round < 200; ++round) {
    SetId x = a.start(), y = b.start();
    for (int n = 0; n < 30; ++n) {
      char c = "[], \n"[random() % 5];
      SetId next = a.step(x, uint8_t(c));
      if (!next)
        continue;
      x = next;
      y = b.step(y, uint8_t(c));
      ASSERT_NE(y, 0);
      Matcher fresh(*grammar);
      SetId z = fresh.adopt(a, x);
      EXPECT_EQ(fresh.complete(z), b.complete(y));
      for (char d : std::string("[], \n1"))
        EXPECT_EQ(fresh.step(z, uint8_t(d)) != 0, b.step(y, uint8_t(d)) != 0);
    }
  }
}

TEST(Guide, GuidesAreMadeOnce) {
  Guides guides(testVocabulary(), 2);
  auto a = guides.schema(R"({"type": "null"})");
  ASSERT_TRUE(bool(a));
  EXPECT_EQ(*guides.schema(R"({"type": "null"})"), *a);
  ASSERT_TRUE(bool(guides.jsonObject()));
  EXPECT_EQ(*guides.jsonObject(), *guides.jsonObject());
  ASSERT_TRUE(bool(guides.schema("true")));
  EXPECT_NE(*guides.schema(R"({"type": "null"})"), *a) << "the one used longest ago went";
  EXPECT_FALSE(bool(guides.schema("")));
}

TEST(Vocabulary, NeedsAllBytes) {
  auto tokens = testTokens();
  tokens['{'] = "x";
  auto v = Vocabulary::create(tokens);
  ASSERT_FALSE(bool(v));
  EXPECT_EQ(v.error().message, "guided output needs a token for each byte of JSON text: expected one for byte 123, got none in the vocabulary");
}

/// A vocabulary of the size of DeepSeek's: syllables with and without blanks, quotes, brackets and line ends.
std::shared_ptr<const Vocabulary> largeVocabulary() {
  std::vector<std::string> tokens = testTokens();
  std::mt19937 random(8);
  const char *ends[] = {"\"", "\",", "\":", ")", "\n", "\n\n", "{", "}", "\\", ".", "(\"", "\xE4"};
  while (tokens.size() < 129'280) {
    std::string token = random() % 2 ? " " : "";
    for (int n = 1 + int(random() % 8); n > 0; --n)
      token += random() % 12 ? std::string(1, char('a' + random() % 26)) : std::string("中");
    if (random() % 8 == 0)
      token += ends[random() % 12];
    tokens.push_back(token);
  }
  return *Vocabulary::create(std::move(tokens));
}

TEST(Guide, MasksOfALargeVocabularyAreQuick) {
  auto vocabulary = largeVocabulary();
  Result<Grammar> grammar = compileSchema(
      R"({"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string", "maxLength": 50}}, "n": {"type": "integer"}}, "required": ["name", "tags", "n"]})");
  ASSERT_TRUE(bool(grammar));
  auto guide = std::make_shared<Guide>(std::move(*grammar), vocabulary);
  std::vector<float> logits(129'280);
  double sum = 0, worst = 0;
  int count = 0;
  for (int repeat = 0; repeat < 2; ++repeat) { // the second finds its masks made
    GuidedConstraint constraint(guide, {testEnd()});
    for (char c : std::string(R"({"name": "Ada Lovelace", "tags": ["mathematics", "engines"], "n": 1815})")) {
      auto start = std::chrono::steady_clock::now();
      constraint.mask(logits.data(), int64_t(logits.size()));
      double ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
      sum += ms;
      worst = std::max(worst, ms);
      ++count;
      constraint.accept(int32_t(uint8_t(c)));
    }
    EXPECT_TRUE(constraint.complete());
    std::printf("run %d: mean %.3f ms, worst %.3f ms so far\n", repeat, sum / count, worst);
  }
  // Measured 0.1 ms; the bound is for a slow machine that is busy.
  EXPECT_LT(sum / count, 10);
}

} // namespace
