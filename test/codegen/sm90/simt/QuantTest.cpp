// Rows of codes, byte by byte.
#include "test/codegen/sm90/simt/DeviceTest.h"

#include "runtime/core/DType.h"
#include "runtime/reference/Quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <tuple>

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kTokens = 5, kCapacity = 8;

int64_t up(int64_t n) { return (n + 255) / 256 * 256; }

/// A scheme of rows, as the reference and as a type know it.
struct Scheme {
  reference::QuantStorage storage = reference::QuantStorage::F8E4M3;
  int64_t columns = 128; ///< that share a scale; 0: all
  bool pow2 = false;

  reference::QuantScheme reference() const {
    reference::QuantScheme s;
    s.storage = storage, s.blockRows = 1, s.blockCols = columns, s.powerOfTwo = pow2;
    return s;
  }
  std::string type(int64_t rows, int64_t cols) const {
    return "tensor<" + std::to_string(rows) + "x" + std::to_string(cols) + "xbf16, #dsv3.blocked<" +
           (storage == reference::QuantStorage::I8 ? "i8, 1x" : "f8E4M3FN, 1x") + (columns ? std::to_string(columns) : "?") + ", f32" +
           (pow2 ? ", pow2_scale" : "") + ">>";
  }
};
constexpr Scheme kFp8{}, kFp8Pow2{reference::QuantStorage::F8E4M3, 128, true}, kFp8Token{reference::QuantStorage::F8E4M3, 0},
    kInt8{reference::QuantStorage::I8, 0}, kInt8Groups{reference::QuantStorage::I8, 128};

/// Codes, then scales at a multiple of 256 bytes that the capacity of rows gives.
std::vector<uint8_t> stored(const reference::Quantized<float> &q, int64_t capacity) {
  int64_t cols = q.data.cols(), groups = q.scale.cols();
  std::vector<uint8_t> bytes(size_t(up(capacity * cols) + capacity * groups * 4), 0xff);
  for (int64_t i = 0; i < q.data.size(); ++i)
    bytes[size_t(i)] = q.scheme.storage == reference::QuantStorage::I8 ? uint8_t(int8_t(q.data.data[size_t(i)])) : floatToE4m3(q.data.data[size_t(i)]);
  std::memcpy(bytes.data() + up(capacity * cols), q.scale.data.data(), q.scale.data.size() * 4);
  return bytes;
}

std::vector<uint8_t> bytesOf(const Buffer &b) { return {static_cast<uint8_t *>(b.data()), static_cast<uint8_t *>(b.data()) + b.size()}; }

struct Case {
  Elem elem;
  int64_t width;
  Scheme scheme;
};
class QuantizeTest : public DeviceTest, public ::testing::WithParamInterface<Case> {};

TEST_P(QuantizeTest, GivesTheReferencesBytes) {
  auto [elem, width, scheme] = GetParam();
  std::string x = tensorText({kCapacity, width}, elem), q = scheme.type(kCapacity, width);
  auto grid = compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", kCapacity);
  ASSERT_TRUE(grid);
  Array<double> values = randomValues({kCapacity, width}, elem, 1, 30);
  for (int64_t i = 0; i < std::min<int64_t>(width, 128); ++i)
    values.row(1)[i] = 0;              // a group of zeros
  for (int64_t i = 0; i < width; ++i)
    values.row(4)[i] = 0;              // a row of them
  values.row(2)[width - 1] = 448 * 64; // an outlier: its neighbours become small codes
  values.row(3)[0] = 0x1p-100;
  Array<float> rows({kTokens, width});
  for (int64_t i = 0; i < rows.size(); ++i)
    rows.data[size_t(i)] = float(values.data[size_t(i)]);
  std::vector<uint8_t> want = stored(*reference::quantize(rows, scheme.reference()), kCapacity);
  Buffer in = Buffer::of(values, elem);
  for (bool backwards : {false, true}) {
    Buffer out{int64_t(want.size())};
    grid->run({in.data(), out.data()}, step(kTokens, 1), backwards);
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(bytesOf(out), want);
  }
}

INSTANTIATE_TEST_SUITE_P(Forms, QuantizeTest,
                         ::testing::Values(Case{Elem::BF16, 512, kFp8}, Case{Elem::F32, 256, kFp8}, Case{Elem::BF16, 384, kFp8Pow2},
                                           Case{Elem::BF16, 576, kFp8}, Case{Elem::F32, 64, kFp8}, Case{Elem::BF16, 132, kFp8Pow2},
                                           Case{Elem::BF16, 512, kInt8Groups}, Case{Elem::F32, 132, kInt8Groups}, Case{Elem::BF16, 576, kInt8Groups},
                                           Case{Elem::BF16, 7168, kInt8}, Case{Elem::F32, 132, kInt8}, Case{Elem::BF16, 64, kInt8},
                                           Case{Elem::BF16, 18432, kInt8}, Case{Elem::BF16, 576, kFp8Token}));

