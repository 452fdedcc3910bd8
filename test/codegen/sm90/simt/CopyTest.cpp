// Copies of whole rows, bit by bit: of widths with one and with two vectors a thread.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include <cstring>

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kTokens = 3, kTop = 2, kCapacity = 4;

struct Case {
  Elem from, to;
  int64_t width;
};
class CopyTest : public DeviceTest, public ::testing::WithParamInterface<Case> {
protected:
  /// Row i of the result is row `index[i]` of `source`, converted.
  static void expectRows(const Buffer &out, const Array<double> &source, const std::vector<int32_t> &index, Elem to) {
    Array<double> want({int64_t(index.size()), source.cols()});
    for (size_t i = 0; i < index.size(); ++i)
      std::copy_n(source.row(index[i]), source.cols(), want.row(int64_t(i)));
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(out.values(want.shape, to).data, rounded(want, to).data);
  }
};

TEST_P(CopyTest, EmbedTakesRowsOfTheTable) {
  auto [from, to, width] = GetParam();
  std::string table = tensorText({9, width}, from), out = tensorText({kCapacity, width}, to);
  auto grid = compile("%i: tensor<4xi32>, %t: " + table, "%o = kernel.empty : " + out + "\n%r = kernel.embed ins(%i, %t : tensor<4xi32>, " + table +
                                                             ") outs(%o : " + out + ") site \"s\"", kCapacity);
  ASSERT_TRUE(grid);
  Array<double> values = randomValues({9, width}, from, 1);
  std::vector<int32_t> ids = {8, 0, 4};
  Buffer i = Buffer::of(ids), t = Buffer::of(values, from), o(kTokens * width * bytesOf(to));
  grid->run({i.data(), t.data(), o.data()}, step(kTokens, 1), false);
  expectRows(o, values, ids, to);
}

TEST_P(CopyTest, GatherHasARowForEachExpertOfAToken) {
  auto [from, to, width] = GetParam();
  std::string x = tensorText({kCapacity, width}, from), out = tensorText({kCapacity * kTop, width}, to);
  auto grid = compile("%x: " + x + ", %t: tensor<8xi32>", "%o = kernel.empty : " + out + "\n%r = kernel.gather ins(%x, %t : " + x +
                                                              ", tensor<8xi32>) outs(%o : " + out + ") site \"s\"", kCapacity);
  ASSERT_TRUE(grid);
  Array<double> values = randomValues({kTokens, width}, from, 1);
  std::vector<int32_t> tokens = {2, 0, 1, 1, 0, 2};
  Buffer v = Buffer::of(values, from), t = Buffer::of(tokens), o(kTokens * kTop * width * bytesOf(to));
  grid->run({v.data(), t.data(), o.data()}, step(kTokens, 1), true);
  expectRows(o, values, tokens, to);
}

INSTANTIATE_TEST_SUITE_P(Forms, CopyTest,
                         ::testing::Values(Case{Elem::BF16, Elem::BF16, 4096}, Case{Elem::BF16, Elem::F32, 576}, Case{Elem::F32, Elem::BF16, 24},
                                           Case{Elem::F32, Elem::F32, 33}, Case{Elem::BF16, Elem::BF16, 2}));

} // namespace
} // namespace dsv3::codegen::test
