// GFLOP/s of kernel.gemm on one thread: the best of several runs over weights that do not fit the caches.
//
//   x86_kernel_bench [VARIANT [FILTER]]    e.g. x86_kernel_bench avx512-vnni-bf16 bf16xfp8
#include "runtime/core/DType.h"
#include "test/codegen/x86/Harness.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>

using namespace dsv3::codegen;
using namespace dsv3::codegen::test;

namespace {

struct Row {
  const char *label;
  Elem x;
  const char *weight; ///< "f32", "bf16", "fp8"
  Elem expressed;
};
constexpr Row kRows[] = {{"f32xf32", Elem::F32, "f32", Elem::F32},
                         {"bf16xbf16", Elem::BF16, "bf16", Elem::BF16},
                         {"bf16xfp8", Elem::BF16, "fp8", Elem::BF16},
                         {"f32xfp8", Elem::F32, "fp8", Elem::F32}};

/// Of this thread, so that others on the machine disturb the caches only.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Best GFLOP/s of `fn` over about 0.3 s.
double best(double flops, llvm::function_ref<void()> fn) {
  double fastest = 1e9;
  for (double start = seconds(), t = start; t - start < 0.3;) {
    fn();
    double now = seconds();
    fastest = std::min(fastest, now - t);
    t = now;
  }
  return flops / fastest * 1e-9;
}

int run(int argc, char **argv) {
  std::string only = argc > 1 ? argv[1] : "", filter = argc > 2 ? argv[2] : "";
  std::printf("%-18s %-10s %5s %5s  GFLOP/s for M = 1, 8, 64, 256\n", "variant", "x by w", "N", "K");
  for (const Row &r : kRows)
    for (auto [n, k] : {std::pair<int64_t, int64_t>{1024, 1024}, {512, 7168}}) {
      if (std::string(r.label).find(filter) == std::string::npos)
        continue;
      Shape shape{n, k};
      Weight w = r.weight == std::string("fp8") ? fp8Weight(shape, r.expressed, 128, 128, 1)
                                                : plainWeight(shape, r.weight == std::string("f32") ? Elem::F32 : Elem::BF16, 1);
      std::string xt = tensorText({256, k}, r.x), yt = tensorText({256, n}, r.x);
      auto kernel = Kernel::compile("%x: " + xt + ", %w: " + w.type, "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + w.type +
                                                                         ") outs(%o : " + yt + ") site \"s\"");
      if (!kernel)
        return 1;
      std::vector<Buffer> weights = kernel->pack(1, w);
      Buffer x = Buffer::of(randomValues({256, k}, r.x, 2), r.x), y(256 * n * 4);
      for (const Code &code : kernel->codes()) {
        if (code.variant.find(only) != 0 || (!only.empty() && code.variant != only))
          continue;
        std::printf("%-18s %-10s %5ld %5ld", code.variant.c_str(), r.label, long(n), long(k));
        std::vector<const void *> bufs{x.data()};
        for (const Buffer &b : weights)
          bufs.push_back(b.data());
        bufs.push_back(y.data());
        Buffer scratch(code.scratch, 0, 64);
        for (int64_t m : {1, 8, 64, 256}) {
          int64_t scalars[DSV3_SCALAR_COUNT] = {m};
          int64_t tiles = kernel->tiles({m});
          std::printf(" %7.1f", best(2.0 * double(m * n * k), [&] { code.fn(bufs.data(), scalars, 0, tiles, scratch.data()); }));
        }
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv); // the harness reports through it
  return run(argc, argv);
}