/// Every magnitude that float32 has: scales that are subnormal, that underflow, that are near the end; and both zeros.
TEST_F(DeviceTest, QuantizesEveryMagnitude) {
  constexpr int64_t kRows = 300, kWidth = 128;
  for (const Scheme &scheme : {kFp8, kFp8Pow2, kInt8, kInt8Groups}) {
    std::string x = tensorText({kRows, kWidth}, Elem::F32), q = scheme.type(kRows, kWidth);
    auto grid = compile("%x: " + x, "%o = kernel.empty : " + q + "\n%r = kernel.quantize ins(%x : " + x + ") outs(%o : " + q + ") site \"s\"", kRows);
    ASSERT_TRUE(grid);
    Array<double> values = randomValues({kRows, kWidth}, Elem::F32, scheme.pow2 ? 5 : 4);
    Array<float> rows({kRows, kWidth});
    for (int64_t r = 0; r < kRows; ++r)
      for (int64_t i = 0; i < kWidth; ++i) {
        double v = std::ldexp(std::fmod(values.row(r)[i], 1.0), int(r) - 160 - int(i % 5)); // 2^-160 to 2^127 and beyond
        rows.row(r)[i] = float(std::clamp(v, -3.4e38, 3.4e38));
        values.row(r)[i] = double(rows.row(r)[i]);
      }
    rows.row(1)[0] = -0.0f, values.row(1)[0] = -0.0;
    std::vector<uint8_t> want = stored(*reference::quantize(rows, scheme.reference()), kRows);
    Buffer in = Buffer::of(values, Elem::F32), out{int64_t(want.size())};
    grid->run({in.data(), out.data()}, step(kRows, 1), false);
    std::vector<uint8_t> got = bytesOf(out);
    for (int64_t r = 0; r < kRows; ++r) {
      float scales[2];
      std::memcpy(&scales[0], &want[size_t(up(kRows * kWidth) + r * 4)], 4);
      std::memcpy(&scales[1], &got[size_t(up(kRows * kWidth) + r * 4)], 4);
      EXPECT_EQ(scales[0], scales[1]) << "scale of magnitude " << r - 160;
      EXPECT_TRUE(std::equal(want.begin() + r * kWidth, want.begin() + (r + 1) * kWidth, got.begin() + r * kWidth)) << "codes of magnitude " << r - 160;
    }
  }
}

/// Launches that make rows and quantise them store what the plain launch's rows are quantised to, byte for byte.
class FusedQuantTest : public DeviceTest, public ::testing::WithParamInterface<std::tuple<int64_t, Scheme>> {
protected:
  /// Codes and scales of rows that a launch stored as bf16.
  static std::vector<uint8_t> quantise(const Buffer &plain, int64_t width, const Scheme &scheme) {
    Array<float> rows({kTokens, width});
    auto *words = static_cast<const uint16_t *>(plain.data());
    for (int64_t i = 0; i < rows.size(); ++i)
      rows.data[size_t(i)] = bf16ToFloat(words[i]);
    return stored(*reference::quantize(rows, scheme.reference()), kCapacity);
  }
};

