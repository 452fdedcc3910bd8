// Accuracy of the generated elementary functions.
#include "test/codegen/x86/Harness.h"

#include <gtest/gtest.h>

#include <cmath>

namespace dsv3::codegen::test {
namespace {

using Fn = Value (KernelBuilder::*)(Value);

/// Largest relative error over `points` values from `lo` to `hi`.
double worstError(const Code &code, double lo, double hi, double (*exact)(double)) {
  constexpr int64_t kPoints = 1 << 18;
  Array<double> x({kPoints});
  for (int64_t i = 0; i < kPoints; ++i)
    x.data[size_t(i)] = float(lo + (hi - lo) * double(i) / (kPoints - 1));
  Buffer in = Buffer::of(x, Elem::F32), out(kPoints * 4);
  const void *bufs[] = {in.data(), out.data()};
  code.fn(bufs, nullptr, 0, kPoints / kLanes, nullptr);
  EXPECT_TRUE(out.intact());
  Array<double> y = out.values({kPoints}, Elem::F32);
  double worst = 0;
  for (int64_t i = 0; i < kPoints; ++i) {
    double want = exact(x.data[size_t(i)]), error = std::fabs(y.data[size_t(i)] - want) / std::fabs(want);
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  return worst;
}

std::vector<Code> compile(Fn fn) {
  return Kernel::compile(
      [fn](KernelBuilder &k) {
        Value in = k.buf(0), out = k.buf(1);
        k.loop(k.begin, k.end, 1, [&](Value i) {
          Value at = k.mul(i, kLanes * 4);
          k.store((k.*fn)(k.load(k.vf32, k.at(in, at), 4)), k.at(out, at), 4);
        });
      },
      64);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double silu(double x) { return x / (1 + std::exp(-x)); }

void check(Fn fn, double lo, double hi, double (*exact)(double), double limit) {
  std::vector<Code> codes = compile(fn);
  ASSERT_FALSE(codes.empty());
  for (const Code &code : codes) {
    double worst = worstError(code, lo, hi, exact);
    ::testing::Test::RecordProperty(code.variant, std::to_string(worst));
    EXPECT_LE(worst, limit) << code.variant;
    if (std::getenv("DSV3_PRINT_ERRORS"))
      std::printf("%s: %.3e\n", code.variant.c_str(), worst);
  }
}

// The limits are those that KernelBuilder.h states.
TEST(Functions, Exp) { check(&KernelBuilder::exp, -87, 88, [](double x) { return std::exp(x); }, 8e-8); }
TEST(Functions, ExpNearZero) { check(&KernelBuilder::exp, -1, 1, [](double x) { return std::exp(x); }, 8e-8); }
TEST(Functions, Sigmoid) { check(&KernelBuilder::sigmoid, -80, 80, sigmoid, 1.5e-7); }
TEST(Functions, Silu) { check(&KernelBuilder::silu, -80, 80.1, silu, 1.5e-7); }

TEST(Functions, ExpOfExtremes) {
  for (const Code &code : compile(&KernelBuilder::exp)) {
    float inf = std::numeric_limits<float>::infinity();
    Array<double> x({16}, {-inf, -1e30, -200, -87.5, -0.0, 0, 88, 89, 1e30, inf, -88, -87.0001, 0, 0, 0, 0});
    Buffer in = Buffer::of(x, Elem::F32), out(64);
    const void *bufs[] = {in.data(), out.data()};
    code.fn(bufs, nullptr, 0, 1, nullptr);
    Array<double> y = out.values({16}, Elem::F32);
    for (size_t i : {0, 1, 2, 3, 10, 11})
      EXPECT_EQ(y.data[i], 0) << code.variant << " of " << x.data[i];
    EXPECT_EQ(y.data[4], 1);
    EXPECT_EQ(y.data[5], 1);
    for (size_t i : {7, 8, 9}) // saturates: no infinity that could become NaN
      EXPECT_EQ(y.data[i], y.data[6]) << code.variant << " of " << x.data[i];
  }
}

} // namespace
} // namespace dsv3::codegen::test
