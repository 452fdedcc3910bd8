// Kernels of test/dialects/tile run on the host: values against a plain loop, and no rule broken in any schedule.
#include "passes/tile/sim/Numbers.h"
#include "test/passes/tile/Mutants.h"
#include "test/passes/tile/SimulatorFixture.h"

#include <cmath>
#include <set>

namespace dsv3::tile {
namespace {

/// C = A B^T with bf16 operands.
struct GemmCase {
  int64_t m, n, k;
  std::vector<uint16_t> a, b, c;
  std::vector<int64_t> scalars;

  GemmCase(int64_t m, int64_t n, int64_t k) : m(m), n(n), k(k), a(randomBf16(m * k, 1)), b(randomBf16(n * k, 2)), c(m * n, 0x7fff), scalars(8) {
    scalars[0] = m;
  }
  std::vector<SimArgument> arguments() {
    return {SimArgument::memory(scalars.data(), {8}), SimArgument::memory(a.data(), {m, k}), SimArgument::memory(b.data(), {n, k}),
            SimArgument::memory(c.data(), {m, n}),    SimArgument::scalar(double(n)),        SimArgument::scalar(double(k))};
  }
  /// Elements of c that are not the sum in double, rounded to bf16 once (an ulp is for the order of the sum).
  int64_t wrong() const {
    int64_t bad = 0;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t x = 0; x < k; ++x)
          sum += double(bf16ToFloat(a[i * k + x])) * double(bf16ToFloat(b[j * k + x]));
        bad += !(std::fabs(bf16ToFloat(c[i * n + j]) - sum) <= std::fabs(sum) / 256);
      }
    return bad;
  }
};

/// One request of `pages` pages of 64 tokens for `heads` heads, scattered over the pool, in one split.
struct MlaCase {
  static constexpr int64_t kRow = 576, kOut = 512, kPage = 64;
  int64_t heads, pages, pool;
  float scale = 0.02f; ///< log2(e) included
  std::vector<uint16_t> q, kv, out;
  std::vector<float> partial, lse;
  std::vector<int32_t> table, items, parts;

  MlaCase(int64_t heads, int64_t pages)
      : heads(heads), pages(pages), pool(pages + 3), q(randomBf16(heads * kRow, 3)), kv(randomBf16(pool * kPage * kRow, 4)),
        out(heads * kOut), partial(heads * kOut, NAN), lse(heads, NAN), table(pages), items({0, 0, int32_t(pages), 0}), parts({0, 1}) {
    for (int64_t p = 0; p < pages; ++p)
      table[p] = int32_t((p * 5 + 2) % pool);
  }
  std::vector<SimArgument> arguments() {
    return {SimArgument::memory(q.data(), {1, heads, kRow}),
            SimArgument::memory(kv.data(), {pool * kPage, kRow}),
            SimArgument::memory(table.data(), {1, pages}),
            SimArgument::memory(items.data(), {1, 4}),
            SimArgument::memory(parts.data(), {2}),
            SimArgument::memory(out.data(), {1, heads, kOut}),
            SimArgument::memory(partial.data(), {1, heads, kOut}),
            SimArgument::memory(lse.data(), {1, heads}),
            SimArgument::scalar(double(heads)),
            SimArgument::scalar(1),
            SimArgument::scalar(double(scale))};
  }
  /// Largest difference to softmax in double, output and log of the sum.
  double error() const {
    double worst = 0;
    for (int64_t h = 0; h < heads; ++h) {
      std::vector<double> o(kOut);
      double sum = 0;
      for (int64_t t = 0; t < pages * kPage; ++t) {
        const uint16_t *k = &kv[(table[t / kPage] * kPage + t % kPage) * kRow];
        double s = 0;
        for (int64_t i = 0; i < kRow; ++i)
          s += double(bf16ToFloat(q[h * kRow + i])) * double(bf16ToFloat(k[i]));
        const double p = std::exp2(s * double(scale));
        sum += p;
        for (int64_t i = 0; i < kOut; ++i)
          o[i] += p * double(bf16ToFloat(k[i]));
      }
      worst = std::max(worst, std::fabs(std::log2(sum) - double(lse[h])));
      for (int64_t i = 0; i < kOut; ++i)
        worst = std::max(worst, std::fabs(o[i] / sum - double(partial[h * kOut + i])));
    }
    return worst;
  }
};

