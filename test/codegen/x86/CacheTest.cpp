// Kernels that write the paged cache, or expand it to keys and values.
#include "test/codegen/x86/Sequences.h"

#include "runtime/reference/ExpandedAttention.h"
#include "runtime/reference/Norm.h"
#include "runtime/reference/Rope.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {
namespace {

struct Dims {
  int64_t heads, latent, rope, nope, v;
};
constexpr Dims kSmall{3, 96, 32, 48, 40}, kFull{2, 512, 64, 128, 128}, kOdd{1, 40, 10, 17, 33};

//===-- kv_append ---------------------------------------------------------===//

struct AppendCase {
  Dims dims;
  Elem x, cache;
  bool interleaved;
  Codes codes = Codes::None;
};
class KvAppendTest : public ::testing::TestWithParam<AppendCase> {};

/// Codes and scales to the bit, but for what float32 instead of double makes of a norm: nothing, with these seeds.
void expectCodes(const Kernel &kernel, const Buffers &inputs, const Step &step, const PageLayout &layout, const std::vector<int64_t> &slots,
                 const Array<double> &latent, const Array<double> &key, Elem elem) {
  forEachRun(kernel, [&](const Code &code, Split split) {
    Buffer cache(kLayers * step.layerStride, 0x7b);
    Buffers buffers = inputs;
    kernel.run(code, buffers.add(cache).list, step, split);
    char *layer = static_cast<char *>(cache.data()) + kLayer * step.layerStride;
    for (size_t t = 0; t < slots.size(); ++t) {
      if (slots[t] < 0)
        continue;
      int64_t token = slots[t] % 64;
      char *page = layer + slots[t] / 64 * layout.bytes();
      Array<double> row = firstRows(latent, int64_t(t) + 1);
      row.data.erase(row.data.begin(), row.data.end() - layout.latent);
      row.shape = {1, layout.latent};
      CodedRow want(Buffer::of(row, elem).values(row.shape, elem), layout.codes);
      float scale;
      std::memcpy(&scale, page + layout.scaleAt(token), sizeof scale);
      // The norm in float32 may be a bit off the reference's: so the scale, and a code at the border of two.
      EXPECT_LE(std::abs(scale - want.scale), elem == Elem::F32 ? 2.5e-7f * want.scale : 0) << code.variant;
      int64_t others = 0;
      for (size_t i = 0; i < want.codes.size(); ++i)
        others += uint8_t(page[layout.latentAt(token) + int64_t(i)]) != want.codes[i];
      EXPECT_LE(others, elem == Elem::F32 ? 1 : 0) << code.variant << " token " << t;
      Buffer rope(layout.rope * layout.elemBytes);
      std::memcpy(rope.data(), page + layout.ropeAt(token), size_t(layout.rope * layout.elemBytes));
      Array<double> wantKey = lanes(firstRows(key, int64_t(t) + 1), 0, layout.rope);
      wantKey.data.erase(wantKey.data.begin(), wantKey.data.end() - layout.rope);
      wantKey.shape = {1, layout.rope};
      EXPECT_LE(rowError(rope.values({1, layout.rope}, elem), wantKey), 3e-3) << code.variant;
      for (auto [at, n] : {std::pair{layout.latentAt(token), layout.latent}, {layout.ropeAt(token), layout.rope * layout.elemBytes}, {layout.scaleAt(token), int64_t(4)}})
        std::memset(page + at, 0x7b, size_t(n));
    }
    Buffer untouched(kLayers * step.layerStride, 0x7b);
    EXPECT_EQ(std::memcmp(cache.data(), untouched.data(), size_t(kLayers * step.layerStride)), 0) << code.variant << ": wrote another row";
  });
}

TEST_P(KvAppendTest, WritesRowsOfTokensWithASlot) {
  AppendCase c = GetParam();
  Dims d = c.dims;
  Elem xe = c.x, ce = c.cache;
  bool interleaved = c.interleaved;
  int64_t row = d.latent + d.rope, wide = row + 20, tokens = 7; // kv_a is a view at lane 20
  std::string source = tensorText({160, wide}, xe), xt = tensorText({160, row}, xe), gt = tensorText({d.latent}, xe), tt = tensorText({64, d.rope}, Elem::F32);
  std::string kv = cacheText(d.latent, d.rope, ce, c.codes);
  std::string rope = "#dsv3.rope<dims = " + std::to_string(d.rope) + ", theta = 10000.0, interleaved = " + (interleaved ? "true" : "false") + ">";
  auto kernel = Kernel::compile("%x: " + source + ", %g: " + gt + ", %t: " + tt + ", %s: !dsv3.seq, %kv: " + kv,
                                "%a = kernel.view %x at 20 : " + source + " -> " + xt + "\n%r = kernel.kv_append ins(%a, %g, %t, %s : " + xt + ", " + gt +
                                    ", " + tt + ") outs(%kv[1] : " + kv + ") eps 1.0e-06 " + rope + " site \"s\"");
  ASSERT_TRUE(kernel);
  reference::RopeParams params;
  params.dims = d.rope;
  reference::RopeTable angles = *reference::ropeTable(params);
  Array<double> table({64, d.rope});
  for (int64_t p = 0; p < 64; ++p)
    for (int64_t i = 0; i < d.rope / 2; ++i) {
      table.row(p)[i] = angles.at(p, i).cos;
      table.row(p)[i + d.rope / 2] = angles.at(p, i).sin;
    }
  Array<double> x = randomValues({tokens, wide}, xe, 1), gamma = randomValues({d.latent}, xe, 2);
  std::vector<int32_t> positions = {5, 6, 0, 63, 40, 12, 13};
  std::vector<int64_t> slots = {70, 71, -1, 0, 64 * kPoolPages - 1, -1, 999};
  Array<double> kvA = lanes(x, 20, row);
  Array<double> latent = *reference::rmsNorm(lanes(kvA, 0, d.latent), gamma, 1e-6);
  Array<double> key = *reference::rope(lanes(kvA, d.latent, d.rope), Ids({tokens}, positions), angles, 0, interleaved);
  Buffer xb = Buffer::of(x, xe), gb = Buffer::of(gamma, xe), tb = Buffer::of(table, Elem::F32), pb = Buffer::of(positions), sb = Buffer::of(slots);
  Step step{tokens};
  PageLayout layout{d.latent, d.rope, bytesOf(ce), c.codes};
  step.layerStride = kPoolPages * layout.bytes();
  if (c.codes != Codes::None)
    return expectCodes(*kernel, Buffers().add(xb).add(gb).add(tb).add(pb).add(sb), step, layout, slots, latent, key, ce);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer cache(kLayers * step.layerStride, 0x7b);
    kernel->run(code, Buffers().add(xb).add(gb).add(tb).add(pb).add(sb).add(cache).list, step, split);
    Array<double> all = cache.values({kLayers * kPoolPages * 64, row}, ce), got({tokens, row}), want({tokens, row});
    Array<double> untouched = Buffer(4, 0x7b).values({1}, ce);
    for (int64_t t = 0; t < tokens; ++t) {
      if (slots[size_t(t)] < 0)
        continue;
      double *stored = all.row(kLayer * kPoolPages * 64 + slots[size_t(t)]);
      std::copy_n(stored, row, got.row(t));
      std::fill_n(stored, row, untouched.data[0]);
      std::copy_n(latent.row(t), d.latent, want.row(t));
      std::copy_n(key.row(t), d.rope, want.row(t) + d.latent);
    }
    EXPECT_LE(rowError(got, want), ce == Elem::F32 ? 1e-5 : 3e-3) << code.variant;
    EXPECT_EQ(all.data, std::vector<double>(all.data.size(), untouched.data[0])) << code.variant << ": wrote another row";
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, KvAppendTest,
                         ::testing::Values(AppendCase{kSmall, Elem::F32, Elem::F32, true}, AppendCase{kFull, Elem::BF16, Elem::BF16, true},
                                           AppendCase{kOdd, Elem::F32, Elem::BF16, false}, AppendCase{kOdd, Elem::BF16, Elem::F32, true},
                                           AppendCase{kFull, Elem::BF16, Elem::BF16, true, Codes::E4M3}, AppendCase{kFull, Elem::BF16, Elem::BF16, true, Codes::E5M2},
                                           AppendCase{kOdd, Elem::BF16, Elem::F32, false, Codes::E4M3}, AppendCase{kOdd, Elem::F32, Elem::BF16, true, Codes::E5M2}));

/// Rows of zeros have scale 1; neighbours 1000 times apart keep scales of their own.
TEST(KvAppendCodes, ScalesAreATokensOwn) {
  constexpr int64_t latent = 96, rope = 32, row = latent + rope;
  std::string xt = tensorText({160, row}, Elem::F32), gt = tensorText({latent}, Elem::F32), tt = tensorText({64, rope}, Elem::F32);
  std::string kv = cacheText(latent, rope, Elem::F32, Codes::E4M3);
  // An eps far above the rows' squares: the norm keeps their ratios.
  auto kernel = Kernel::compile("%x: " + xt + ", %g: " + gt + ", %t: " + tt + ", %s: !dsv3.seq, %kv: " + kv,
                                "%r = kernel.kv_append ins(%x, %g, %t, %s : " + xt + ", " + gt + ", " + tt + ") outs(%kv[1] : " + kv +
                                    ") eps 1.0e+12 #dsv3.rope<dims = 32, theta = 10000.0, interleaved = true> site \"s\"");
  ASSERT_TRUE(kernel);
  Array<double> x = randomValues({3, row}, Elem::F32, 5), gamma({latent}), table({64, rope});
  std::fill(gamma.data.begin(), gamma.data.end(), 1e6);
  for (int64_t i = 0; i < row; ++i)
    x.row(1)[i] = x.row(0)[i] * 1024, x.row(2)[i] = 0;
  Buffer xb = Buffer::of(x, Elem::F32), gb = Buffer::of(gamma, Elem::F32), tb = Buffer::of(table, Elem::F32), pb = Buffer::of(std::vector<int32_t>{0, 1, 2}),
         sb = Buffer::of(std::vector<int64_t>{64, 65, 66});
  PageLayout layout{latent, rope, 4, Codes::E4M3};
  Step step{3};
  step.layerStride = kPoolPages * layout.bytes();
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer cache(kLayers * step.layerStride, 0x7b);
    kernel->run(code, Buffers().add(xb).add(gb).add(tb).add(pb).add(sb).add(cache).list, step, split);
    char *page = static_cast<char *>(cache.data()) + kLayer * step.layerStride + layout.bytes();
    float scales[3];
    std::memcpy(scales, page + layout.scaleAt(0), sizeof scales);
    EXPECT_NEAR(scales[1] / scales[0], 1024, 0.1) << code.variant;
    EXPECT_EQ(scales[2], 1.0f) << code.variant;
    EXPECT_EQ(std::memcmp(page + layout.latentAt(0), page + layout.latentAt(1), size_t(latent)), 0) << code.variant;
    EXPECT_EQ(std::string(page + layout.latentAt(2), size_t(latent)), std::string(size_t(latent), '\0')) << code.variant;
  });
}

