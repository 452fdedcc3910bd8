#include "TestData.h"

#include "runtime/text/Utf8.h"

#include <chrono>
#include <thread>

using namespace dsv3::text;

namespace {

using Ids = std::vector<int32_t>;

TEST(Tokenizer, EncodesAndDecodesEveryGoldenString) {
  const auto &strings = goldens()["strings"];
  ASSERT_EQ(strings.size(), 299u);
  for (const auto &golden : strings) {
    std::string text = golden["text"];
    Ids ids = golden["ids"];
    EXPECT_EQ(exampleTokenizer().encode(text, SpecialTokens::Parse), ids) << text;
    EXPECT_EQ(exampleTokenizer().decode(ids), golden["decoded"].get<std::string>()) << text;
  }
}

TEST(Tokenizer, ParsesSpecialTokensOnlyWhenAsked) {
  const Tokenizer &t = exampleTokenizer();
  std::string text = "a<｜User｜>b<|EOT|><｜end▁of▁sentence｜>";
  Ids parsed = t.encode(text, SpecialTokens::Parse);
  EXPECT_EQ(parsed, (Ids{idOf("a"), idOf("<｜User｜>"), idOf("b"), idOf("<|EOT|>"),
                         idOf("<｜end▁of▁sentence｜>")}));
  Ids plain = t.encode(text, SpecialTokens::AsText);
  for (int32_t id : plain) {
    EXPECT_FALSE(t.isSpecial(id));
    EXPECT_LT(id, 3550) << "an added token came out of plain text";
  }
  EXPECT_EQ(t.decode(plain), text);
}

TEST(Tokenizer, FindsSpecialTokensInTrustedSegmentsOnly) {
  const Tokenizer &t = exampleTokenizer();
  int32_t user = idOf("<｜User｜>");
  Ids ids = t.encode({{"<｜User｜>", true}, {"<｜User｜>", false}, {"<｜User｜>", true}});
  EXPECT_EQ(ids.front(), user);
  EXPECT_EQ(ids.back(), user);
  EXPECT_EQ(std::count(ids.begin(), ids.end(), user), 2);
  EXPECT_EQ(t.decode(ids), "<｜User｜><｜User｜><｜User｜>");
  // A name completed by untrusted text is no name, wherever the seam is.
  std::string name = "<｜User｜>";
  for (size_t cut = 1; cut < name.size(); ++cut) {
    if ((name[cut] & 0xC0) == 0x80)
      continue;
    for (bool firstTrusted : {true, false}) {
      Ids split = t.encode({{name.substr(0, cut), firstTrusted}, {name.substr(cut), !firstTrusted}});
      EXPECT_EQ(std::count(split.begin(), split.end(), user), 0) << cut;
      EXPECT_EQ(t.decode(split), name);
    }
  }
  // Trusted neighbours are one text.
  EXPECT_EQ(t.encode({{"<｜Us", true}, {"er｜>", true}}), Ids{user});
}

TEST(Tokenizer, SeamsBetweenSegmentsDoNotCutWords) {
  const Tokenizer &t = exampleTokenizer();
  for (const auto &golden : goldens()["strings"]) {
    std::string text = golden["text"];
    size_t middle = text.size() / 2;
    while (middle < text.size() && (text[middle] & 0xC0) == 0x80)
      ++middle;
    if (text.find('<') != std::string::npos)
      continue;
    EXPECT_EQ(t.encode({{text.substr(0, middle), true}, {text.substr(middle), false}}),
              golden["ids"].get<Ids>())
        << text;
  }
}

TEST(Tokenizer, DecodesUnknownIdsToNothing) {
  const Tokenizer &t = exampleTokenizer();
  EXPECT_EQ(t.vocabSize(), 3556);
  EXPECT_EQ(t.decode({idOf("a"), 3556, 3583, -1, 1 << 30, idOf("b")}), "ab");
  EXPECT_EQ(t.idToBytes(3556), "");
  EXPECT_FALSE(t.isSpecial(-1));
  EXPECT_FALSE(t.isSpecial(1 << 30));
  EXPECT_FALSE(t.tokenToId("no such token"));
}

TEST(Tokenizer, SkipsSpecialTokensOnRequest) {
  const Tokenizer &t = exampleTokenizer();
  Ids ids = {0, idOf("a"), idOf("<｜User｜>"), 1};
  EXPECT_EQ(t.decode(ids), "<｜begin▁of▁sentence｜>a<｜User｜><｜end▁of▁sentence｜>");
  EXPECT_EQ(t.decode(ids, true), "a<｜User｜>"); // not marked special in tokenizer.json
  EXPECT_TRUE(t.isSpecial(0));
  EXPECT_FALSE(t.isSpecial(idOf("<｜User｜>")));
}

TEST(Tokenizer, ReplacesBrokenUtf8) {
  const Tokenizer &t = exampleTokenizer();
  std::pair<std::string, std::string> cases[] = {
      {"a\xFFz", "a\uFFFDz"},
      {"a\xE2\x82", "a\uFFFD"},                   // truncated: one character
      {"\xC0\x80", "\uFFFD\uFFFD"},               // overlong
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},     // surrogate
      {"\xF4\x90\x80\x80x", "\uFFFD\uFFFD\uFFFD\uFFFDx"}, // above U+10FFFF
      {"\xF0\x9F\x98 ", "\uFFFD "},
      {std::string("a\0b", 3), std::string("a\0b", 3)},
  };
  for (const auto &[broken, fixed] : cases) {
    EXPECT_EQ(toValidUtf8(broken), fixed);
    EXPECT_EQ(t.encode(broken, SpecialTokens::Parse), t.encode(fixed, SpecialTokens::Parse));
    EXPECT_EQ(t.decode(t.encode(broken, SpecialTokens::AsText)), fixed);
  }
  std::string everyByte;
  for (int i = 0; i < 1024; ++i)
    everyByte += static_cast<char>(i * 37 >> (i & 3));
  EXPECT_EQ(t.decode(t.encode(everyByte, SpecialTokens::Parse)), toValidUtf8(everyByte));
}

TEST(Tokenizer, IsFastOnProseAndOnOneLongWord) {
  const Tokenizer &t = exampleTokenizer();
  std::string prose, word(1 << 20, 'a'), blanks(1 << 20, ' '), digits(1 << 20, '7');
  while (prose.size() < 1 << 20)
    prose += "Once upon a time, there was a little fox who had " + std::to_string(prose.size()) +
             " berries.\n";
  for (const std::string &text : {prose, word, blanks, digits}) {
    auto start = std::chrono::steady_clock::now();
    Ids ids = t.encode(text, SpecialTokens::Parse);
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_EQ(t.decode(ids), text);
    // About 0.1 s on an idle core; anything quadratic takes far longer than the limit.
    EXPECT_LT(seconds.count(), 5);
    RecordProperty("seconds", std::to_string(seconds.count()));
  }
}

TEST(Tokenizer, EncodesFromSeveralThreads) {
  const auto &strings = goldens()["strings"];
  std::vector<int> wrong(4, 0);
  std::vector<std::thread> threads;
  for (int n = 0; n < 4; ++n)
    threads.emplace_back([&, n] {
      for (const auto &golden : strings)
        wrong[n] += exampleTokenizer().encode(golden["text"].get<std::string>(),
                                              SpecialTokens::Parse) != golden["ids"].get<Ids>();
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4, 0));
}

} // namespace