/// Experts with int4 weights and int8 tokens: counts of tokens per expert, N features, K = 512.
struct GroupedCase {
  std::vector<int32_t> offsets;
  int64_t n, k, rows;
  std::vector<int8_t> tokens;        ///< [k / 128][rows][128], as the tensor map sees it
  std::vector<uint8_t> weights;      ///< [expert][n / 64][k / 128] fragments of 4096 bytes
  std::vector<int8_t> plain;         ///< [expert][n][k]
  std::vector<float> tokenScales, weightScales;
  std::vector<uint16_t> out;

  GroupedCase(std::vector<int> counts, int64_t n, int64_t k) : offsets(1), n(n), k(k) {
    for (int c : counts)
      offsets.push_back(offsets.back() + c);
    rows = offsets.back();
    std::mt19937 random(5);
    auto integer = [&](int low, int high) { return low + int(random() % unsigned(high - low + 1)); };
    for (int64_t i = 0; i < rows * k; ++i)
      tokens.push_back(int8_t(integer(-127, 127)));
    const SmemLayout packed(SmemKind::Frag, {64, 128}, 4, int64_t(FragKind::OpA4));
    weights.resize(counts.size() * n * k / 2);
    plain.resize(counts.size() * n * k);
    for (int64_t row = 0; row < int64_t(counts.size()) * n; ++row)
      for (int64_t x = 0; x < k; ++x) {
        const int v = integer(-8, 7);
        plain[row * k + x] = int8_t(v);
        const int64_t block = row / 64 * (k / 128) + x / 128, bit = packed.bit({row % 64, x % 128});
        weights[block * 4096 + bit / 8] |= uint8_t((v & 15) << (bit % 8));
      }
    for (int64_t i = 0; i < rows; ++i)
      tokenScales.push_back(0.01f + 0.001f * float(i));
    for (int64_t i = 0; i < int64_t(counts.size()) * n; ++i)
      weightScales.push_back(0.001f * float(1 + i % 7));
    out.resize(rows * n, 0x7fff);
  }
  int64_t experts() const { return int64_t(offsets.size()) - 1; }
  std::vector<SimArgument> arguments() {
    return {SimArgument::memory(tokens.data(), {k / 128, rows, 128}),
            SimArgument::memory(tokenScales.data(), {rows}),
            SimArgument::memory(weights.data(), {experts(), n / 64, k / 128, 4096}),
            SimArgument::memory(offsets.data(), {experts() + 1}),
            SimArgument::memory(weightScales.data(), {experts(), n}),
            SimArgument::memory(out.data(), {rows, n}),
            SimArgument::scalar(double(experts())),
            SimArgument::scalar(double(n)),
            SimArgument::scalar(double(k / 512))};
  }
  int64_t wrong() const {
    int64_t bad = 0;
    for (int64_t e = 0; e < experts(); ++e)
      for (int64_t r = offsets[e]; r < offsets[e + 1]; ++r)
        for (int64_t c = 0; c < n; ++c) {
          int64_t sum = 0;
          for (int64_t x = 0; x < k; ++x)
            sum += int64_t(plain[(e * n + c) * k + x]) * tokens[(x / 128 * rows + r) * 128 + x % 128];
          const float want = float(16 * sum) * weightScales[e * n + c] * tokenScales[r]; // expand gives 16 times the value
          bad += out[r * n + c] != floatToBf16(want);
        }
    return bad;
  }
};

} // namespace

/// Bits below the thirteenth of the largest addend are cut off, of sums too.
TEST(Fp8Sums, AreCut) {
  const float one[] = {1, 1}, small[] = {0.75f, -0.75f}, large[] = {8192, 0.5f};
  EXPECT_EQ(sim::addFp8Products(8191, one, small, 1), 8191.5) << "half is the last bit of 8191";
  EXPECT_EQ(sim::addFp8Products(8192, one, small, 2), 8192);
  EXPECT_EQ(sim::addFp8Products(-8192, one, small, 2), -8192) << "towards zero";
  EXPECT_EQ(sim::addFp8Products(0, one, large, 2), 8192) << "beside the largest product";
  EXPECT_EQ(sim::addFp8Products(0, one, small, 2), 0);
  const float infinite[] = {INFINITY, 1};
  EXPECT_EQ(sim::addFp8Products(1, infinite, one, 2), INFINITY);
}

TEST(Simulator, GroupedGemmHasTheRightValues) {
  TileModule module("test/dialects/tile/w4a8.mlir");
  ASSERT_TRUE(module.kernel());
  for (uint64_t seed : {1, 2}) {
    GroupedCase experts({5, 0, 19, 16}, 256, 512); // one k-block of that kernel's packing
    std::vector<SimArgument> args = experts.arguments();
    SimOptions options;
    options.seed = seed;
    Result<SimReport> report = simulate(module.kernel(), args, options);
    ASSERT_TRUE(bool(report)) << report.error().message;
    EXPECT_EQ(describe(*report), "") << "seed " << seed;
    EXPECT_EQ(experts.wrong(), 0) << "seed " << seed;
  }
}

