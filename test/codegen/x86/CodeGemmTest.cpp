// Products of int8 and E4M3 rows with weights in codes: integers to the bit, results as the reference adds them up.
#include "test/codegen/x86/Codes.h"

#include "runtime/reference/Norm.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {
namespace {

using reference::QuantStorage;

constexpr int64_t kCapacity = 160, kRows = 130;
const int64_t kRowCounts[] = {0, 1, 2, 3, 7, 9, 64, 65};

struct CodeCase {
  int64_t k, n;
  int bits;              ///< of the weight: 8, 4, or 0 for E4M3 in both operands
  int64_t wGroup, xGroup; ///< k per scale, 0: all
  Elem y = Elem::F32;
  bool fp8Rows = false; ///< E4M3 rows meet integers
  bool isInteger() const { return bits && !fp8Rows; }
};

std::string describe(const CodeCase &c) {
  return std::string(c.fp8Rows ? "e4m3_" : "") + "k" + std::to_string(c.k) + "_n" + std::to_string(c.n) + (c.bits ? "_w" + std::to_string(c.bits) : "_fp8") + "g" + std::to_string(c.wGroup) + "_x" +
         std::to_string(c.xGroup) + "_" + name(c.y);
}

QuantStorage storageOf(const CodeCase &c) { return c.isInteger() ? QuantStorage::I8 : QuantStorage::F8E4M3; }
std::string rowsText(int64_t rows, const CodeCase &c) { return codesText({rows, c.k}, Elem::BF16, storageOf(c), c.xGroup); }
Weight makeWeight(const CodeCase &c, Shape shape, uint32_t seed) {
  return c.bits ? intWeight(shape, Elem::BF16, c.bits, c.wGroup, seed) : fp8Weight(shape, Elem::BF16, 1, c.wGroup, seed);
}

/// Among them a row of zeros and one that is 1000 times its neighbours.
QuantizedRows makeRows(const CodeCase &c, int64_t rows) {
  Array<double> x = randomValues({rows, c.k}, Elem::BF16, 2);
  for (int64_t i = 0; i < c.k; ++i) {
    x.row(3)[i] = 0;
    x.row(5)[i] *= 1024;
  }
  return quantized(x, storageOf(c), c.xGroup);
}

Array<double> widened(const Array<float> &x) { return Array<double>(x.shape, std::vector<double>(x.data.begin(), x.data.end())); }
Array<double> product(const QuantizedRows &x, const QuantizedRows &w) { return widened(*reference::quantizedLinear(x, w)); }

/// Every number, not a norm: integer sums are exact, and what follows is rounded in one order.
void expectEqual(const Buffer &out, Elem elem, const Array<double> &ref, const std::string &what) {
  Array<double> got = out.values(ref.shape, elem), want = rounded(ref, elem);
  for (int64_t i = 0; i < got.size(); ++i)
    ASSERT_EQ(got.data[size_t(i)], want.data[size_t(i)]) << what << " row " << i / ref.cols() << " column " << i % ref.cols();
}

class CodeGemmTest : public ::testing::TestWithParam<CodeCase> {};

TEST_P(CodeGemmTest, MatchesReference) {
  CodeCase c = GetParam();
  Weight w = makeWeight(c, {c.n, c.k}, 1);
  std::string xt = rowsText(kCapacity, c), yt = tensorText({kCapacity, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type, "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + w.type +
                                                                     ") outs(%o : " + yt + ") site \"s\"", false);
  ASSERT_TRUE(kernel);
  QuantizedRows x = makeRows(c, kRows), plain = matrixOf(w, 0, c.bits, c.wGroup);
  Array<double> ref = product(x, plain);
  Buffer in = bufferOf(x, kCapacity);
  std::vector<Buffer> weights = kernel->pack(1, w);
  int64_t outRow = c.n * bytesOf(c.y);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer full(kRows * outRow);
    kernel->run(code, Buffers().add(in).add(weights).add(full).list, {kRows}, split);
    expectEqual(full, c.y, ref, describe(c) + " " + code.variant);
    for (int64_t rows : kRowCounts) {
      Buffer out(rows * outRow);
      kernel->run(code, Buffers().add(in).add(weights).add(out).list, {rows}, split);
      expectSameBits(out, full, code.variant + " rows " + std::to_string(rows));
    }
  });
}

