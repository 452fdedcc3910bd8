// The checker against kernels made on the CPU: right ones pass, each planted fault is named.
#include "test/tools/dsv3-bench/Cases.h"
#include "tools/dsv3-bench/Check.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace dsv3;
using namespace dsv3::bench;

namespace {
using Bytes = std::vector<uint8_t>;

void put(Bytes &bytes, DType t, size_t i, double v) {
  auto x = float(v);
  convertFromFloat(t, &x, 1, bytes.data() + i * byteSize(t));
}

/// A case, its data, the reference's expectations and the output of a right kernel.
struct Fixture {
  Pack pack;
  std::unique_ptr<CaseData> data;
  Expected expected;
  Outputs right;

  explicit Fixture(Case c) : pack(packOf(std::move(c))) {
    data = std::make_unique<CaseData>(dataOf(pack));
    Result<Expected> e = expect(one(), *data, 16);
    EXPECT_TRUE(e) << e.error().message;
    if (e)
      expected = std::move(*e);
    for (const Buffer &b : one().buffers)
      if (b.role == Role::Output)
        right[b.name] = Bytes(size_t(b.bytes), kPoison);
  }
  const Case &one() const { return pack.cases[0]; }
  std::string problem(const Outputs &first, const Outputs &second) const { return check(one(), *data, expected, first, second).problem; }
  std::string problem(const Outputs &both) const { return problem(both, both); }
};

/// x w^T in float, as a simple kernel would.
Fixture gemm(Case c) {
  Fixture f(std::move(c));
  const Buffer &x = *f.one().find("x"), &out = *f.one().find("out");
  for (int64_t t = 0; t < f.data->shape().rows; ++t)
    for (int64_t n = 0; n < out.shape[1]; ++n) {
      float sum = 0;
      for (int64_t k = 0; k < x.lanes; ++k)
        sum += float(f.data->input(x, t * x.shape[1] + x.at + k)) * float(f.data->weight("w").value(n, k));
      put(f.right["out"], out.elem, size_t(t * out.shape[1] + n), sum);
    }
  return f;
}
} // namespace

TEST(CheckTest, RightGemmPasses) {
  Fixture f = gemm(gemmCase({{"m", 8}, {"rows", 7}, {"n", 40}, {"k", 64}}));
  Verdict v = check(f.one(), *f.data, f.expected, f.right, f.right);
  EXPECT_EQ(v.problem, "");
  EXPECT_EQ(v.rows, 7);
  EXPECT_GT(v.worst, 1e-4); // bf16 rounds
  EXPECT_LT(v.worst, 3e-3);
}

TEST(CheckTest, QuantisedRowsAreReadWithTheirScales) {
  Case c;
  c.name = c.op = "quantize";
  c.shape = {{"op", "quantize"}, {"m", 3}, {"rows", 2}, {"d", 256}};
  c.buffers = {plain("x", Role::Input, DType::BF16, {3, 256}), fp8Rows("out", Role::Output, 3, 256)};
  Fixture f(c);
  Bytes &out = f.right["out"];
  const Buffer &b = f.one().buffers[1];
  for (const ExpectedRow &row : f.expected.rows)
    for (int64_t i = 0; i < 256; ++i) {
      double most = 0;
      for (int64_t j = i / 128 * 128; j < (i / 128 + 1) * 128; ++j)
        most = std::max(most, std::fabs(row.values[size_t(j)]));
      put(out, DType::F8E4M3, size_t(row.row * 256 + i), row.values[size_t(i)] / (most / 448));
      auto scale = float(most / 448);
      std::memcpy(out.data() + b.parts[1].offset + (row.row * 2 + i / 128) * 4, &scale, 4);
    }
  EXPECT_EQ(f.problem(f.right), "");
  Verdict v = check(f.one(), *f.data, f.expected, f.right, f.right);
  EXPECT_EQ(v.rows, 2);
  EXPECT_EQ(v.bits.size(), 16u);

  Outputs wrong = f.right;
  std::swap(wrong["out"][size_t(b.parts[1].offset)], wrong["out"][size_t(b.parts[1].offset) + 4]); // scales of two groups
  std::swap(wrong["out"][size_t(b.parts[1].offset) + 2], wrong["out"][size_t(b.parts[1].offset) + 6]);
  EXPECT_NE(check(f.one(), *f.data, f.expected, wrong, wrong).bits, v.bits);
  wrong = f.right;
  std::memset(wrong["out"].data() + b.parts[1].offset, 0xff, 4); // not written
  EXPECT_EQ(f.problem(wrong), "out row 0 lane 0: expected a number, got NaN or what was there before");
  EXPECT_EQ(f.problem(f.right, wrong).substr(0, 45), "out row 0 lane 0: expected equal bits in two ");
  wrong = f.right;
  wrong["out"][5] ^= 0x7c;
  EXPECT_NE(f.problem(wrong), "");
}

