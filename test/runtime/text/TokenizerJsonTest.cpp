// Damaged and foreign tokenizer.json files: each is refused by name.
#include "TestData.h"

#include <functional>

using namespace dsv3;
using namespace dsv3::text;
using Json = nlohmann::json;

namespace {

struct BadFile {
  const char *name;
  std::function<void(Json &)> damage;
  ExitCode code;
  std::vector<const char *> words; ///< all must be in the message
};

constexpr ExitCode kBad = ExitCode::BadCheckpoint, kNo = ExitCode::Unsupported;

const Json &exampleJson() {
  static const Json json = readJson(exampleFile("tokenizer.json"));
  return json;
}

std::vector<BadFile> badFiles() {
  auto set = [](const std::string &pointer, Json value) {
    return [=](Json &j) { j[Json::json_pointer(pointer)] = value; };
  };
  auto step = [&](int i, Json value) {
    return set("/pre_tokenizer/pretokenizers/" + std::to_string(i), value);
  };
  Json bert = {{"type", "BertNormalizer"}};
  return {
      {"model", set("/model/type", "WordPiece"), kNo, {"model", "expected BPE", "WordPiece"}},
      {"no model", [](Json &j) { j.erase("model"); }, kBad, {"model", "null"}},
      {"unk", set("/model/unk_token", "<unk>"), kNo, {"model.unk_token", "<unk>"}},
      {"dropout", set("/model/dropout", 0.1), kNo, {"model.dropout", "0.1"}},
      {"fallback", set("/model/byte_fallback", true), kNo, {"model.byte_fallback", "true"}},
      {"ignore", set("/model/ignore_merges", true), kNo, {"model.ignore_merges"}},
      {"affix", set("/model/continuing_subword_prefix", "##"), kNo, {"continuing_subword_prefix"}},
      {"normalizer", set("/normalizer", bert), kNo, {"normalizer", "BertNormalizer"}},
      {"sequence", set("/normalizer/normalizers", Json::array({bert})), kNo, {"normalizer"}},
      {"truncation", set("/truncation", {{"max_length", 5}}), kNo, {"truncation"}},
      {"padding", set("/padding", {{"pad_id", 2}}), kNo, {"padding"}},
      {"decoder", set("/decoder/type", "WordPiece"), kNo, {"decoder", "ByteLevel", "WordPiece"}},
      {"no decoder", set("/decoder", nullptr), kNo, {"decoder", "ByteLevel"}},
      {"post", set("/post_processor/type", "TemplateProcessing"), kNo, {"TemplateProcessing"}},
      {"pre", set("/pre_tokenizer", {{"type", "Whitespace"}}), kNo, {"pre_tokenizer", "Whitespace"}},
      {"digits", step(0, {{"type", "Digits"}}), kNo, {"pre_tokenizer step 0", "Split", "Digits"}},
      {"behavior", set("/pre_tokenizer/pretokenizers/1/behavior", "Removed"), kNo,
       {"pre_tokenizer step 1", "Isolated", "Removed"}},
      {"invert", set("/pre_tokenizer/pretokenizers/1/invert", true), kNo, {"step 1", "invert"}},
      {"string pattern", set("/pre_tokenizer/pretokenizers/0/pattern", {{"String", "a"}}), kNo,
       {"step 0", "Regex", "String"}},
      {"regex", set("/pre_tokenizer/pretokenizers/2/pattern/Regex", "(a"), kBad,
       {"regex 2", "does not compile"}},
      {"prefix space", set("/pre_tokenizer/pretokenizers/3/add_prefix_space", true), kNo,
       {"step 3", "add_prefix_space"}},
      {"use_regex", [](Json &j) { j["pre_tokenizer"]["pretokenizers"][3].erase("use_regex"); }, kNo,
       {"step 3", "use_regex", "false"}},
      {"vocab", set("/model/vocab", "x"), kBad, {"model.vocab", "object"}},
      {"id type", set("/model/vocab/!", "x"), kBad, {"model.vocab", "\"!\"", "id"}},
      {"id range", set("/model/vocab/!", 1 << 24), kBad, {"16777216"}},
      {"id huge", set("/model/vocab/!", 18446744073709551615ull), kBad, {"id in 0.."}},
      {"id double", set("/model/vocab/!", 4), kBad, {"one token for id 4"}},
      {"byte", [](Json &j) { j["model"]["vocab"].erase("!"); j["model"]["merges"] = Json::array(); },
       kBad, {"byte 33"}},
      {"no merges", [](Json &j) { j["model"].erase("merges"); }, kBad, {"model.merges", "array"}},
      {"merge shape", set("/model/merges/7", Json::array({"a"})), kBad, {"model.merges[7]"}},
      {"merge text", set("/model/merges/7", "a b c"), kBad, {"model.merges[7]", "one space"}},
      {"merge token", set("/model/merges/7", Json::array({"qqqq", "a"})), kBad,
       {"model.merges[7]", "\"qqqq\""}},
      {"added", set("/added_tokens", 3), kBad, {"added_tokens", "array"}},
      {"added content", set("/added_tokens/2/content", ""), kBad, {"added_tokens[2]", "content"}},
      {"added id", set("/added_tokens/2/id", -1), kBad, {"added_tokens[2]", "-1"}},
      {"added id taken", set("/added_tokens/8/id", 3), kBad, {"added_tokens[8]", "<|EOT|>", "3"}},
      {"added moved", set("/added_tokens/2/id", 3560), kBad, {"added_tokens[2]", "expected id 2"}},
      {"lstrip", set("/added_tokens/3/lstrip", true), kNo, {"added_tokens[3]", "lstrip"}},
      {"merged added", [](Json &j) {
         j["added_tokens"].push_back({{"id", j["model"]["vocab"]["Ġt"]}, {"content", "Ġt"}});
       }, kNo, {"model.merges[0]", "added token"}},
  };
}

TEST(TokenizerJson, RefusesBadFilesByName) {
  for (const BadFile &file : badFiles()) {
    Json json = exampleJson();
    file.damage(json);
    Result<Tokenizer> t = Tokenizer::loadFromMemory(json.dump(), "tokenizer.json");
    ASSERT_FALSE(t) << file.name;
    EXPECT_EQ(t.error().code, file.code) << file.name << ": " << t.error().message;
    for (const char *word : file.words)
      EXPECT_NE(t.error().message.find(word), std::string::npos)
          << file.name << ": " << t.error().message;
    EXPECT_EQ(t.error().message.rfind("tokenizer.json: ", 0), 0u) << t.error().message;
    EXPECT_EQ(t.error().message.find('\n'), std::string::npos) << t.error().message;
  }
}

TEST(TokenizerJson, RefusesEveryTruncationAndJunk) {
  std::string whole = exampleJson().dump();
  for (size_t size = 0; size < whole.size(); size += 9973)
    EXPECT_FALSE(Tokenizer::loadFromMemory(whole.substr(0, size), "tokenizer.json")) << size;
  for (const char *junk : {"", "[]", "3", "null", "{}", "{\"model\":[]}", "\xFF\xFE", "{\"a\":1}}"})
    EXPECT_FALSE(Tokenizer::loadFromMemory(junk, "tokenizer.json")) << junk;
}

TEST(TokenizerJson, NamesAFileItCannotRead) {
  Result<Tokenizer> missing = Tokenizer::load("/nonexistent/tokenizer.json");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ExitCode::BadCheckpoint);
  EXPECT_EQ(missing.error().message, "/nonexistent/tokenizer.json: cannot read the file");
  EXPECT_FALSE(Tokenizer::load(DSV3_SOURCE_DIR)); // a folder
}

