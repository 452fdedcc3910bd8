#include "runtime/reference/Dummy.h"
#include "Util.h"

using namespace dsv3::reference;

TEST(Dummy, IsAFunctionOfNameAndIndex) {
  Dummy a("a"), again("a"), b("b");
  EXPECT_EQ(a.normal(7), again.normal(7));
  EXPECT_NE(a.normal(7), b.normal(7));
  EXPECT_NE(a.normal(7), a.normal(8));
  EXPECT_NE(a.normal(0), a.normal(uint64_t{1} << 32)) << "all 64 bits of the index count";
}

TEST(Dummy, BitsStay) { // artifacts with dummy weights depend on them
  EXPECT_EQ(Dummy("").word(0), 1095801358u);
  EXPECT_FLOAT_EQ(Dummy("model.norm.weight").normal(0), -0.899835229f);
}

TEST(Dummy, HasMeanZeroAndVarianceOne) {
  Dummy d("x");
  double sum = 0, squares = 0;
  for (int i = 0; i < 20000; ++i) {
    double n = d.normal(i);
    sum += n, squares += n * n;
  }
  EXPECT_NEAR(sum / 20000, 0, 0.03);
  EXPECT_NEAR(squares / 20000, 1, 0.04);
}
