// Kernels of test/dialects/tile run on the host: values against a plain loop, and no rule broken in any schedule.
#include "test/passes/tile/Mutants.h"
#include "test/passes/tile/SimulatorFixture.h"

#include <random>

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

} // namespace

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

TEST(Simulator, GemmMutantsAreReported) {
  TileModule module("test/dialects/tile/gemm.mlir");
  ASSERT_TRUE(module.kernel());
  const std::vector<Mutant> mutants = mutantsOf(module.kernel());
  EXPECT_GE(mutants.size(), 12u);
  for (const Mutant &mutant : mutants) {
    mlir::OwningOpRef<KernelOp> clone(module.kernel().clone());
    mutant.apply(*clone);
    std::string found;
    for (uint64_t seed = 1; seed <= 4 && found.empty(); ++seed) {
      GemmCase gemm(128, 512, 320);
      std::vector<SimArgument> args = gemm.arguments();
      SimOptions options;
      options.seed = seed;
      Result<SimReport> report = simulate(*clone, args, options);
      ASSERT_TRUE(bool(report)) << report.error().message;
      found = describe(*report);
    }
    EXPECT_NE(found, "") << mutant.name;
  }
}

} // namespace dsv3::tile