//===-- kv_expand ---------------------------------------------------------===//

struct ExpandCase {
  Dims dims;
  Elem cache, out;
  const char *weight; ///< "f32", "bf16", "fp8"
  Codes codes = Codes::None;
};
class KvExpandTest : public ::testing::TestWithParam<ExpandCase> {};

Weight weightOf(const std::string &kind, Shape shape, uint32_t seed) {
  if (kind == "fp8")
    return fp8Weight(shape, Elem::BF16, 128, 128, seed);
  return plainWeight(shape, kind == "f32" ? Elem::F32 : Elem::BF16, seed);
}

TEST_P(KvExpandTest, MatchesReference) {
  ExpandCase c = GetParam();
  Dims d = c.dims;
  Elem ce = c.cache, oe = c.out;
  std::string kind = c.weight;
  Weight wk = weightOf(kind, {d.heads, d.nope, d.latent}, 1), wv = weightOf(kind, {d.heads, d.v, d.latent}, 2);
  int64_t capacity = capacities().kblocks, lanesOfKey = d.nope + d.rope;
  std::string kv = cacheText(d.latent, d.rope, ce, c.codes), kt = tensorText({capacity, d.heads, lanesOfKey, 64}, oe), vt = tensorText({capacity, d.heads, 64, d.v}, oe);
  auto kernel = Kernel::compile("%kv: " + kv + ", %wk: " + wk.type + ", %wv: " + wv.type + ", %s: !dsv3.seq",
                                "%k0 = kernel.empty : " + kt + "\n%v0 = kernel.empty : " + vt + "\n%k, %v = kernel.kv_expand ins(%kv[1], %wk, %wv, %s : " +
                                    kv + ", " + wk.type + ", " + wv.type + ") outs(%k0, %v0 : " + kt + ", " + vt + ") site \"s\" -> " + kt + ", " + vt);
  ASSERT_TRUE(kernel);
  Sequences s({{0, 1}, {40, 23}, {63, 1}, {60, 5}, {170, 30}}); // contexts 1, 63, 64, 65, 200
  TestCache cache(s, d.latent, d.rope, ce, 3, c.codes);
  auto ref = *reference::expandKeys(cache.cache, kLayer, wk.values, wv.values, s.meta);
  std::vector<Buffer> k = kernel->pack(1, wk), v = kernel->pack(2, wv);
  Step step = s.step;
  step.layerStride = cache.bytes.size() / kLayers;
  ASSERT_EQ(step.kblocks, ref.keys.dim(0));
  // Per block and head: a row of keys is one lane, and a block of one key has rows of one number.
  ref.keys.shape = {step.kblocks * d.heads, lanesOfKey * 64};
  Buffer first(0);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer keys(ref.keys.size() * bytesOf(oe)), values(ref.values.size() * bytesOf(oe));
    Buffers buffers;
    buffers.add(cache.bytes).add(k).add(v);
    s.add(buffers, kernel->signature());
    kernel->run(code, buffers.add(keys).add(values).list, step, split);
    expectClose(keys, oe, ref.keys, code.variant);
    expectClose(values, oe, ref.values, code.variant);
    Array<double> stored = keys.values(ref.keys.shape, oe);
    for (int64_t i = 0; i < stored.size(); ++i)
      if (ref.keys.data[size_t(i)] == 0) // past the context
        ASSERT_EQ(stored.data[size_t(i)], 0) << code.variant;
    if (split != Split::Whole)
      expectSameBits(keys, first, code.variant);
    first = keys;
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, KvExpandTest,
                         ::testing::Values(ExpandCase{kSmall, Elem::F32, Elem::F32, "f32"}, ExpandCase{kFull, Elem::BF16, Elem::BF16, "bf16"},
                                           ExpandCase{kOdd, Elem::BF16, Elem::F32, "fp8"}, ExpandCase{kSmall, Elem::BF16, Elem::BF16, "fp8"},
                                           ExpandCase{kFull, Elem::BF16, Elem::BF16, "fp8", Codes::E4M3}, ExpandCase{kFull, Elem::BF16, Elem::BF16, "bf16", Codes::E5M2},
                                           ExpandCase{kOdd, Elem::F32, Elem::F32, "f32", Codes::E4M3}));

} // namespace
} // namespace dsv3::codegen::test
