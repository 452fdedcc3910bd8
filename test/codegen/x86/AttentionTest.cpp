// Attention over expanded keys (prefill) and over the paged cache (decode).
#include "test/codegen/x86/Sequences.h"

#include "runtime/reference/ExpandedAttention.h"

#include <gtest/gtest.h>

namespace dsv3::codegen::test {
namespace {

//===-- Prefill -----------------------------------------------------------===//

struct PrefillCase {
  int64_t heads, nope, rope, v;
  Elem q, kv, out;
  double scale = 0.125, spread = 1; ///< a large spread makes scores whose exponentials underflow
};
class AttnPrefillTest : public ::testing::TestWithParam<PrefillCase> {};

/// Rows of q, keys and values by sequence and position, so that they do not depend on the step.
Array<double> queriesOf(const Sequences &s, const PrefillCase &c) {
  Array<double> q({s.step.tokens, c.heads, c.nope + c.rope});
  int64_t row = c.heads * (c.nope + c.rope);
  for (int64_t t = 0; t < s.step.tokens; ++t) {
    uint32_t seed = uint32_t(s.meta.blockTable[size_t(s.meta.tokenSeq[size_t(t)])][0] * 1000 + s.meta.tokenPos[size_t(t)]);
    std::copy_n(randomValues({row}, c.q, seed, c.spread).data.begin(), row, q.data.begin() + t * row);
  }
  return q;
}
reference::ExpandedKeys<double> keysOf(const Sequences &s, const PrefillCase &c) {
  int64_t lanesOfKey = c.nope + c.rope, k = c.heads * lanesOfKey * 64, v = c.heads * 64 * c.v;
  reference::ExpandedKeys<double> e{Array<double>({s.step.kblocks, c.heads, lanesOfKey, 64}), Array<double>({s.step.kblocks, c.heads, 64, c.v})};
  int64_t block = 0;
  for (const std::vector<int32_t> &pages : s.meta.blockTable)
    for (int32_t page : pages) {
      std::copy_n(randomValues({k}, c.kv, uint32_t(page)).data.begin(), k, e.keys.data.begin() + block * k);
      std::copy_n(randomValues({v}, c.kv, uint32_t(page) + 5000).data.begin(), v, e.values.data.begin() + block * v);
      ++block;
    }
  return e;
}

Buffer runPrefill(const Kernel &kernel, const Code &code, const Sequences &s, const PrefillCase &c, Split split) {
  auto expanded = keysOf(s, c);
  Buffer q = Buffer::of(queriesOf(s, c), c.q), k = Buffer::of(expanded.keys, c.kv), v = Buffer::of(expanded.values, c.kv);
  Buffer out(s.step.tokens * c.heads * c.v * bytesOf(c.out));
  Buffers buffers;
  buffers.add(q).add(k).add(v);
  s.add(buffers, kernel.signature());
  kernel.run(code, buffers.add(out).list, s.step, split);
  return out;
}

TEST_P(AttnPrefillTest, MatchesReferenceInAnyChunking) {
  PrefillCase c = GetParam();
  int64_t capacity = capacities().kblocks;
  std::string q = tensorText({160, c.heads, c.nope + c.rope}, c.q), k = tensorText({capacity, c.heads, c.nope + c.rope, 64}, c.kv);
  std::string v = tensorText({capacity, c.heads, 64, c.v}, c.kv), o = tensorText({160, c.heads, c.v}, c.out);
  auto kernel = Kernel::compile("%q: " + q + ", %k: " + k + ", %v: " + v + ", %s: !dsv3.seq",
                                "%o = kernel.empty : " + o + "\n%r = kernel.attn_prefill ins(%q, %k, %v, %s : " + q + ", " + k + ", " + v + ") outs(%o : " +
                                    o + ") scale " + std::to_string(c.scale) + " site \"s\"");
  ASSERT_TRUE(kernel);
  Sequences s({{0, 1}, {40, 23}, {0, 64}, {60, 5}, {170, 30}}); // contexts 1, 63, 64, 65, 200
  Array<double> ref = *reference::expandedAttention(queriesOf(s, c), keysOf(s, c), s.meta, c.scale, c.rope);
  Buffer whole(0);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    Buffer out = runPrefill(*kernel, code, s, c, split);
    EXPECT_LE(rowError(out.values(ref.shape, c.out), ref), c.out == Elem::F32 ? 1e-5 : 3e-3) << code.variant;
    if (split == Split::Whole)
      whole = out;
    expectSameBits(out, whole, code.variant + " split");
    // The first two sequences alone, the second in a smaller chunk: the last rows keep their bits.
    Sequences part({{0, 1}, {50, 13}});
    Buffer alone = runPrefill(*kernel, code, part, c, split);
    int64_t row = c.heads * c.v * bytesOf(c.out);
    EXPECT_EQ(std::memcmp(static_cast<char *>(alone.data()) + row, static_cast<char *>(out.data()) + 11 * row, size_t(13 * row)), 0) << code.variant;
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, AttnPrefillTest,
                         ::testing::Values(PrefillCase{3, 48, 32, 40, Elem::F32, Elem::F32, Elem::F32},
                                           PrefillCase{2, 128, 64, 128, Elem::BF16, Elem::BF16, Elem::BF16},
                                           PrefillCase{3, 48, 32, 40, Elem::BF16, Elem::BF16, Elem::F32},
                                           PrefillCase{1, 7, 2, 89, Elem::F32, Elem::F32, Elem::F32, 1.0, 60}));

//===-- Decode ------------------------------------------------------------===//

struct DecodeCase {
  int64_t heads, latent, rope;
  Elem q, cache, out;
  double spread = 1;
  Codes codes = Codes::None;
};
class AttnDecodeTest : public ::testing::TestWithParam<DecodeCase> {};

TEST_P(AttnDecodeTest, MatchesReferenceAloneAndAmongOthers) {
  DecodeCase c = GetParam();
  int64_t before = 12; // q_rope is a view at lane 12 of [before | rope]
  std::string l = tensorText({160, c.heads, c.latent}, c.q), source = tensorText({160, c.heads, before + c.rope}, c.q);
  std::string r = tensorText({160, c.heads, c.rope}, c.q), o = tensorText({160, c.heads, c.latent}, c.out), kv = cacheText(c.latent, c.rope, c.cache, c.codes);
  auto kernel = Kernel::compile("%l: " + l + ", %x: " + source + ", %kv: " + kv + ", %s: !dsv3.seq",
                                "%q = kernel.view %x at 12 : " + source + " -> " + r + "\n%o = kernel.empty : " + o +
                                    "\n%y = kernel.attn_decode ins(%l, %q, %kv[1], %s : " + l + ", " + r + ", " + kv + ") outs(%o : " + o +
                                    ") scale 0.125 site \"s\"");
  ASSERT_TRUE(kernel);
  Sequences s({{0, 1}, {62, 1}, {63, 1}, {64, 1}, {199, 1}}), alone({{0, 1}, {62, 1}}); // contexts 1, 63, 64, 65, 200
  TestCache cache(s, c.latent, c.rope, c.cache, 3, c.codes);
  Array<double> ql = randomValues({5, c.heads, c.latent}, c.q, 1, c.spread), qr = randomValues({5, c.heads, before + c.rope}, c.q, 2, c.spread);
  Array<double> ref = *reference::latentAttention(ql, lanes(qr, before, c.rope), cache.cache, kLayer, s.meta, 0.125);
  Buffer whole(0);
  forEachRun(*kernel, [&](const Code &code, Split split) {
    auto run = [&](const Sequences &some) {
      int64_t n = some.step.tokens;
      Buffer a = Buffer::of(firstRows(ql, n), c.q), b = Buffer::of(firstRows(qr, n), c.q), out(n * c.heads * c.latent * bytesOf(c.out));
      Step step = some.step;
      step.layerStride = cache.bytes.size() / kLayers;
      Buffers buffers;
      buffers.add(a).add(b).add(cache.bytes);
      some.add(buffers, kernel->signature());
      kernel->run(code, buffers.add(out).list, step, split);
      return out;
    };
    Buffer out = run(s);
    EXPECT_LE(rowError(out.values(ref.shape, c.out), ref), c.out == Elem::F32 ? 1e-5 : 3e-3) << code.variant;
    if (split == Split::Whole)
      whole = out;
    expectSameBits(out, whole, code.variant + " split");
    expectSameBits(run(alone), out, code.variant);
  });
}

INSTANTIATE_TEST_SUITE_P(Forms, AttnDecodeTest,
                         ::testing::Values(DecodeCase{3, 96, 32, Elem::F32, Elem::F32, Elem::F32},
                                           DecodeCase{16, 512, 64, Elem::BF16, Elem::BF16, Elem::BF16},
                                           DecodeCase{2, 40, 10, Elem::BF16, Elem::BF16, Elem::F32},
                                           DecodeCase{4, 96, 32, Elem::F32, Elem::BF16, Elem::F32, 100},
                                           DecodeCase{16, 512, 64, Elem::BF16, Elem::BF16, Elem::BF16, 1, Codes::E4M3},
                                           DecodeCase{2, 40, 10, Elem::F32, Elem::F32, Elem::F32, 1, Codes::E5M2}));

} // namespace
} // namespace dsv3::codegen::test
