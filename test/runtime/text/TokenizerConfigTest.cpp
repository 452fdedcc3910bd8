#include "TestData.h"

#include "runtime/text/TokenizerConfig.h"

#include <filesystem>
#include <fstream>

#include <unistd.h>

using namespace dsv3;
using namespace dsv3::text;

namespace {

/// A folder of its own for each test, gone afterwards.
class TokenizerConfigFolder : public testing::Test {
protected:
  void SetUp() override {
    const char *test = testing::UnitTest::GetInstance()->current_test_info()->name();
    folder = std::filesystem::path(testing::TempDir()) /
             (std::string("dsv3_text_") + test + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
  }
  void TearDown() override { std::filesystem::remove_all(folder); }
  void write(const char *name, const std::string &content) {
    std::ofstream(folder / name, std::ios::binary) << content;
  }
  std::filesystem::path folder;
};

TEST(TokenizerConfig, ReadsTheExample) {
  Result<TokenizerConfig> config = TokenizerConfig::load(exampleFile(""));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->addBosToken);
  EXPECT_FALSE(config->addEosToken);
  EXPECT_EQ(config->bosToken(), "<｜begin▁of▁sentence｜>");
  EXPECT_EQ(config->eosToken(), "<｜end▁of▁sentence｜>");
  EXPECT_FALSE(config->token("unk_token"));
  EXPECT_EQ(exampleTokenizer().tokenToId(*config->bosToken()), 0);
  ASSERT_TRUE(config->chatTemplate);
}

TEST(TokenizerConfig, ReadsPlainTokensAndNamedTemplates) {
  Result<TokenizerConfig> config = TokenizerConfig::loadFromMemory(
      R"({"bos_token":"<s>","add_bos_token":null,"chat_template":[
          {"name":"tool_use","template":"T"},{"name":"default","template":"D"}]})", "c");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->addBosToken);
  EXPECT_EQ(config->bosToken(), "<s>");
  EXPECT_FALSE(config->eosToken());
  EXPECT_EQ(config->chatTemplate, "D");
}

TEST(TokenizerConfig, RefusesWrongTypesByName) {
  const std::pair<const char *, const char *> cases[] = {
      {"{", "does not parse"},
      {"[]", "expected a JSON object, got array"},
      {R"({"add_bos_token":1})", "add_bos_token: expected true or false, got number"},
      {R"({"bos_token":3})", "bos_token: expected a string"},
      {R"({"eos_token":{"content":null}})", "eos_token: expected a string"},
      {R"({"eos_token":{}})", "eos_token: expected a string"},
      {R"({"chat_template":3})", "chat_template: expected a string or a list"},
      {R"({"chat_template":[{"name":"default"}]})", "chat_template: expected entries"},
      {R"({"chat_template":[3]})", "chat_template: expected entries"},
      {R"({"chat_template":[{"name":"rag","template":"x"}]})", "named 'default'"},
  };
  for (const auto &[json, words] : cases) {
    Result<TokenizerConfig> config =
        TokenizerConfig::loadFromMemory(json, "tokenizer_config.json");
    ASSERT_FALSE(config) << json;
    EXPECT_EQ(config.error().code, ExitCode::BadCheckpoint);
    EXPECT_NE(config.error().message.find(words), std::string::npos) << config.error().message;
    EXPECT_EQ(config.error().message.rfind("tokenizer_config.json: ", 0), 0u);
  }
}

TEST_F(TokenizerConfigFolder, MayBeMissing) {
  Result<TokenizerConfig> config = TokenizerConfig::load(folder.string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_FALSE(config->chatTemplate);
  EXPECT_FALSE(config->addBosToken);
  EXPECT_TRUE(config->specialTokens.empty());
}

TEST_F(TokenizerConfigFolder, PrefersTheTemplateInItsOwnFile) {
  write("tokenizer_config.json", R"({"bos_token":"<s>","chat_template":"old"})");
  write("chat_template.jinja", "new\n");
  Result<TokenizerConfig> config = TokenizerConfig::load(folder.string());
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->chatTemplate, "new\n");
  EXPECT_EQ(config->bosToken(), "<s>");
}

TEST_F(TokenizerConfigFolder, NamesTheDamagedFile) {
  write("tokenizer_config.json", "");
  Result<TokenizerConfig> config = TokenizerConfig::load(folder.string());
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("tokenizer_config.json: expected JSON"),
            std::string::npos);
  std::filesystem::remove(folder / "tokenizer_config.json");
  std::filesystem::create_directory(folder / "chat_template.jinja");
  config = TokenizerConfig::load(folder.string());
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().message.find("chat_template.jinja: cannot read"), std::string::npos);
}

} // namespace
