// Shape lists: sweeps, rows and sequences, and that every list of the repository reads.
#include "tools/dsv3-bench/Floor.h"
#include "tools/dsv3-bench/ShapeList.h"

#include <filesystem>
#include <gtest/gtest.h>

using namespace dsv3;
using namespace dsv3::bench;

static std::string errorOf(const Json &entry) {
  Result<std::vector<ShapeEntry>> list = parseShapeList(Json::array({entry}), "list");
  return list ? "" : list.error().message;
}

TEST(ShapeListTest, SweepMultipliesAndFillsAnchors) {
  Json entry = {{"name", "q"}, {"op", "gemm"}, {"n", 8}, {"sweep", {{"m", {1, 300}}, {"w", {"bf16", "fp8"}}}}, {"anchor", "D|N{n} M{m}|{w}"}};
  Result<std::vector<ShapeEntry>> list = parseShapeList(Json::array({entry}), "list");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->size(), 4u);
  EXPECT_EQ((*list)[0].name, "q.m1.wbf16");
  EXPECT_EQ((*list)[3].json["anchor"], "D|N8 M300|fp8");
  EXPECT_EQ((*list)[0].phase, "decode");
  EXPECT_EQ((*list)[3].phase, "prefill");
  EXPECT_EQ((*list)[3].tokens, 300);
}

TEST(ShapeListTest, SequencesOfDecodeAndPrefill) {
  Result<ShapeEntry> decode = parseShape({{"op", "attn_decode"}, {"m", 4}, {"batch", 3}, {"ctx", {1, 64, 130}}}, "d");
  ASSERT_TRUE(decode) << decode.error().message;
  EXPECT_EQ(decode->rows, 3);
  EXPECT_EQ(decode->tokens, 4);
  EXPECT_EQ(decode->seqs, 4);
  EXPECT_EQ(decode->sequences[2].past, 129);
  EXPECT_EQ(decode->longest(), 130);
  Result<ShapeEntry> prefill = parseShape({{"op", "attn_prefill"}, {"lens", {7, 2}}, {"past", {0, 64}}}, "p");
  ASSERT_TRUE(prefill) << prefill.error().message;
  EXPECT_EQ(prefill->tokens, 9);
  EXPECT_EQ(prefill->seqs, 2);
  EXPECT_EQ(prefill->longest(), 66);
}

TEST(ShapeListTest, RefusesWithTheKey) {
  EXPECT_NE(errorOf({{"m", 1}}).find("op is missing"), std::string::npos);
  EXPECT_NE(errorOf({{"op", "norm"}, {"m", 4}, {"rows", 5}}).find("expected at most 4 rows in 1 sequences, got 5 in 1"), std::string::npos);
  EXPECT_NE(errorOf({{"op", "norm"}, {"m", 4}, {"sweep", {{"d", 7}}}}).find("sweep.d: expected a list, got 7"), std::string::npos);
  EXPECT_NE(errorOf({{"op", "norm"}, {"m", 4}, {"anchor", "F|{x}|"}}).find("to name a key of the entry"), std::string::npos);
  EXPECT_NE(errorOf({{"op", "norm"}, {"m", 4}, {"phase", "score"}}).find("expected decode or prefill, got 'score'"), std::string::npos);
  EXPECT_NE(errorOf({{"op", "attn_decode"}, {"batch", 2}, {"ctx", {1, 2, 3}}}).find("ctx: expected 2 numbers, got 3"), std::string::npos);
  EXPECT_NE(errorOf({{"op", "attn_decode"}, {"batch", 1}, {"ctx", 0}}).find("sequences of 1 token or more"), std::string::npos);
  Json twice = Json::array({{{"op", "norm"}, {"m", 4}}, {{"op", "norm"}, {"m", 5}}});
  Result<std::vector<ShapeEntry>> list = parseShapeList(twice, "list");
  ASSERT_FALSE(list);
  EXPECT_NE(list.error().message.find("got 'norm' twice"), std::string::npos);
}

/// A typing error in an anchor would otherwise show on the GPU only.
TEST(ShapeListTest, ListsOfTheRepositoryReadAndNameAnchors) {
  std::string root = DSV3_SOURCE_DIR;
  Result<Anchors> anchors = Anchors::read(root + "/bench/anchors/h200.csv");
  ASSERT_TRUE(anchors) << anchors.error().message;
  int64_t lists = 0, named = 0;
  for (const auto &file : std::filesystem::directory_iterator(root + "/bench/gpu")) {
    if (file.path().extension() != ".json")
      continue;
    Result<Json> json = parseJsonFile(file.path());
    ASSERT_TRUE(json) << json.error().message;
    Result<std::vector<ShapeEntry>> list = parseShapeList(*json, file.path().filename());
    ASSERT_TRUE(list) << list.error().message;
    ++lists;
    for (const ShapeEntry &e : *list)
      if (e.json.contains("anchor")) {
        ++named;
        EXPECT_TRUE(anchors->find(e.json["anchor"])) << e.name << ": " << e.json["anchor"];
      }
  }
  EXPECT_EQ(lists, 17); // buckets dense dense-fp8 dense-int4 dense-int8 decode decode-fp8 experts experts-fp8 experts-int4 experts-int4-fp8 experts-int8 prefill rows sample sanitize small
  EXPECT_GT(named, 250);
}
