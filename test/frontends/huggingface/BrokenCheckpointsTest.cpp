// Every variant of test/e2e/break_checkpoint.py, read without a compiler behind it.
#include "TestCheckpoint.h"

#include "frontends/huggingface/Model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

using namespace dsv3;
using dsv3::test::TempDir;
namespace fs = std::filesystem;

static std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), ::tolower);
  return text;
}

static void checkVariant(const std::string &dir) {
  SCOPED_TRACE(dir);
  auto expect = parseJsonFile(dir + "/expect.json");
  ASSERT_TRUE(bool(expect)) << expect.error().message;
  auto model = hf::readModel(dir);
  int code = model ? 0 : int(model.error().code);
  std::string message = model ? "" : model.error().message;
  EXPECT_EQ(code, (*expect)["exit"].get<int>()) << message;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  // The folder's own name must not supply the words.
  std::string text = message;
  for (size_t at; (at = text.find(dir)) != text.npos;)
    text.erase(at, dir.size());
  for (const Json &word : (*expect)["mentions"])
    EXPECT_THAT(lower(text), testing::HasSubstr(lower(word.get<std::string>())));
  if (std::getenv("DSV3_SHOW_ERRORS"))
    std::printf("%s\n", text.c_str());
}

TEST(BrokenCheckpoints, AllVariantsAreToldApart) {
  TempDir out;
  const std::string source = DSV3_SOURCE_DIR;
  std::string command = "python3 '" + source + "/test/e2e/break_checkpoint.py' '" + source +
                        "/examples/dsv3-tiny' '" + out.str() + "' 2>/dev/null";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  int variants = 0;
  for (const auto &entry : fs::directory_iterator(out.str())) {
    checkVariant(entry.path().string());
    ++variants;
  }
  EXPECT_EQ(variants, 32);
}

TEST(BrokenCheckpoints, TheGoodOneIsRead) {
  auto model = hf::readModel(std::string(DSV3_SOURCE_DIR) + "/examples/dsv3-tiny");
  ASSERT_TRUE(bool(model)) << model.error().message;
  EXPECT_EQ(model->tensors.mtpModules, 1);
  EXPECT_TRUE(model->tensors.notes.empty());
  int ignored = 0;
  for (const hf::LedgerRow &row : model->tensors.ledger.rows())
    if (row.use == hf::LedgerRow::Use::Ignored) {
      EXPECT_EQ(row.reason, hf::Ignored::CopyOf) << row.tensor->name();
      ++ignored;
    }
  EXPECT_EQ(ignored, 2) << "the MTP module's embedding and head";
}
