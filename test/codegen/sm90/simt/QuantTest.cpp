// Rows in FP8 blocks, byte by byte.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include "runtime/core/DType.h"
#include "runtime/reference/Quantize.h"

#include <cstring>

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kTokens = 5, kCapacity = 8;

int64_t up(int64_t n) { return (n + 255) / 256 * 256; }

/// Codes, then scales at a multiple of 256 bytes that the capacity of rows gives.
std::vector<uint8_t> stored(const reference::Quantized<float> &q, int64_t capacity) {
  int64_t cols = q.data.cols(), groups = q.scale.cols();
  std::vector<uint8_t> bytes(size_t(up(capacity * cols) + capacity * groups * 4), 0xff);
  for (int64_t i = 0; i < q.data.size(); ++i)
    bytes[size_t(i)] = floatToE4m3(q.data.data[size_t(i)]);
  std::memcpy(bytes.data() + up(capacity * cols), q.scale.data.data(), q.scale.data.size() * 4);
  return bytes;
}

std::vector<uint8_t> bytesOf(const Buffer &b) { return {static_cast<uint8_t *>(b.data()), static_cast<uint8_t *>(b.data()) + b.size()}; }

std::string quantised(int64_t rows, int64_t cols, bool pow2 = false) {
  return "tensor<" + std::to_string(rows) + "x" + std::to_string(cols) + "xbf16, #dsv3.blocked<f8E4M3FN, 1x128, f32" + (pow2 ? ", pow2_scale" : "") + ">>";
}

struct Case {
  Elem elem;
  int64_t width;
  bool pow2;
};
class QuantizeTest : public DeviceTest, public ::testing::WithParamInterface<Case> {};

TEST_P(QuantizeTest, GivesTheReferencesBytes) {
  auto [elem, width, pow2] = GetParam();
  std::string x = tensorText({kCapacity, width}, elem), q = quantised(kCapacity, width, pow2);
  auto grid = compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", kCapacity);
  ASSERT_TRUE(grid);
  Array<double> values = randomValues({kCapacity, width}, elem, 1, 30);
  for (int64_t i = 0; i < std::min<int64_t>(width, 128); ++i)
    values.row(1)[i] = 0;              // a group of zeros
  values.row(2)[width - 1] = 448 * 64; // an outlier: its neighbours become small codes
  values.row(3)[0] = 0x1p-100;
  Array<float> rows({kTokens, width});
  for (int64_t i = 0; i < rows.size(); ++i)
    rows.data[size_t(i)] = float(values.data[size_t(i)]);
  reference::QuantScheme scheme;
  scheme.blockRows = 1, scheme.powerOfTwo = pow2;
  std::vector<uint8_t> want = stored(*reference::quantize(rows, scheme), kCapacity);
  Buffer in = Buffer::of(values, elem);
  for (bool backwards : {false, true}) {
    Buffer out{int64_t(want.size())};
    grid->run({in.data(), out.data()}, step(kTokens, 1), backwards);
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(bytesOf(out), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, QuantizeTest,
                         ::testing::Values(Case{Elem::BF16, 512, false}, Case{Elem::F32, 256, false}, Case{Elem::BF16, 384, true},
                                           Case{Elem::BF16, 576, false}, Case{Elem::F32, 64, false}, Case{Elem::BF16, 132, true}));

TEST_F(DeviceTest, GatherMovesCodesAndScales) {
  for (int64_t width : {512, 576, 132}) {
    std::string q = quantised(kCapacity, width), r = quantised(2 * kCapacity, width);
    auto grid = compile("%x: " + q + ", %t: tensor<16xi32>",
                        "%o = kernel.empty : " + r + "\n%y = kernel.gather ins(%x, %t : " + q + ", tensor<16xi32>) outs(%o : " + r + ") site \"s\"", kCapacity);
    ASSERT_TRUE(grid);
    Array<double> values = randomValues({kCapacity, width}, Elem::F32, 1);
    std::vector<int32_t> from = {4, 0, 0, 3, 1, 2, 4, 4, 1, 0};
    Array<float> rows({kCapacity, width}), chosen({int64_t(from.size()), width});
    for (int64_t i = 0; i < rows.size(); ++i)
      rows.data[size_t(i)] = float(values.data[size_t(i)]);
    for (size_t i = 0; i < from.size(); ++i)
      std::copy_n(rows.row(from[i]), width, chosen.row(int64_t(i)));
    reference::QuantScheme scheme;
    scheme.blockRows = 1;
    std::vector<uint8_t> source = stored(*reference::quantize(rows, scheme), kCapacity);
    std::vector<uint8_t> want = stored(*reference::quantize(chosen, scheme), 2 * kCapacity);
    Buffer in{int64_t(source.size())}, index = Buffer::of(from), out{int64_t(want.size())};
    std::memcpy(in.data(), source.data(), source.size());
    grid->run({in.data(), index.data(), out.data()}, step(kTokens, 1), false);
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(bytesOf(out), want);
  }
}

} // namespace
} // namespace dsv3::codegen::test
