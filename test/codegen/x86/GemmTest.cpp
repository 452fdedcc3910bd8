// The five GEMM kernels against the reference, over odd shapes, types, row counts and partitions.
#include "test/codegen/x86/Harness.h"

#include "runtime/core/DType.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Norm.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {
namespace {

constexpr int64_t kCapacity = 160;
const int64_t kRowCounts[] = {0, 1, 7, 8, 9, 63, 64, 65, 130};

struct GemmCase {
  int64_t k, n;
  Elem x, y;
  const char *weight; ///< "f32", "bf16", "fp8" (blocks of 128 x 128), "fp8row" (a scale per row), "int8", "int4" (the same), "int4g32", "int4zero" (a zero point per 128)
  Elem expressed = Elem::BF16; ///< of weights in codes
};

/// A short row of a long sum may cancel to almost nothing; then its relative error says nothing.
bool isShort(const GemmCase &c) { return c.n < 16; }

Weight makeWeight(const GemmCase &c, Shape shape, uint32_t seed) {
  if (c.weight == std::string("fp8"))
    return fp8Weight(shape, c.expressed, 128, 128, seed);
  if (c.weight == std::string("fp8row"))
    return fp8Weight(shape, c.expressed, 1, 0, seed);
  if (c.weight == std::string("int8") || c.weight == std::string("int4"))
    return intWeight(shape, c.expressed, c.weight[3] - '0', 0, seed);
  if (c.weight == std::string("int4g32"))
    return intWeight(shape, c.expressed, 4, 32, seed);
  if (c.weight == std::string("int4zero"))
    return intWeight(shape, c.expressed, 4, 128, seed, true);
  return plainWeight(shape, c.weight == std::string("f32") ? Elem::F32 : Elem::BF16, seed);
}

std::string describe(const GemmCase &c) {
  return std::string("k") + std::to_string(c.k) + "_n" + std::to_string(c.n) + "_" + name(c.x) + "_" + c.weight + "_" + name(c.expressed) + "_" +
         name(c.y);
}

Array<double> linear(const Array<double> &x, const Array<double> &w) { return *reference::linear(x, w); }

/// Rows in any number, in any place, in any partition have the bits they have in one call over all.
void checkRows(const Kernel &kernel, const Array<double> &x, Elem xe, const std::vector<Buffer> &weights, const Array<double> &ref, Elem ye,
               const std::string &what, double narrow = 4e-3) {
  int64_t all = x.dim(0), outRow = ref.size() / all * bytesOf(ye);
  Buffer whole(0);
  forEachRun(kernel, [&](const Code &code, Split split) {
    std::string where = what + " " + code.variant;
    Buffer full(all * outRow), xAll = Buffer::of(x, xe);
    kernel.run(code, Buffers().add(xAll).add(weights).add(full).list, {all}, split);
    expectClose(full, ye, ref, where, narrow);
    if (split == Split::Whole)
      whole = full;
    expectSameBits(full, whole, where + " split");
    for (int64_t rows : kRowCounts) {
      Buffer out(rows * outRow), in = Buffer::of(firstRows(x, rows), xe);
      kernel.run(code, Buffers().add(in).add(weights).add(out).list, {rows}, split);
      expectSameBits(out, full, where + " rows " + std::to_string(rows));
    }
    Array<double> one = firstRows(x, 1); // row 66, alone
    std::copy_n(x.data.begin() + 66 * one.size(), one.size(), one.data.begin());
    Buffer out(outRow), in = Buffer::of(one, xe);
    kernel.run(code, Buffers().add(in).add(weights).add(out).list, {1}, split);
    EXPECT_EQ(std::memcmp(out.data(), static_cast<char *>(full.data()) + 66 * outRow, size_t(outRow)), 0) << where << " row 66 alone";
  });
}

class GemmTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GemmTest, MatchesReference) {
  GemmCase c = GetParam();
  Weight w = makeWeight(c, {c.n, c.k}, 1);
  std::string xt = tensorText({kCapacity, c.k}, c.x), yt = tensorText({kCapacity, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type, "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + w.type +
                                                                     ") outs(%o : " + yt + ") site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({130, c.k}, c.x, 2);
  if (isShort(c))
    for (int64_t i = 0; i < x.size(); ++i) // every product is positive
      x.data[size_t(i)] = std::copysign(x.data[size_t(i)], w.values.data[size_t(i % c.k)]);
  checkRows(*kernel, x, c.x, kernel->pack(1, w), linear(x, w.values), c.y, describe(c));
}

INSTANTIATE_TEST_SUITE_P(Shapes, GemmTest,
                         ::testing::Values(GemmCase{160, 88, Elem::F32, Elem::F32, "f32"}, GemmCase{1, 1, Elem::F32, Elem::F32, "f32"},
                                           GemmCase{1100, 17, Elem::F32, Elem::F32, "f32"}, GemmCase{96, 40, Elem::F32, Elem::F32, "bf16"},
                                           GemmCase{3, 17, Elem::F32, Elem::F32, "bf16"}, GemmCase{1, 40, Elem::BF16, Elem::BF16, "bf16"},
                                           GemmCase{3, 88, Elem::BF16, Elem::F32, "bf16"}, GemmCase{576, 96, Elem::BF16, Elem::BF16, "bf16"},
                                           GemmCase{1100, 1, Elem::BF16, Elem::F32, "bf16"}, GemmCase{512, 64, Elem::BF16, Elem::F32, "f32"},
                                           GemmCase{1100, 88, Elem::BF16, Elem::F32, "fp8"}, GemmCase{576, 40, Elem::BF16, Elem::BF16, "fp8row"},
                                           GemmCase{3, 17, Elem::BF16, Elem::F32, "fp8"}, GemmCase{96, 160, Elem::F32, Elem::F32, "fp8", Elem::F32},
                                           GemmCase{1100, 17, Elem::F32, Elem::F32, "fp8row", Elem::F32},
                                           GemmCase{1, 1, Elem::F32, Elem::F32, "fp8"}, GemmCase{1102, 40, Elem::BF16, Elem::F32, "fp8row"},
                                           GemmCase{160, 88, Elem::BF16, Elem::F32, "fp8", Elem::F32},
                                           GemmCase{1100, 88, Elem::BF16, Elem::F32, "int8"}, GemmCase{96, 40, Elem::F32, Elem::F32, "int8", Elem::F32},
                                           GemmCase{1101, 17, Elem::BF16, Elem::F32, "int4"}, GemmCase{96, 40, Elem::F32, Elem::F32, "int4g32", Elem::F32},
                                           GemmCase{1100, 40, Elem::BF16, Elem::BF16, "int4zero"}, GemmCase{3, 17, Elem::BF16, Elem::F32, "int4zero", Elem::F32}),
                         [](const auto &info) { return describe(info.param); });

TEST(GemmView, ReadsLanesOfWiderRows) {
  Weight w = plainWeight({40, 96}, Elem::BF16, 1);
  auto kernel = Kernel::compile("%x: tensor<160x200xbf16>, %w: " + w.type,
                                "%v = kernel.view %x at 70 : tensor<160x200xbf16> -> tensor<160x96xbf16>\n%o = kernel.empty : tensor<160x40xf32>\n"
                                "%r = kernel.gemm ins(%v, %w : tensor<160x96xbf16>, " +
                                    w.type + ") outs(%o : tensor<160x40xf32>) site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({130, 200}, Elem::BF16, 2);
  checkRows(*kernel, x, Elem::BF16, kernel->pack(1, w), linear(lanes(x, 70, 96), w.values), Elem::F32, "view");
}

TEST(GemmHeads, ReadsAllHeadsAsOneRow) {
  Weight w = plainWeight({33, 3 * 40}, Elem::BF16, 1);
  auto kernel = Kernel::compile("%x: tensor<160x3x40xbf16>, %w: " + w.type,
                                "%o = kernel.empty : tensor<160x33xf32>\n%r = kernel.gemm ins(%x, %w : tensor<160x3x40xbf16>, " + w.type +
                                    ") outs(%o : tensor<160x33xf32>) site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({130, 120}, Elem::BF16, 2);
  checkRows(*kernel, x, Elem::BF16, kernel->pack(1, w), linear(x, w.values), Elem::F32, "heads");
}

class GatedGemmTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GatedGemmTest, MatchesReference) {
  GemmCase c = GetParam();
  Weight gate = makeWeight(c, {c.n, c.k}, 1), up = makeWeight(c, {c.n, c.k}, 3);
  std::string xt = tensorText({kCapacity, c.k}, c.x), yt = tensorText({kCapacity, c.n}, c.y), via = name(c.x);
  auto kernel = Kernel::compile("%x: " + xt + ", %g: " + gate.type + ", %u: " + up.type,
                                "%o = kernel.empty : " + yt + "\n%r = kernel.gated_gemm ins(%x, %g, %u : " + xt + ", " + gate.type + ", " + up.type +
                                    ") outs(%o : " + yt + ") via " + via + " site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({130, c.k}, c.x, 2);
  Array<double> ref = *reference::swiglu(rounded(linear(x, gate.values), c.x), rounded(linear(x, up.values), c.x));
  std::vector<Buffer> weights = kernel->pack(1, gate);
  for (Buffer &b : kernel->pack(2, up))
    weights.push_back(b);
  checkRows(*kernel, x, c.x, weights, ref, c.y, describe(c), 5e-3); // three roundings
}

INSTANTIATE_TEST_SUITE_P(Shapes, GatedGemmTest,
                         ::testing::Values(GemmCase{160, 40, Elem::F32, Elem::F32, "f32"}, GemmCase{576, 88, Elem::BF16, Elem::BF16, "bf16"},
                                           GemmCase{1100, 17, Elem::BF16, Elem::BF16, "fp8"}, GemmCase{256, 40, Elem::BF16, Elem::BF16, "int4g32"}),
                         [](const auto &info) { return describe(info.param); });

class BatchedGemmTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(BatchedGemmTest, MatchesReference) {
  GemmCase c = GetParam();
  Weight w = makeWeight(c, {3, c.n, c.k}, 1);
  int64_t wide = c.k + 24; // x is a view at lane 8 of each head
  std::string source = tensorText({kCapacity, 3, wide}, c.x), xt = tensorText({kCapacity, 3, c.k}, c.x), yt = tensorText({kCapacity, 3, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + source + ", %w: " + w.type,
                                "%v = kernel.view %x at 8 : " + source + " -> " + xt + "\n%o = kernel.empty : " + yt +
                                    "\n%r = kernel.batched_gemm ins(%v, %w : " + xt + ", " + w.type + ") outs(%o : " + yt + ") site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({130, 3, wide}, c.x, 2);
  checkRows(*kernel, x, c.x, kernel->pack(1, w), *reference::batchedLinear(lanes(x, 8, c.k), w.values), c.y, describe(c));
}

INSTANTIATE_TEST_SUITE_P(Shapes, BatchedGemmTest,
                         ::testing::Values(GemmCase{48, 96, Elem::F32, Elem::F32, "f32"}, GemmCase{128, 40, Elem::BF16, Elem::BF16, "bf16"},
                                           GemmCase{160, 17, Elem::BF16, Elem::F32, "fp8row"}),
                         [](const auto &info) { return describe(info.param); });

//===-- Grouped -----------------------------------------------------------===//

const std::vector<int32_t> kOffsets = {0, 0, 3, 73, 73, 74, 130}; ///< experts of 0, 3, 70, 0, 1 and 56 rows

/// Weights of experts without rows hold nothing that may be read.
void poisonEmptyExperts(std::vector<Buffer> &parts) {
  for (Buffer &b : parts)
    for (size_t e = 0; e + 1 < kOffsets.size(); ++e)
      if (kOffsets[e] == kOffsets[e + 1]) {
        int64_t one = b.size() / int64_t(kOffsets.size() - 1);
        std::memset(static_cast<char *>(b.data()) + int64_t(e) * one, 0xff, size_t(one));
      }
}

class GroupedGemmTest : public ::testing::TestWithParam<GemmCase> {};

TEST_P(GroupedGemmTest, DownMatchesReference) {
  GemmCase c = GetParam();
  Weight w = makeWeight(c, {6, c.n, c.k}, 1);
  std::string xt = tensorText({320, c.k}, c.x), yt = tensorText({320, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type + ", %f: tensor<7xi32>",
                                "%o = kernel.empty : " + yt + "\n%r = kernel.grouped_gemm ins(%x, %w, %f : " + xt + ", " + w.type +
                                    ", tensor<7xi32>) outs(%o : " + yt + ") site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({130, c.k}, c.x, 2);
  Array<double> ref = *reference::groupedLinear(x, w.values, Ids({7}, kOffsets));
  std::vector<Buffer> weights = kernel->pack(1, w);
  poisonEmptyExperts(weights);
  Buffer in = Buffer::of(x, c.x), offsets = Buffer::of(kOffsets);
  // Expert 2's rows 30 .. 39 alone.
  std::vector<int32_t> few = {0, 0, 0, 10, 10, 10, 10};
  Array<double> ten = firstRows(x, 10);
  std::copy_n(x.row(33), ten.size(), ten.data.begin());
  Buffer tenIn = Buffer::of(ten, c.x), fewOffsets = Buffer::of(few);
  Buffer whole(0);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer out(ref.size() * bytesOf(c.y)), tenOut(10 * c.n * bytesOf(c.y));
    kernel->run(code, Buffers().add(in).add(weights).add(offsets).add(out).list, {}, split);
    expectClose(out, c.y, ref, describe(c) + " " + code.variant);
    if (split == Split::Whole)
      whole = out;
    expectSameBits(out, whole, code.variant + " split");
    kernel->run(code, Buffers().add(tenIn).add(weights).add(fewOffsets).add(tenOut).list, {}, split);
    EXPECT_EQ(std::memcmp(tenOut.data(), static_cast<char *>(out.data()) + 33 * c.n * bytesOf(c.y), size_t(tenOut.size())), 0) << code.variant;
  });
}

TEST_P(GroupedGemmTest, GatedMatchesReference) {
  GemmCase c = GetParam();
  Weight gate = makeWeight(c, {6, c.n, c.k}, 1), up = makeWeight(c, {6, c.n, c.k}, 3);
  std::string xt = tensorText({kCapacity, c.k}, c.x), yt = tensorText({320, c.n}, c.y);
  auto kernel = Kernel::compile("%x: " + xt + ", %g: " + gate.type + ", %u: " + up.type + ", %f: tensor<7xi32>, %t: tensor<320xi32>",
                                "%o = kernel.empty : " + yt + "\n%r = kernel.grouped_gated_gemm ins(%x, %g, %u, %f, %t : " + xt + ", " + gate.type +
                                    ", " + up.type + ", tensor<7xi32>, tensor<320xi32>) outs(%o : " + yt + ") via " + name(c.x) + " site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({65, c.k}, c.x, 2), gathered({130, c.k});
  std::vector<int32_t> tokenOf;
  for (int32_t r = 0; r < 130; ++r) {
    tokenOf.push_back(r * 37 % 65);
    std::copy_n(x.row(tokenOf.back()), c.k, gathered.row(r));
  }
  Ids offsetIds({7}, kOffsets);
  Array<double> ref = *reference::swiglu(rounded(*reference::groupedLinear(gathered, gate.values, offsetIds), c.x),
                                         rounded(*reference::groupedLinear(gathered, up.values, offsetIds), c.x));
  std::vector<Buffer> g = kernel->pack(1, gate), u = kernel->pack(2, up);
  poisonEmptyExperts(g);
  poisonEmptyExperts(u);
  Buffer in = Buffer::of(x, c.x), offsets = Buffer::of(kOffsets), tokens = Buffer::of(tokenOf);
  Buffer whole(0);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer out(ref.size() * bytesOf(c.y));
    kernel->run(code, Buffers().add(in).add(g).add(u).add(offsets).add(tokens).add(out).list, {}, split);
    expectClose(out, c.y, ref, describe(c) + " " + code.variant, 5e-3);
    if (split == Split::Whole)
      whole = out;
    expectSameBits(out, whole, code.variant + " split");
  });

  // Without token_of, rows are gathered already.
  std::string rt = tensorText({320, c.k}, c.x);
  auto inOrder = Kernel::compile("%x: " + rt + ", %g: " + gate.type + ", %u: " + up.type + ", %f: tensor<7xi32>",
                                 "%o = kernel.empty : " + yt + "\n%r = kernel.grouped_gated_gemm ins(%x, %g, %u, %f : " + rt + ", " + gate.type + ", " +
                                     up.type + ", tensor<7xi32>) outs(%o : " + yt + ") via " + name(c.x) + " site \"s\"");
  ASSERT_TRUE(inOrder);
  Buffer rows = Buffer::of(gathered, c.x);
  forEachRun(*inOrder, [&](const Code &code, Split split) {
    Buffer out(ref.size() * bytesOf(c.y));
    inOrder->run(code, Buffers().add(rows).add(g).add(u).add(offsets).add(out).list, {}, split);
    expectClose(out, c.y, ref, describe(c) + " " + code.variant + " in order", 5e-3);
  });
}

INSTANTIATE_TEST_SUITE_P(Shapes, GroupedGemmTest,
                         ::testing::Values(GemmCase{96, 40, Elem::F32, Elem::F32, "f32"}, GemmCase{160, 96, Elem::BF16, Elem::BF16, "bf16"},
                                           GemmCase{576, 40, Elem::BF16, Elem::BF16, "fp8"}, GemmCase{320, 40, Elem::BF16, Elem::BF16, "int4zero"}),
                         [](const auto &info) { return describe(info.param); });

//===-- Codes -------------------------------------------------------------===//

/// Row t of x picks column t of a weight whose code is t: every code comes out as its own value, whatever the scale.
TEST(GemmFp8, DecodesEveryCodeExactly) {
  for (Elem elem : {Elem::F32, Elem::BF16}) {
    Weight w = fp8Weight({16, 256}, elem, 0, 0, 1);
    Array<double> x({256, 256}), ref({256, 16});
    for (int64_t k = 0; k < 256; ++k) {
      x.row(k)[k] = 1;
      uint8_t code = (k & 0x7f) == 0x7f ? uint8_t(k - 1) : uint8_t(k); // no NaN: it would reach every sum
      for (int64_t n = 0; n < 16; ++n) {
        w.codes[size_t(n * 256 + k)] = code;
        w.scales.data[size_t(n * 256 + k)] = 0.5;
        ref.row(k)[n] = e4m3ToFloat(code) * 0.5;
      }
    }
    std::string xt = tensorText({256, 256}, elem);
    auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type, "%o = kernel.empty : tensor<256x16xf32>\n%r = kernel.gemm ins(%x, %w : " + xt +
                                                                       ", " + w.type + ") outs(%o : tensor<256x16xf32>) site \"s\"");
    ASSERT_TRUE(kernel);
    Buffer in = Buffer::of(x, elem);
    std::vector<Buffer> weights = kernel->pack(1, w);
    for (const Code &code : kernel->codes())
      for (int64_t rows : {int64_t(1), int64_t(256)})
        for (int64_t first = 0; first < 256; first += rows) {
          Array<double> some = firstRows(x, rows);
          std::copy_n(x.row(first), some.size(), some.data.begin());
          Buffer out(rows * 16 * 4), in = Buffer::of(some, elem);
          kernel->run(code, Buffers().add(in).add(weights).add(out).list, {rows});
          Array<double> got = out.values({rows, 16}, Elem::F32);
          for (int64_t i = 0; i < got.size(); ++i)
            ASSERT_EQ(got.data[size_t(i)], ref.data[size_t(first * 16 + i)]) << code.variant << " code " << first + i / 16;
        }
  }
}

} // namespace
} // namespace dsv3::codegen::test