TEST(Simulator, GemmHasTheRightValues) {
  TileModule module("test/dialects/tile/gemm.mlir");
  ASSERT_TRUE(module.kernel());
  for (uint64_t seed : {0, 1, 2, 3}) {
    GemmCase gemm(200, 264, 320); // edges in m and n, five k-blocks on four stages
    std::vector<SimArgument> args = gemm.arguments();
    SimOptions options;
    options.seed = seed;
    options.ctas = 2;
    Result<SimReport> report = simulate(module.kernel(), args, options);
    ASSERT_TRUE(bool(report)) << report.error().message;
    EXPECT_EQ(describe(*report), "") << "seed " << seed;
    EXPECT_EQ(gemm.wrong(), 0) << "seed " << seed;
  }
}

TEST(Simulator, MlaDecodeHasTheRightValues) {
  TileModule module("test/dialects/tile/mla-decode.mlir");
  ASSERT_TRUE(module.kernel());
  MlaCase mla(16, 64); // that kernel's mask counts pages: 64 of them are a whole last page
  std::vector<SimArgument> args = mla.arguments();
  Result<SimReport> report = simulate(module.kernel(), args);
  ASSERT_TRUE(bool(report)) << report.error().message;
  EXPECT_EQ(describe(*report), "");
  EXPECT_LT(mla.error(), 5e-4);
}

/// Runs every mutant on each case in a few schedules; each must be reported by one, but for those in `harmless`.
template <typename Case> void expectMutantsReported(KernelOp kernel, const std::set<std::string> &harmless, const std::vector<Case> &cases) {
  for (const Mutant &mutant : mutantsOf(kernel)) {
    mlir::OwningOpRef<mlir::ModuleOp> module(kernel->getParentOfType<mlir::ModuleOp>().clone());
    KernelOp changed = *module->getOps<KernelOp>().begin();
    mutant.apply(changed);
    std::string found;
    for (SimOptions options; options.seed <= 4 && found.empty(); ++options.seed)
      for (Case data : cases) {
        std::vector<SimArgument> args = data.arguments();
        Result<SimReport> report = simulate(changed, args, options);
        ASSERT_TRUE(bool(report)) << report.error().message;
        found += describe(*report);
      }
    EXPECT_EQ(found.empty(), harmless.count(mutant.name) != 0) << mutant.name << ": " << found;
  }
}

TEST(Simulator, GemmMutantsAreReported) {
  TileModule module("test/dialects/tile/gemm.mlir");
  ASSERT_TRUE(module.kernel());
  EXPECT_GE(mutantsOf(module.kernel()).size(), 12u);
  expectMutantsReported<GemmCase>(module.kernel(), {}, {GemmCase(128, 512, 320)});
}

TEST(Simulator, MlaDecodeMutantsAreReported) {
  TileModule module("test/dialects/tile/mla-decode.mlir");
  ASSERT_TRUE(module.kernel());
  ASSERT_TRUE(module.inlineCalls());
  EXPECT_GE(mutantsOf(module.kernel()).size(), 34u);
  // Meeting gate B before the release waits sooner. An mma that one warp knows to be over is over for the warpgroup, so
  // that the syncs before `zero` only guard against a hardware that is less kind; the one behind the second role's is
  // followed by gate A, which orders all its warps too.
  expectMutantsReported<MlaCase>(module.kernel(), {"earlier meet 0", "drop sync 0", "drop sync 2", "drop sync 3", "earlier sync 3"}, {MlaCase(16, 5)});
}

TEST(Simulator, GroupedGemmMutantsAreReported) {
  TileModule module("test/dialects/tile/w4a8.mlir");
  ASSERT_TRUE(module.kernel() && module.inlineCalls());
  EXPECT_GE(mutantsOf(module.kernel()).size(), 15u);
  // Two warpgroups that take turns on two stages are ordered by the full barriers alone (see turning-owner.mlir for four).
  // One k-block an item: as many items ahead as there are stages. Two: what crosses k-blocks.
  const std::vector<int> counts = {5, 17, 16, 33};
  expectMutantsReported<GroupedCase>(module.kernel(), {"peek instead of wait 2"}, {{counts, 128, 512}, {counts, 128, 1024}});
}

} // namespace dsv3::tile