/// A number between two codes may become either; one that becomes a code further off is wrong.
TEST(CheckTest, ProductsMayRoundToEitherCode) {
  Case c;
  c.name = c.op = "gated_gemm";
  c.shape = {{"op", "gated_gemm"}, {"m", 4}, {"n", 128}, {"k", 64}};
  c.buffers = {plain("x", Role::Input, DType::BF16, {4, 64}), weight("w_gate", DType::BF16, {128, 64}, "(n, k) -> [n, k]"),
               weight("w_up", DType::BF16, {128, 64}, "(n, k) -> [n, k]"), fp8Rows("out", Role::Output, 4, 128)};
  Fixture f(c);
  const Buffer &b = *f.one().find("out");
  auto store = [&](Outputs &to, double error) {
    Bytes &out = to["out"];
    for (const ExpectedRow &row : f.expected.rows) {
      ASSERT_EQ(row.plain.size(), 128u);
      double most = 0;
      for (double v : row.plain)
        most = std::max(most, std::fabs(v));
      auto scale = float(most / 448);
      std::memcpy(out.data() + b.parts[1].offset + row.row * 4, &scale, 4);
      for (size_t i = 0; i < 128; ++i)
        put(out, DType::F8E4M3, size_t(row.row) * 128 + i, row.plain[i] * (1 + error) / double(scale));
    }
  };
  store(f.right, 0);
  EXPECT_EQ(f.problem(f.right), "");
  Outputs near = f.right, far = f.right;
  store(near, 1e-3);
  EXPECT_NE(near["out"], f.right["out"]) << "no number lies between two codes: the test says nothing";
  EXPECT_EQ(f.problem(near), "");
  store(far, 0.05);
  EXPECT_NE(f.problem(far), "");
  Bytes &codes = far["out"] = f.right["out"];
  auto largest = std::find_if(codes.begin(), codes.end(), [](uint8_t c) { return (c & 0x7f) == 0x7e; });
  *largest -= 2; // 384 for 448
  EXPECT_EQ(f.problem(far).substr(0, 9), "out row 0");
}

TEST(CheckTest, RightGemmOfAViewAndOfFp8Passes) {
  Case view = gemmCase({{"m", 3}, {"n", 16}, {"k", 32}});
  view.buffers[0].shape = {3, 48};
  view.buffers[0].bytes = 3 * 48 * 2;
  view.buffers[0].at = 8;
  view.buffers[0].lanes = 32;
  Fixture f = gemm(view);
  EXPECT_EQ(f.problem(f.right), "");
  Case quantised = gemmCase({{"m", 3}, {"n", 130}, {"k", 256}});
  quantised.buffers[1] = fp8Weight("w", 130, 256);
  Fixture g = gemm(quantised);
  EXPECT_EQ(g.problem(g.right), "");
}

