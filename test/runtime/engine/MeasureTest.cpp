#include "tools/dsv3-eval/Compare.h"
#include "tools/dsv3-eval/Measure.h"

#include <gtest/gtest.h>

#include <cmath>

using dsv3::eval::finalNumber;
using dsv3::eval::StateError;

namespace {

TEST(FinalNumber, TheFirstAfterTheMark) {
  EXPECT_EQ(finalNumber("12 + 13 = 25.\n#### 25"), 25);
  EXPECT_EQ(finalNumber("#### -7 and #### 8"), -7);
  EXPECT_EQ(finalNumber("#### none, #### 8"), 8);
  EXPECT_EQ(finalNumber("25"), std::nullopt);
  EXPECT_EQ(finalNumber("####25"), std::nullopt);
  EXPECT_EQ(finalNumber("#### "), std::nullopt);
}

/// A state of norm 10 whose error is `percent` of it.
StateError state(const std::string &name, double percent, double norm = 10) { return {name, 4, std::pow(norm * percent / 100, 2), norm * norm, false}; }

/// The lines of the part that begins with `head`, without it.
std::string part(const std::string &text, const std::string &head) {
  size_t begin = text.find(head);
  return begin == text.npos ? "missing: " + head : text.substr(begin, text.find("\n\n", begin) - begin);
}

bool hasLine(const std::string &text, const std::string &line) { return ("\n" + text + "\n").find("\n" + line + "\n") != std::string::npos; }

TEST(StatesText, WhereTheErrorEntersAndWhatMakesItLarger) {
  std::vector<StateError> states = {state("embed", 0),       state("l0.input_norm", 0), state("l0.q_b", 1),    state("l0.attn_out_add", 3), state("l0.post_norm", 3),
                                    state("l0.act", 3),      state("l0.mlp", 5),        state("l0.out", 5),    state("l1.attn_out_add", 5), state("l1.post_norm", 5),
                                    state("l1.router", 4),   {"l1.route.ids", 2, 2, 8, true}, state("l1.mlp", 13), state("l1.out", 13, 20)};
  const std::string text = dsv3::eval::statesText(states);
  // Attention adds 3%, the feed-forward part sqrt(25 - 9) = 4% of the same norm.
  const std::string layers = part(text, "residual");
  EXPECT_TRUE(hasLine(layers, "l0          0.000%     3.000%          4.000%     5.000%               -")) << text;
  // 13% of norm 20 is 2.6, 5% of norm 10 is 0.5: sqrt(6.76 - 0.25) / 20. A quarter of the choices are others.
  EXPECT_TRUE(hasLine(layers, "l1          5.000%     0.000%         12.757%    13.000%         25.000%")) << text;
  const std::string linears = part(text, "linears that add most");
  const size_t experts = linears.find("l1.mlp                 routed_experts            5.000%    13.000%    12.000%"),
               down = linears.find("l0.mlp                 dense_ffn.down            3.000%     5.000%     4.000%"),
               query = linears.find("l0.q_b                 attention.q_b             0.000%     1.000%     1.000%");
  ASSERT_NE(experts, linears.npos) << text;
  EXPECT_LT(experts, down) << text;
  EXPECT_LT(down, query) << text;
  EXPECT_NE(linears.find("l1.router"), linears.npos) << "adds nothing, but is a linear";
  EXPECT_EQ(linears.find("l0.out"), linears.npos) << "no product with a weight";
  EXPECT_TRUE(hasLine(text, "l1.route.ids              25.000%   of the chosen experts are others")) << text;
}

TEST(StatesText, WhatIsNotTappedIsUnknown) {
  const std::string text = dsv3::eval::statesText({state("l3.mlp", 5), state("l3.out", 7), state("final_norm", 9)});
  EXPECT_TRUE(hasLine(text, "l3               -          -               -     7.000%               -")) << text;
  EXPECT_EQ(text.find("linears that add most"), text.npos) << text;
  EXPECT_TRUE(hasLine(text, "final_norm                 9.000%")) << text;
}

} // namespace
