#include "TestCheckpoint.h"

#include "frontends/huggingface/Checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;
using namespace dsv3::test;
using testing::HasSubstr;

namespace {

std::string errorOf(const TempDir &dir) {
  auto checkpoint = hf::Checkpoint::open(dir.str());
  if (checkpoint)
    return "";
  EXPECT_EQ(checkpoint.error().code, ExitCode::BadCheckpoint);
  return checkpoint.error().message;
}

class CheckpointTest : public testing::Test {
protected:
  void SetUp() override {
    shard("a.safetensors", {"x", "y"});
    shard("b.safetensors", {"z"});
  }
  void shard(const std::string &file, const std::vector<std::string> &names) {
    TestCheckpoint c;
    for (const std::string &name : names)
      c.add(name, DType::F32, {2});
    TestCheckpoint::writeShard(dir / file, c.tensors);
  }
  void index(const std::string &map) {
    dir.write("model.safetensors.index.json", R"({"weight_map": )" + map + "}");
  }
  TempDir dir;
};

} // namespace

TEST_F(CheckpointTest, JoinsShardsByTheIndex) {
  index(R"({"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"})");
  auto opened = hf::Checkpoint::open(dir.str());
  ASSERT_TRUE(bool(opened)) << opened.error().message;
  hf::Checkpoint checkpoint = std::move(*opened);
  ASSERT_EQ(checkpoint.tensors().size(), 3u);
  EXPECT_EQ(checkpoint.tensors()[0].name(), "x");
  ASSERT_NE(checkpoint.find("z"), nullptr);
  EXPECT_EQ(checkpoint.fileName(*checkpoint.find("z")), "b.safetensors");
  EXPECT_EQ(checkpoint.find("z")->data().size(), 8u);
  EXPECT_EQ(checkpoint.find("w"), nullptr);
}

TEST_F(CheckpointTest, KeepsUnlistedTensorsMarked) {
  index(R"({"x": "a.safetensors", "z": "b.safetensors"})");
  auto checkpoint = hf::Checkpoint::open(dir.str());
  ASSERT_TRUE(bool(checkpoint));
  EXPECT_TRUE(checkpoint->find("x")->indexed);
  EXPECT_FALSE(checkpoint->find("y")->indexed);
}

TEST_F(CheckpointTest, ASingleFileNeedsNoIndex) {
  EXPECT_THAT(errorOf(dir), HasSubstr("expected model.safetensors.index.json or model.safetensors, got neither"));
  dir.write("pytorch_model.bin", "x");
  EXPECT_THAT(errorOf(dir), HasSubstr("PyTorch files"));
  shard("model.safetensors", {"only"});
  auto checkpoint = hf::Checkpoint::open(dir.str());
  ASSERT_TRUE(bool(checkpoint));
  EXPECT_TRUE(checkpoint->find("only")->indexed);
}

TEST_F(CheckpointTest, RefusesIndexEntriesThatLie) {
  index(R"({"x": "a.safetensors", "w": "b.safetensors"})");
  EXPECT_THAT(errorOf(dir), HasSubstr("tensor w should be in b.safetensors, but no file holds it"));
  index(R"({"x": "b.safetensors", "y": "a.safetensors"})");
  EXPECT_THAT(errorOf(dir), HasSubstr("tensor x should be in b.safetensors, but it is in a.safetensors"));
  index(R"({"x": "c.safetensors"})");
  EXPECT_THAT(errorOf(dir), HasSubstr("c.safetensors: cannot open: No such file"));
}

TEST_F(CheckpointTest, RefusesPathsOutOfTheFolder) {
  for (const char *name : {"../a.safetensors", "/etc/passwd", "sub/a.safetensors", "..", ""}) {
    index(R"({"x": ")" + std::string(name) + R"("})");
    EXPECT_THAT(errorOf(dir), HasSubstr("tensor x: expected a file name in this folder, got \"" +
                                        std::string(name) + "\""));
  }
}

TEST_F(CheckpointTest, RefusesAnIndexOfTheWrongForm) {
  index("[]");
  EXPECT_THAT(errorOf(dir), HasSubstr("weight_map: expected an object, got a list"));
  index("{}");
  EXPECT_THAT(errorOf(dir), HasSubstr("weight_map is empty"));
  index(R"({"x": 1})");
  EXPECT_THAT(errorOf(dir), HasSubstr("tensor x: expected a file name, got 1"));
  index(R"({"x": "a.safetensors", "x": "b.safetensors"})");
  EXPECT_THAT(errorOf(dir), HasSubstr("duplicate key \"x\""));
  dir.write("model.safetensors.index.json", "{}");
  EXPECT_THAT(errorOf(dir), HasSubstr("weight_map is missing"));
}

TEST_F(CheckpointTest, RefusesATensorInTwoFiles) {
  shard("b.safetensors", {"x", "z"});
  index(R"({"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"})");
  EXPECT_THAT(errorOf(dir), HasSubstr("tensor x is in both a.safetensors and b.safetensors"));
}