TEST(CheckTest, FaultsAreNamed) {
  Fixture f = gemm(gemmCase({{"m", 8}, {"rows", 7}, {"n", 40}, {"k", 64}}));
  auto planted = [&](size_t element, double v) {
    Outputs o = f.right;
    put(o["out"], DType::BF16, element, v);
    return o;
  };
  EXPECT_NE(f.problem(planted(6 * 40 + 39, 30)).find("out row 6: expected relative error below 0.005"), std::string::npos);
  EXPECT_NE(f.problem(planted(85, NAN)).find("out row 2 lane 5: expected a number, got NaN"), std::string::npos);
  Outputs unwritten = f.right;
  unwritten["out"][170] = unwritten["out"][171] = kPoison;
  EXPECT_NE(f.problem(unwritten).find("out row 2 lane 5: expected a number, got what was there before"), std::string::npos);
  EXPECT_NE(f.problem(f.right, planted(85, 1e-3)).find("expected equal bits in two runs"), std::string::npos);
  EXPECT_NE(f.problem({}, {}).find("expected output out, got none"), std::string::npos);
  EXPECT_EQ(f.problem(planted(7 * 40, 30)), ""); // a row past the step belongs to nobody
}

/// One wrong element of a long row does not move the row's norm by 5e-3.
TEST(CheckTest, OneWrongElementOfALongRowIsSeen) {
  Fixture f = gemm(gemmCase({{"m", 1}, {"n", 60000}, {"k", 8}}));
  EXPECT_EQ(f.problem(f.right), "");
  double rms = 0.02 * std::sqrt(8.0);
  Outputs o = f.right;
  put(o["out"], DType::BF16, 777, f.expected.rows[0].values[777] + rms);
  EXPECT_NE(f.problem(o).find("out row 0 lane 777: expected"), std::string::npos);
}

TEST(CheckTest, DispatchIsExact) {
  Case c;
  c.name = c.op = "dispatch";
  c.shape = {{"op", "dispatch"}, {"m", 16}, {"rows", 9}, {"top", 2}, {"experts", 8}};
  c.buffers = {plain("ids", Role::Input, DType::I32, {16, 2}), plain("offsets", Role::Output, DType::I32, {9}),
               plain("token_of", Role::Output, DType::I32, {32}), plain("row_of", Role::Output, DType::I32, {16, 2})};
  Fixture f(c);
  const Routing &r = f.data->routing(0);
  auto copy = [&](const char *name, const std::vector<int32_t> &v) { std::memcpy(f.right[name].data(), v.data(), v.size() * 4); };
  copy("offsets", r.offsets.data);
  copy("token_of", r.tokenOf.data);
  copy("row_of", r.rowOf.data);
  EXPECT_EQ(f.problem(f.right), "");
  Outputs o = f.right;
  o["row_of"][17 * 4] ^= 1;
  EXPECT_NE(f.problem(o).find("row_of element 17: expected"), std::string::npos);
}

TEST(CheckTest, ExpertsOfEqualScoreMayBeExchangedOthersNot) {
  Case c;
  c.name = c.op = "route";
  c.shape = {{"op", "route"}, {"m", 4}, {"experts", 16}, {"groups", 4}, {"keep", 2}, {"top", 2}};
  c.buffers = {plain("logits", Role::Input, DType::F32, {4, 16}), weight("bias", DType::F32, {16}, "(n) -> [n]"),
               plain("ids", Role::Output, DType::I32, {4, 2}), plain("weights", Role::Output, DType::F32, {4, 2})};
  Fixture f(c);
  for (const ExpectedExperts &e : f.expected.experts)
    std::memcpy(f.right["ids"].data() + e.token * 8, e.ids.data(), 8);
  for (const ExpectedRow &r : f.expected.rows)
    for (size_t k = 0; k < 2; ++k)
      put(f.right["weights"], DType::F32, size_t(r.row) * 2 + k, r.values[k]);
  EXPECT_EQ(f.problem(f.right), "");
  Outputs o = f.right;
  int32_t swapped[2] = {f.expected.experts[1].ids[1], f.expected.experts[1].ids[0]};
  std::memcpy(o["ids"].data() + 8, swapped, 8);
  EXPECT_NE(f.problem(o).find("ids row 1 lane 0: expected expert"), std::string::npos);
  std::vector<double> &scores = f.expected.experts[1].scores;
  scores[size_t(swapped[0])] = scores[size_t(swapped[1])];
  EXPECT_EQ(f.problem(o), "");
}

