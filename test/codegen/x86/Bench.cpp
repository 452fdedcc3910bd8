// Speed of kernel.gemm on one thread, the best of several runs.
//
//   x86_kernel_bench [VARIANT [FILTER]]    e.g. x86_kernel_bench avx512-vnni-bf16 bf16xfp8
//
// GFLOP/s over weights of the second and third level of cache; then weights that fit no cache, as in decode: GB/s of their
// bytes for one row, beside those of merely reading them, and how many times faster than bf16 each is.
#include "test/codegen/x86/Harness.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <map>

using namespace dsv3::codegen;
using namespace dsv3::codegen::test;

namespace {

constexpr int64_t kCapacity = 256;

struct Row {
  const char *label;
  Elem x;
  const char *weight;    ///< what follows the element type of `x`
  const char *rows = ""; ///< the same, of x
};
constexpr Row kRows[] = {{"f32xf32", Elem::F32, ""},
                         {"f32xfp8", Elem::F32, ", #dsv3.blocked<f8E4M3FN, 128x128, f32>"},
                         {"bf16xbf16", Elem::BF16, ""},
                         {"bf16xfp8", Elem::BF16, ", #dsv3.blocked<f8E4M3FN, 128x128, f32>"},
                         {"bf16xint8", Elem::BF16, ", #dsv3.blocked<i8, 1x?, f32>"},
                         {"bf16xint4", Elem::BF16, ", #dsv3.blocked<i4, 1x128, f32>"},
                         {"int8xint8", Elem::BF16, ", #dsv3.blocked<i8, 1x?, f32>", ", #dsv3.blocked<i8, 1x?, f32>"},
                         {"int8xint4", Elem::BF16, ", #dsv3.blocked<i4, 1x128, f32>", ", #dsv3.blocked<i8, 1x?, f32>"},
                         {"int8gxint4", Elem::BF16, ", #dsv3.blocked<i4, 1x?, f32>", ", #dsv3.blocked<i8, 1x128, f32>"}};

/// Of this thread, so that others on the machine disturb the caches only.
double seconds() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

/// Shortest time of `fn` over about 0.3 s.
double best(llvm::function_ref<void()> fn) {
  double fastest = 1e9;
  for (double start = seconds(), t = start; t - start < 0.3;) {
    fn();
    double now = seconds();
    fastest = std::min(fastest, now - t);
    t = now;
  }
  return fastest;
}

std::string typeText(Shape shape, Elem elem, const char *scheme) {
  std::string text = tensorText(shape, elem);
  return text.substr(0, text.size() - 1) + scheme + ">";
}

/// A launch with operands that hold the same small number everywhere, as codes and as floats.
struct Launch {
  Launch(const Row &r, int64_t n, int64_t k) {
    std::string xt = typeText({kCapacity, k}, r.x, r.rows), yt = tensorText({kCapacity, n}, r.x), wt = typeText({n, k}, r.x, r.weight);
    kernel = Kernel::compile("%x: " + xt + ", %w: " + wt,
                             "%o = kernel.empty : " + yt + "\n%r = kernel.gemm ins(%x, %w : " + xt + ", " + wt + ") outs(%o : " + yt + ") site \"s\"", false);
    if (!kernel)
      return;
    add(dsv3::kernel::getValueBytes(kernel->operandType(0)));
    for (const dsv3::kernel::PackedPart &part : dsv3::kernel::getPackedParts(kernel->operandType(1))) {
      add(part.bytes);
      weightBytes += part.bytes;
    }
    add(kCapacity * n * 4);
  }
  void add(int64_t bytes) { buffers.emplace_back(bytes, 0x3c, 64); }
  double time(const Code &code, int64_t rows) const {
    std::vector<const void *> bufs;
    for (const Buffer &b : buffers)
      bufs.push_back(b.data());
    std::vector<int64_t> scalars(DSV3_SCALAR_COUNT, 0), consts(kernel->signature().consts.begin(), kernel->signature().consts.end());
    scalars[DSV3_SCALAR_TOKENS] = rows;
    scalars.insert(scalars.end(), consts.begin(), consts.end());
    Buffer scratch(code.scratch, 0, 64);
    int64_t tiles = kernel->tiles({rows});
    return best([&] { code.fn(bufs.data(), scalars.data(), 0, tiles, scratch.data()); });
  }

  std::unique_ptr<Kernel> kernel;
  std::vector<Buffer> buffers;
  int64_t weightBytes = 0;
};

/// GB/s of reading a buffer from end to end.
double readSpeed(const Buffer &b) {
  auto *words = static_cast<const uint64_t *>(b.data());
  int64_t n = b.size() / 8;
  volatile uint64_t sink;
  double t = best([&] {
    uint64_t sums[16] = {};
    for (int64_t i = 0; i + 16 <= n; i += 16)
      for (int64_t j = 0; j < 16; ++j)
        sums[j] += words[i + j];
    for (uint64_t s : sums)
      sink = s;
  });
  (void)sink;
  return double(b.size()) / t * 1e-9;
}

bool wanted(const std::string &name, const std::string &only) { return only.empty() || name == only; }

int run(int argc, char **argv) {
  std::string only = argc > 1 ? argv[1] : "", filter = argc > 2 ? argv[2] : "";
  std::printf("%-18s %-10s %5s %5s  GFLOP/s for M = 1, 8, 64, 256\n", "variant", "x by w", "N", "K");
  for (const Row &r : kRows)
    for (auto [n, k] : {std::pair<int64_t, int64_t>{1024, 1024}, {512, 7168}}) {
      if (std::string(r.label).find(filter) == std::string::npos)
        continue;
      Launch launch(r, n, k);
      if (!launch.kernel)
        return 1;
      for (const Code &code : launch.kernel->codes()) {
        if (!wanted(code.variant, only))
          continue;
        std::printf("%-18s %-10s %5ld %5ld", code.variant.c_str(), r.label, long(n), long(k));
        for (int64_t m : {1, 8, 64, 256})
          std::printf(" %7.1f", 2.0 * double(m * n * k) / launch.time(code, m) * 1e-9);
        std::printf("\n");
        std::fflush(stdout);
      }
    }
  constexpr int64_t n = 16384, k = 7168;
  std::printf("%-18s %-10s %5s %5s  MiB, GB/s of reading, GB/s for M = 1, times bf16 for M = 1, 4, 16\n", "variant", "x by w", "N", "K");
  std::map<std::string, double> plain; // by variant and M
  for (const Row &r : kRows) {
    if (r.x != Elem::BF16 || (r.label != std::string("bf16xbf16") && std::string(r.label).find(filter) == std::string::npos))
      continue;
    Launch launch(r, n, k);
    if (!launch.kernel)
      return 1;
    double floor = readSpeed(launch.buffers[1]);
    for (const Code &code : launch.kernel->codes()) {
      if (!wanted(code.variant, only))
        continue;
      double one = launch.time(code, 1);
      std::printf("%-18s %-10s %5ld %5ld %6.1f %6.1f %6.1f", code.variant.c_str(), r.label, long(n), long(k), double(launch.weightBytes) / (1 << 20), floor,
                  double(launch.weightBytes) / one * 1e-9);
      for (int64_t m : {1, 4, 16}) {
        double t = m == 1 ? one : launch.time(code, m);
        double &bf16 = plain.try_emplace(code.variant + std::to_string(m), t).first->second;
        std::printf(" %5.2f", bf16 / t);
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