/// All scales 1: what comes out is the int32 sum itself.
TEST_P(CodeGemmTest, IntegersAreExact) {
  CodeCase c = GetParam();
  if (c.k > 1040 || !c.isInteger())
    GTEST_SKIP() << "sums are not integers that a float32 holds exactly";
  Weight w = makeWeight(c, {c.n, c.k}, 1);
  std::fill(w.scales.data.begin(), w.scales.data.end(), 1.0);
  std::string xt = rowsText(kCapacity, c), yt = tensorText({kCapacity, c.n}, Elem::F32);
  auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type, "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + w.type +
                                                                     ") outs(%o : " + yt + ") site \"s\"", false);
  ASSERT_TRUE(kernel);
  QuantizedRows x = makeRows(c, kRows);
  for (int64_t i = 0; i < c.k; ++i) { // the largest sums
    x.data.row(6)[i] = 127;
    x.data.row(7)[i] = int8_t(w.codes[size_t(i)]) < 0 ? -127 : 127;
  }
  std::fill(x.scale.data.begin(), x.scale.data.end(), 1.0f);
  Array<int32_t> sums = *reference::integerProducts(x, matrixOf(w, 0, c.bits, c.wGroup));
  Array<double> ref({kRows, c.n});
  for (int64_t i = 0; i < ref.size(); ++i)
    for (int64_t g = 0; g < sums.cols(); ++g)
      ref.data[size_t(i)] += sums.row(i)[g];
  Buffer in = bufferOf(x, kCapacity);
  std::vector<Buffer> weights = kernel->pack(1, w);
  for (const Code &code : kernel->codes()) {
    Buffer out(kRows * c.n * 4);
    kernel->run(code, Buffers().add(in).add(weights).add(out).list, {kRows});
    expectEqual(out, Elem::F32, ref, describe(c) + " " + code.variant);
  }
}

TEST_P(CodeGemmTest, GatedMatchesReference) {
  CodeCase c = GetParam();
  Weight gate = makeWeight(c, {c.n, c.k}, 1), up = makeWeight(c, {c.n, c.k}, 3);
  std::string xt = rowsText(kCapacity, c), yt = tensorText({kCapacity, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %g: " + gate.type + ", %u: " + up.type,
                                "%o = kernel.empty : " + yt + "\n%r = kernel.gated_gemm ins(%x, %g, %u : " + xt + ", " + gate.type + ", " + up.type +
                                    ") outs(%o : " + yt + ") via bf16 site \"s\"", false);
  ASSERT_TRUE(kernel);
  QuantizedRows x = makeRows(c, kRows);
  Array<double> ref = *reference::swiglu(rounded(product(x, matrixOf(gate, 0, c.bits, c.wGroup)), Elem::BF16),
                                         rounded(product(x, matrixOf(up, 0, c.bits, c.wGroup)), Elem::BF16));
  Buffer in = bufferOf(x, kCapacity);
  std::vector<Buffer> g = kernel->pack(1, gate), u = kernel->pack(2, up);
  Buffer whole(0);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer out(kRows * c.n * bytesOf(c.y));
    kernel->run(code, Buffers().add(in).add(g).add(u).add(out).list, {kRows}, split);
    expectClose(out, c.y, ref, describe(c) + " " + code.variant);
    if (split == Split::Whole)
      whole = out;
    expectSameBits(out, whole, code.variant + " split");
  });
}

//===-- Grouped -----------------------------------------------------------===//

const std::vector<int32_t> kOffsets = {0, 0, 3, 73, 73, 74, 130}; ///< experts of 0, 3, 70, 0, 1 and 56 rows
constexpr int64_t kExperts = 6;

/// y of rows in the order of experts: row r is row `index[r]` of x.
Array<double> groupedProduct(const QuantizedRows &x, const std::vector<int32_t> &index, const Weight &w, const CodeCase &c) {
  Array<double> y({kRows, c.n});
  for (int64_t e = 0; e < kExperts; ++e) {
    std::vector<int32_t> rows(index.begin() + kOffsets[size_t(e)], index.begin() + kOffsets[size_t(e + 1)]);
    if (rows.empty())
      continue;
    Array<double> one = product(rowsOf(x, rows), matrixOf(w, e, c.bits, c.wGroup));
    std::copy_n(one.data.begin(), one.size(), y.row(kOffsets[size_t(e)]));
  }
  return y;
}