TEST(CheckTest, AttentionRowsAreThoseOfTheWholeStep) {
  Case c;
  c.name = c.op = "attn_decode";
  c.shape = {{"op", "attn_decode"}, {"m", 4}, {"batch", 3}, {"ctx", {1, 70, 130}}, {"heads", 2}, {"latent", 16}, {"scale", 0.25}};
  c.buffers = {plain("q_latent", Role::Input, DType::BF16, {4, 2, 16}), plain("q", Role::Input, DType::BF16, {4, 2, 12}),
               plain("step", Role::Step, DType::U8, {64}), plain("kv", Role::Cache, DType::BF16, {1, 0, 64, 24}),
               plain("out", Role::Output, DType::BF16, {4, 2, 16})};
  c.buffers[1].at = 4;
  c.buffers[1].lanes = 8;
  Fixture f(c);
  reference::SeqMeta seq = f.data->sequences(0);
  const Buffer &kv = *f.one().find("kv");
  for (int64_t s = 0; s < 3; ++s)
    for (int64_t h = 0; h < 2; ++h) {
      std::vector<double> weightOf, sum(16, 0.0);
      double total = 0;
      for (int64_t p = 0; p < seq.ctxLen[size_t(s)]; ++p) {
        double score = 0;
        for (int64_t i = 0; i < 24; ++i) {
          double q = i < 16 ? f.data->input(c.buffers[0], (s * 2 + h) * 16 + i) : f.data->input(c.buffers[1], (s * 2 + h) * 12 + 4 + i - 16);
          score += q * f.data->cached(kv, seq.blockTable[size_t(s)][size_t(p / 64)], p % 64, i);
        }
        double e = std::exp(score * 0.25);
        total += e;
        for (int64_t i = 0; i < 16; ++i)
          sum[size_t(i)] += e * f.data->cached(kv, seq.blockTable[size_t(s)][size_t(p / 64)], p % 64, i);
      }
      for (int64_t i = 0; i < 16; ++i)
        put(f.right["out"], DType::BF16, size_t((s * 2 + h) * 16 + i), sum[size_t(i)] / total);
    }
  EXPECT_EQ(f.problem(f.right), "");
  EXPECT_GE(f.expected.rows.size(), 6u);
}

TEST(CheckTest, AppendedRowsAreComparedAndOthersKeepTheirBits) {
  Case c;
  c.name = c.op = "kv_append";
  c.shape = {{"op", "kv_append"}, {"m", 4}, {"lens", {2, 1}}, {"past", {63, 0}}, {"latent", 16}};
  c.buffers = {plain("kv_a", Role::Input, DType::BF16, {4, 24}), weight("gamma", DType::BF16, {16}, "(n) -> [n]"),
               weight("table", DType::F32, {65, 8}, "(n, k) -> [n, k]"), plain("step", Role::Step, DType::U8, {64}),
               plain("kv", Role::Cache, DType::BF16, {1, 0, 64, 24})};
  Fixture f(c);
  f.right["kv"] = f.data->bytes(c.buffers[4], 0);
  for (const ExpectedRow &r : f.expected.rows)
    for (size_t i = 0; i < r.values.size(); ++i)
      put(f.right["kv"], DType::BF16, size_t(r.row) * 24 + i, r.values[i]);
  ASSERT_EQ(f.expected.rows.size(), 3u);
  EXPECT_EQ(f.problem(f.right), "");
  Outputs o = f.right;
  o["kv"][size_t((f.expected.rows[0].row ^ 1) * 48)] ^= 1;
  EXPECT_NE(f.problem(o).find("does not append to keep its bits"), std::string::npos);
}