TEST(TokenizerJson, SaysWhatATypeIsInOneLine) {
  Json json = exampleJson();
  json["decoder"]["type"] = "Byte\nLevel";
  Result<Tokenizer> t = Tokenizer::loadFromMemory(json.dump(), "tokenizer.json");
  ASSERT_FALSE(t);
  EXPECT_EQ(t.error().message, "tokenizer.json: unsupported decoder: expected ByteLevel, got Byte?Level");
}

TEST(TokenizerJson, ReadsMergesInTheOlderSpelling) {
  Json json = exampleJson();
  for (Json &merge : json["model"]["merges"])
    merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
  json["normalizer"] = nullptr;
  json["post_processor"] = nullptr;
  Result<Tokenizer> t = Tokenizer::loadFromMemory(json.dump(), "tokenizer.json");
  ASSERT_TRUE(t) << t.error().message;
  for (const auto &golden : goldens()["strings"])
    EXPECT_EQ(t->encode(golden["text"].get<std::string>(), SpecialTokens::Parse),
              golden["ids"].get<std::vector<int32_t>>());
}

TEST(TokenizerJson, MatchesAddedTokensLongestFirstAndVerbatimOnesBeforeNormalizedOnes) {
  Json json = exampleJson();
  auto add = [&](int id, const char *content, bool normalized) {
    json["added_tokens"].push_back({{"id", id}, {"content", content}, {"normalized", normalized}});
  };
  add(3600, "qq", false);
  add(3601, "qqq", false);
  add(3602, "zqq", true);
  Result<Tokenizer> t = Tokenizer::loadFromMemory(json.dump(), "tokenizer.json");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->vocabSize(), 3603);
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(t->encode("qqqqq", SpecialTokens::Parse), (Ids{3601, 3600}));
  EXPECT_EQ(t->encode("zqq", SpecialTokens::Parse), (Ids{idOf("z"), 3600}));
  EXPECT_EQ(t->encode("zqqzqq", SpecialTokens::AsText).front(), idOf("z"));
  EXPECT_EQ(t->idToBytes(3560), "");
}

} // namespace