TEST_P(CodeGemmTest, GroupedMatchesReference) {
  CodeCase c = GetParam();
  Weight w = makeWeight(c, {kExperts, c.n, c.k}, 1);
  std::string xt = rowsText(320, c), yt = tensorText({320, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type + ", %f: tensor<7xi32>",
                                "%o = kernel.empty : " + yt + "\n%r = kernel.grouped_gemm ins(%x, %w, %f : " + xt + ", " + w.type +
                                    ", tensor<7xi32>) outs(%o : " + yt + ") site \"s\"", false);
  ASSERT_TRUE(kernel);
  QuantizedRows x = makeRows(c, kRows);
  std::vector<int32_t> inOrder(kRows);
  for (int32_t r = 0; r < kRows; ++r)
    inOrder[size_t(r)] = r;
  Array<double> ref = groupedProduct(x, inOrder, w, c);
  Buffer in = bufferOf(x, 320), offsets = Buffer::of(kOffsets);
  std::vector<Buffer> weights = kernel->pack(1, w);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer out(kRows * c.n * bytesOf(c.y));
    kernel->run(code, Buffers().add(in).add(weights).add(offsets).add(out).list, {}, split);
    expectEqual(out, c.y, ref, describe(c) + " " + code.variant);
  });
}

TEST_P(CodeGemmTest, GroupedGatedMatchesReference) {
  CodeCase c = GetParam();
  Weight gate = makeWeight(c, {kExperts, c.n, c.k}, 1), up = makeWeight(c, {kExperts, c.n, c.k}, 3);
  std::string xt = rowsText(kCapacity, c), yt = tensorText({320, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %g: " + gate.type + ", %u: " + up.type + ", %f: tensor<7xi32>, %t: tensor<320xi32>",
                                "%o = kernel.empty : " + yt + "\n%r = kernel.grouped_gated_gemm ins(%x, %g, %u, %f, %t : " + xt + ", " + gate.type +
                                    ", " + up.type + ", tensor<7xi32>, tensor<320xi32>) outs(%o : " + yt + ") via bf16 site \"s\"", false);
  ASSERT_TRUE(kernel);
  QuantizedRows x = makeRows(c, 65);
  std::vector<int32_t> tokenOf;
  for (int32_t r = 0; r < kRows; ++r)
    tokenOf.push_back(r * 37 % 65);
  Array<double> ref = *reference::swiglu(rounded(groupedProduct(x, tokenOf, gate, c), Elem::BF16), rounded(groupedProduct(x, tokenOf, up, c), Elem::BF16));
  Buffer in = bufferOf(x, kCapacity), offsets = Buffer::of(kOffsets), tokens = Buffer::of(tokenOf);
  std::vector<Buffer> g = kernel->pack(1, gate), u = kernel->pack(2, up);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer out(kRows * c.n * bytesOf(c.y));
    kernel->run(code, Buffers().add(in).add(g).add(u).add(offsets).add(tokens).add(out).list, {}, split);
    expectClose(out, c.y, ref, describe(c) + " " + code.variant);
  });
}

