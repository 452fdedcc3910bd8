// cases.json there and back, and what is refused.
#include "test/tools/dsv3-bench/Cases.h"

using namespace dsv3;
using namespace dsv3::bench;

static Pack example() {
  Pack pack = packOf(gemmCase({{"m", 4}, {"n", 12}, {"k", 16}}));
  Launch &l = pack.cases[0].launches[0];
  l.grid = {3, 2, 1};
  l.smem = 1024;
  l.cluster = 2;
  l.perProgram = true;
  Param pointer, number, map;
  pointer.kind = Param::Kind::Pointer;
  pointer.buffer = 1;
  pointer.offset = 32;
  number.value = -7;
  map.kind = Param::Kind::Map;
  map.buffer = 0;
  map.map = {DType::BF16, {16, 4}, {32}, {16, 4}, 128};
  l.params = {pointer, number, map};
  return pack;
}

static std::string errorOf(const Json &json) {
  Result<Pack> pack = packFromJson(json, "cases.json");
  return pack ? "" : pack.error().message;
}

static Json changed(const std::function<void(Json &)> &change) {
  Json json = Json::parse(toJson(example()).dump());
  change(json);
  return json;
}

TEST(PackTest, RoundTripKeepsEveryField) {
  Json json = Json::parse(toJson(example()).dump());
  Result<Pack> back = packFromJson(json, "cases.json");
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(Json::parse(toJson(*back).dump()), json);
  const Launch &l = back->cases[0].launches[0];
  EXPECT_EQ(l.grid[1], 2);
  EXPECT_EQ(l.params[1].value, -7);
  EXPECT_EQ(l.params[2].map.strides, std::vector<int64_t>{32});
  EXPECT_TRUE(l.perProgram);
  EXPECT_EQ(back->cases[0].find("w")->parts[0].layout, "(n, k) -> [n/8, k, n%8] pad n:8");
}

TEST(PackTest, RefusesWhatContradictsItself) {
  EXPECT_NE(errorOf(changed([](Json &j) { j["format"] = 9; })).find("expected format 1, got 9"), std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["launches"][0]["params"][0]["pointer"] = 3; })).find("expected a buffer below 3, got 3"),
            std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["launches"][0]["params"][0]["offset"] = 100000; })).find("behind the end of w"),
            std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["launches"][0]["params"][2]["strides"] = Json::array(); })).find("a stride per dim"),
            std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["buffers"][1]["parts"][0]["bytes"] = 100000; })).find("ends behind the buffer's"),
            std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["launches"][0]["kernel"] = "other"; })).find("which is not in the pack"), std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["launches"] = Json::array(); })).find("one launch or more"), std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["buffers"][0]["role"] = "guest"; })).find("expected a role"), std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["cases"][0]["buffers"][0]["dtype"] = "F7"; })).find("expected an element type"), std::string::npos);
  EXPECT_NE(errorOf(changed([](Json &j) { j["fields"] = 3; })).find("fields: expected a list"), std::string::npos);
}