TEST_P(FusedQuantTest, Norms) {
  auto [width, scheme] = GetParam();
  std::string x = tensorText({kCapacity, width}, Elem::BF16), g = tensorText({width}, Elem::BF16), q = scheme.type(kCapacity, width);
  std::string args = "%x: " + x + ", %r: " + x + ", %g: " + g, three = x + ", " + x + ", " + g;
  std::string empty = "%s0 = kernel.empty : " + x + "\n%y0 = kernel.empty : " + x + "\n%c0 = kernel.empty : " + q + "\n";
  auto norm = compile(args, empty + "%y = kernel.norm ins(%x, %g : " + x + ", " + g + ") outs(%y0 : " + x + ") eps 1.0e-06 site \"s\"", kCapacity);
  auto codes = compile(args, empty + "%y = kernel.norm ins(%x, %g : " + x + ", " + g + ") outs(%c0 : " + q + ") eps 1.0e-06 site \"s\"", kCapacity);
  std::string ins = " ins(%x, %r, %g : " + three + ") outs(%s0, ";
  auto add = compile(args, empty + "%s, %y = kernel.add_norm" + ins + "%y0 : " + x + ", " + x + ") eps 1.0e-06 site \"s\" -> " + x + ", " + x, kCapacity);
  auto addCodes = compile(args, empty + "%s, %y = kernel.add_norm" + ins + "%c0 : " + x + ", " + q + ") eps 1.0e-06 site \"s\" -> " + x + ", " + q, kCapacity);
  auto both = compile(args, empty + "%s, %y, %c = kernel.add_norm_quantize" + ins + "%y0, %c0 : " + x + ", " + x + ", " + q +
                                ") eps 1.0e-06 site \"s\" -> " + x + ", " + x + ", " + q, kCapacity);
  ASSERT_TRUE(norm && codes && add && addCodes && both);
  Buffer in = Buffer::of(randomValues({kCapacity, width}, Elem::BF16, 1, 30), Elem::BF16);
  Buffer residual = Buffer::of(randomValues({kCapacity, width}, Elem::BF16, 2, 30), Elem::BF16);
  Buffer gamma = Buffer::of(randomValues({width}, Elem::BF16, 3), Elem::BF16);
  int64_t bytes = kCapacity * width * 2;
  Buffer y{bytes}, sum{bytes}, sum2{bytes}, y2{bytes};
  norm->run({in.data(), gamma.data(), y.data()}, step(kTokens, 1), false);
  std::vector<uint8_t> want = quantise(y, width, scheme);
  Buffer out{int64_t(want.size())}, out2{int64_t(want.size())}, out3{int64_t(want.size())};
  codes->run({in.data(), gamma.data(), out.data()}, step(kTokens, 1), false);
  EXPECT_TRUE(out.intact());
  EXPECT_EQ(bytesOf(out), want);

  add->run({in.data(), residual.data(), gamma.data(), sum.data(), y.data()}, step(kTokens, 1), false);
  want = quantise(y, width, scheme);
  addCodes->run({in.data(), residual.data(), gamma.data(), sum2.data(), out2.data()}, step(kTokens, 1), false);
  EXPECT_EQ(bytesOf(out2), want);
  EXPECT_EQ(bytesOf(sum2), bytesOf(sum));
  both->run({in.data(), residual.data(), gamma.data(), sum2.data(), y2.data(), out3.data()}, step(kTokens, 1), true);
  EXPECT_TRUE(out3.intact());
  EXPECT_EQ(bytesOf(out3), want);
  EXPECT_EQ(bytesOf(y2), bytesOf(y));
}

TEST_P(FusedQuantTest, Swiglu) {
  auto [width, scheme] = GetParam();
  std::string x = tensorText({kCapacity, width}, Elem::BF16), q = scheme.type(kCapacity, width), ins = " ins(%g, %u : " + x + ", " + x + ")";
  std::string args = "%g: " + x + ", %u: " + x;
  auto act = compile(args, "%o = kernel.empty : " + x + "\n%y = kernel.swiglu" + ins + " outs(%o : " + x + ") site \"s\"", kCapacity);
  auto codes = compile(args, "%o = kernel.empty : " + q + "\n%y = kernel.swiglu" + ins + " outs(%o : " + q + ") site \"s\"", kCapacity);
  ASSERT_TRUE(act && codes);
  Buffer gate = Buffer::of(randomValues({kCapacity, width}, Elem::BF16, 1, 4), Elem::BF16);
  Buffer up = Buffer::of(randomValues({kCapacity, width}, Elem::BF16, 2, 4), Elem::BF16), y{kCapacity * width * 2};
  act->run({gate.data(), up.data(), y.data()}, step(kTokens, 1), false);
  std::vector<uint8_t> want = quantise(y, width, scheme);
  Buffer out{int64_t(want.size())};
  codes->run({gate.data(), up.data(), out.data()}, step(kTokens, 1), false);
  EXPECT_TRUE(out.intact());
  EXPECT_EQ(bytesOf(out), want);
}

INSTANTIATE_TEST_SUITE_P(Forms, FusedQuantTest,
                         ::testing::Combine(::testing::Values(128, 512, 576, 132, 7168), ::testing::Values(kFp8, kFp8Pow2, kInt8, kInt8Groups)));

TEST_F(DeviceTest, GatherMovesCodesAndScales) {
  for (auto [width, scheme] : {std::pair<int64_t, Scheme>{512, kFp8}, {576, kFp8}, {132, kFp8}, {512, kInt8}, {132, kInt8Groups}}) {
    std::string q = scheme.type(kCapacity, width), r = scheme.type(2 * kCapacity, width);
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
    std::vector<uint8_t> source = stored(*reference::quantize(rows, scheme.reference()), kCapacity);
    std::vector<uint8_t> want = stored(*reference::quantize(chosen, scheme.reference()), 2 * kCapacity);
    Buffer in{int64_t(source.size())}, index = Buffer::of(from), out{int64_t(want.size())};
    std::memcpy(in.data(), source.data(), source.size());
    grid->run({in.data(), index.data(), out.data()}, step(kTokens, 1), false);
    EXPECT_TRUE(out.intact());
    EXPECT_EQ(bytesOf(out), want);
  }
}

} // namespace
} // namespace dsv3::codegen::test
