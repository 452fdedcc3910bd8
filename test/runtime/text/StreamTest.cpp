#include "TestData.h"

#include "runtime/text/StopMatcher.h"
#include "runtime/text/StreamDecoder.h"
#include "runtime/text/Utf8.h"

using namespace dsv3;
using namespace dsv3::text;

namespace {

bool isValidUtf8(const std::string &text) { return toValidUtf8(text) == text; }

TEST(StreamDecoder, GivesTheSameTextAsDecodingAtOnce) {
  for (const auto &golden : goldens()["strings"]) {
    StreamDecoder stream(exampleTokenizer());
    std::string text;
    for (int32_t id : golden["ids"].get<std::vector<int32_t>>()) {
      std::string part = stream.push(id);
      EXPECT_TRUE(isValidUtf8(part));
      text += part;
    }
    text += stream.flush();
    EXPECT_EQ(text, golden["decoded"].get<std::string>());
  }
}

/// The id of a single byte: its character in the byte-level alphabet is a token.
int32_t byteId(unsigned char byte) {
  for (int32_t id = 0; id < exampleTokenizer().vocabSize(); ++id)
    if (exampleTokenizer().idToBytes(id) == std::string(1, static_cast<char>(byte)))
      return id;
  ADD_FAILURE() << "no token for byte " << int(byte);
  return -1;
}

TEST(StreamDecoder, HoldsUnfinishedCharactersAndReplacesBrokenOnes) {
  StreamDecoder stream(exampleTokenizer());
  EXPECT_EQ(stream.push(byteId(0xF0)), "");
  EXPECT_EQ(stream.push(byteId(0x9F)), "");
  EXPECT_EQ(stream.push(byteId(0x98)), "");
  EXPECT_EQ(stream.push(byteId(0x80)), "😀");
  EXPECT_EQ(stream.push(byteId(0xE2)), "");
  EXPECT_EQ(stream.push(byteId(0x82)), "");
  EXPECT_EQ(stream.push(byteId('A')), "\uFFFDA"); // the euro sign never came
  EXPECT_EQ(stream.push(byteId(0x80)), "\uFFFD"); // a stray continuation byte
  EXPECT_EQ(stream.push(byteId(0xC3)), "");
  EXPECT_EQ(stream.flush(), "\uFFFD");
  EXPECT_EQ(stream.flush(), "");
}

TEST(StreamDecoder, EqualsDecodeOnRandomIds) {
  uint32_t state = 12345;
  std::vector<int32_t> ids;
  for (int i = 0; i < 3000; ++i) {
    state = state * 1664525u + 1013904223u;
    // Mostly the single bytes at the start of the vocabulary: broken UTF-8 in quantity.
    ids.push_back(static_cast<int32_t>(state >> 8) % (i % 3 ? 260 : 3590));
  }
  for (bool skip : {false, true}) {
    StreamDecoder stream(exampleTokenizer(), skip);
    std::string text;
    for (int32_t id : ids) {
      std::string part = stream.push(id);
      ASSERT_TRUE(isValidUtf8(part));
      text += part;
    }
    text += stream.flush();
    EXPECT_EQ(text, exampleTokenizer().decode(ids, skip));
  }
}

StopMatcher matcherFor(const std::vector<std::string> &stops) {
  Result<StopMatcher> matcher = StopMatcher::create(stops);
  if (!matcher)
    throw std::runtime_error(matcher.error().message);
  return *matcher;
}

TEST(StopMatcher, CutsAcrossPieces) {
  StopMatcher m = matcherFor({"END", "\n\n"});
  EXPECT_EQ(m.push("one E"), "one ");
  EXPECT_EQ(m.push("N"), "");
  EXPECT_EQ(m.push("E"), "EN"); // not END after all, but a new E begins
  EXPECT_FALSE(m.stopped());
  EXPECT_EQ(m.push("ND tail"), "");
  EXPECT_TRUE(m.stopped());
  EXPECT_EQ(m.matched(), 0u);
  EXPECT_EQ(m.push("more"), "");
  EXPECT_EQ(m.flush(), "");
}

TEST(StopMatcher, ReturnsTheHeldTailWhenTheStreamEnds) {
  StopMatcher m = matcherFor({"stop"});
  EXPECT_EQ(m.push("sto sto"), "sto ");
  EXPECT_EQ(m.flush(), "sto");
  EXPECT_FALSE(m.matched());
}

TEST(StopMatcher, TakesTheFirstToEndThenTheLongest) {
  StopMatcher first = matcherFor({"abcd", "bc"});
  EXPECT_EQ(first.push("xabcd"), "xa");
  EXPECT_EQ(first.matched(), 1u);
  StopMatcher longest = matcherFor({"c", "abc", "bc"});
  EXPECT_EQ(longest.push("xabc"), "x");
  EXPECT_EQ(longest.matched(), 1u);
}

TEST(StopMatcher, DoesNotDependOnHowTheTextIsCut) {
  std::vector<std::string> stops = {"aab", "aaaa", "é!", "èé"};
  for (const std::string text : {"aaab tail", "xaabaaaa", "baaaaa", "éè!é!", "èèéx", "aa", "é"}) {
    StopMatcher whole = matcherFor(stops);
    std::string expected = whole.push(text) + whole.flush();
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      if (cut < text.size() && (text[cut] & 0xC0) == 0x80)
        continue;
      StopMatcher m = matcherFor(stops);
      std::string a = m.push(text.substr(0, cut)), b = m.push(text.substr(cut)), c = m.flush();
      EXPECT_EQ(a + b + c, expected) << text << " at " << cut;
      EXPECT_EQ(m.matched(), whole.matched());
      EXPECT_TRUE(isValidUtf8(a) && isValidUtf8(b) && isValidUtf8(c));
    }
  }
}

TEST(StopMatcher, RefusesAnEmptyStringAndAcceptsNone) {
  Result<StopMatcher> empty = StopMatcher::create({"a", ""});
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ExitCode::Usage);
  StopMatcher none = matcherFor({});
  EXPECT_EQ(none.push("text"), "text");
  EXPECT_FALSE(none.stopped());
}

TEST(StopMatcher, WorksOnStreamedTokens) {
  std::string text = "Tom has 5 apples. #### 5 and then more";
  StreamDecoder stream(exampleTokenizer());
  StopMatcher m = matcherFor({" #### 5"});
  std::string shown;
  for (int32_t id : exampleTokenizer().encode(text, SpecialTokens::AsText))
    shown += m.push(stream.push(id));
  EXPECT_TRUE(m.stopped());
  EXPECT_EQ(shown, "Tom has 5 apples.");
}

TEST(StopMatcher, WhatIsPassedStopsNothing) {
  auto matcher = StopMatcher::create({"abab", "xy"});
  ASSERT_TRUE(bool(matcher));
  std::string shown = matcher->pass("xyabab");
  EXPECT_FALSE(matcher->stopped());
  shown += matcher->push("a"); // the second "ab" may begin another
  EXPECT_EQ(shown, "xyab");
  shown += matcher->push("bc");
  EXPECT_TRUE(matcher->stopped()) << "it ends behind what was passed";
  EXPECT_EQ(shown, "xyab");
  EXPECT_EQ(matcher->matchedText(), "abab");
}

} // namespace
