#include "tools/dsv3-eval/Measure.h"

#include <gtest/gtest.h>

using dsv3::eval::finalNumber;

namespace {

TEST(FinalNumber, TheFirstAfterTheMark) {
  EXPECT_EQ(finalNumber("12 + 13 = 25.\n#### 25"), 25);
  EXPECT_EQ(finalNumber("#### -7 and #### 8"), -7);
  EXPECT_EQ(finalNumber("#### none, #### 8"), 8);
  EXPECT_EQ(finalNumber("25"), std::nullopt);
  EXPECT_EQ(finalNumber("####25"), std::nullopt);
  EXPECT_EQ(finalNumber("#### "), std::nullopt);
}

} // namespace