/// Rows that the activation is quantised in: what the plain launch stores, quantised, byte for byte.
TEST(CodeGemm, GatedResultsInCodes) {
  for (bool grouped : {false, true}) {
    CodeCase c{320, 256, grouped ? 4 : 8, 0, 0, Elem::BF16};
    Shape shape = grouped ? Shape{kExperts, c.n, c.k} : Shape{c.n, c.k};
    Weight gate = makeWeight(c, shape, 1), up = makeWeight(c, shape, 3);
    std::string xt = rowsText(kCapacity, c), yt = tensorText({kCapacity, c.n}, Elem::BF16), qt = codesText({kCapacity, c.n}, Elem::BF16, QuantStorage::I8, 128);
    std::string args = "%x: " + xt + ", %g: " + gate.type + ", %u: " + up.type + ", %f: tensor<7xi32>";
    auto body = [&](const std::string &out) {
      return "%o = kernel.empty : " + out + "\n%r = kernel." + (grouped ? "grouped_gated_gemm" : "gated_gemm") + " ins(%x, %g, %u" + (grouped ? ", %f" : "") +
             " : " + xt + ", " + gate.type + ", " + up.type + (grouped ? ", tensor<7xi32>" : "") + ") outs(%o : " + out + ") via bf16 site \"s\"";
    };
    auto plain = Kernel::compile(args, body(yt), false), fused = Kernel::compile(args, body(qt), false);
    ASSERT_TRUE(plain && fused);
    Buffer in = bufferOf(makeRows(c, kRows), kCapacity), offsets = Buffer::of(kOffsets);
    std::vector<Buffer> operands{in};
    for (auto [i, w] : {std::pair{1u, &gate}, {2u, &up}})
      for (Buffer &b : plain->pack(i, *w))
        operands.push_back(b);
    if (grouped)
      operands.push_back(offsets);
    for (size_t v = 0; v < fused->codes().size(); ++v)
      for (Split split : {Split::Whole, Split::EachBackwards}) {
        Buffer rows(kRows * c.n * 2);
        plain->run(plain->codes()[v], Buffers().add(operands).add(rows).list, {kRows});
        Buffer want = bufferOf(quantized(rows.values({kRows, c.n}, Elem::BF16), QuantStorage::I8, 128), kCapacity), got(want.size());
        fused->run(fused->codes()[v], Buffers().add(operands).add(got).list, {kRows}, split);
        EXPECT_EQ(std::memcmp(got.data(), want.data(), size_t(want.size())), 0) << fused->codes()[v].variant << (grouped ? " grouped" : "");
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Schemes, CodeGemmTest,
                         ::testing::Values(CodeCase{160, 88, 8, 0, 0}, CodeCase{1100, 33, 8, 0, 128, Elem::BF16}, CodeCase{67, 17, 8, 0, 0},
                                           CodeCase{384, 40, 8, 128, 0}, CodeCase{1029, 40, 4, 0, 0}, CodeCase{512, 64, 4, 128, 0, Elem::BF16},
                                           CodeCase{328, 17, 4, 128, 128}, CodeCase{7, 1, 4, 0, 0}, CodeCase{256, 48, 4, 0, 128},
                                           CodeCase{1100, 40, 0, 128, 128}, CodeCase{67, 17, 0, 0, 0, Elem::BF16},
                                           CodeCase{384, 40, 4, 128, 128, Elem::F32, true}, CodeCase{1029, 33, 4, 0, 128, Elem::BF16, true},
                                           CodeCase{67, 17, 4, 0, 0, Elem::F32, true}, CodeCase{328, 17, 8, 0, 128, Elem::F32, true}),
                         [](const auto &info) { return describe(info.param); });

/// A sum as large as the model's widest product: 18432 x 127 x 127 is beyond a float32, not beyond an int32.
TEST(CodeGemm, LongSums) {
  CodeCase c{18432, 16, 8, 0, 0};
  Weight w = makeWeight(c, {c.n, c.k}, 1);
  std::fill(w.codes.begin(), w.codes.end(), uint8_t(127));
  std::string xt = rowsText(kCapacity, c), yt = tensorText({kCapacity, c.n}, Elem::F32);
  auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type, "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + w.type +
                                                                     ") outs(%o : " + yt + ") site \"s\"", false);
  ASSERT_TRUE(kernel);
  QuantizedRows x{Array<float>({2, c.k}), Array<float>({2, 1}), {QuantStorage::I8, 1, 0}};
  std::fill_n(x.data.row(0), c.k, 127.0f);
  std::fill_n(x.data.row(1), c.k, -127.0f);
  x.data.row(1)[0] = 126;
  std::fill(x.scale.data.begin(), x.scale.data.end(), 1.0f);
  Buffer in = bufferOf(x, kCapacity);
  std::vector<Buffer> weights = kernel->pack(1, w);
  for (const Code &code : kernel->codes()) {
    Buffer out(2 * c.n * 4);
    kernel->run(code, Buffers().add(in).add(weights).add(out).list, {2});
    expectEqual(out, Elem::F32, product(x, matrixOf(w, 0, c.bits, c.wGroup)), code.variant);
  }
}

} // namespace
} // namespace dsv3::codegen::test
