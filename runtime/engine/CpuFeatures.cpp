#include "runtime/engine/CpuFeatures.h"

#include <algorithm>
#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace dsv3 {

namespace {

std::string join(const std::vector<std::string> &words) {
  std::string out;
  for (const std::string &w : words)
    out += (out.empty() ? "" : ", ") + w;
  return out.empty() ? "none" : out;
}

bool contains(const std::vector<std::string> &words, const std::string &word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::vector<std::string> missing(const CpuVariant &variant, const std::vector<std::string> &has) {
  std::vector<std::string> out;
  for (const std::string &need : variant.needs)
    if (!contains(has, need))
      out.push_back(need);
  return out;
}

Result<size_t> chooseForced(const std::vector<std::string> &offered, const std::vector<std::string> &has,
                            const std::string &forced) {
  auto at = std::find(offered.begin(), offered.end(), forced);
  if (at == offered.end())
    return unsupportedError("cpu features \"" + forced + "\": the artifact has code for " + join(offered));
  for (const CpuVariant &v : cpuVariants()) {
    if (v.name != forced)
      continue;
    if (std::vector<std::string> lacks = missing(v, has); !lacks.empty())
      return unsupportedError("cpu features \"" + forced + "\": this cpu has no " + join(lacks));
    return size_t(at - offered.begin());
  }
  return unsupportedError("cpu features \"" + forced + "\": this runtime does not know what they need");
}

#if defined(__x86_64__) && defined(__linux__)
/// Linux gives a process tile registers only on request. A thread started later inherits the permission.
bool requestTileRegisters() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

/// The tile extensions, by CPUID: the compiler's builtin does not ask the system about them.
void addTileFeatures(std::vector<std::string> &out) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kOsSavesRegisters = 1u << 27; // OSXSAVE: without it XGETBV traps
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kOsSavesRegisters) || !__get_cpuid_count(7, 0, &a, &b, &c, &d))
    return;
  constexpr unsigned kBF16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25;
  unsigned saved = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr unsigned kTileState = 3u << 17; // configuration and data
  if (!(d & kTile) || (saved & kTileState) != kTileState || !requestTileRegisters())
    return;
  out.push_back("amx-tile");
  if (d & kBF16)
    out.push_back("amx-bf16");
  if (d & kInt8)
    out.push_back("amx-int8");
}
#else
void addTileFeatures(std::vector<std::string> &) {}
#endif

} // namespace

const std::vector<CpuVariant> &cpuVariants() {
  static const std::vector<CpuVariant> variants = {
      {"amx",
       {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16", "amx-tile", "amx-bf16", "amx-int8"}},
      {"avx512-vnni-bf16", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vnni", "avx512bf16"}},
      {"avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl"}},
      {"avx2", {"avx2", "fma", "f16c"}},
  };
  return variants;
}

std::vector<std::string> cpuFeatures() {
  std::vector<std::string> out;
#if defined(__x86_64__)
  // The builtin also asks XGETBV whether the system saves the wide registers.
  __builtin_cpu_init();
#define DSV3_FEATURE(name)                                                                                   \
  if (__builtin_cpu_supports(name))                                                                          \
  out.push_back(name)
  DSV3_FEATURE("avx2");
  DSV3_FEATURE("fma");
  DSV3_FEATURE("f16c");
  DSV3_FEATURE("avx512f");
  DSV3_FEATURE("avx512bw");
  DSV3_FEATURE("avx512dq");
  DSV3_FEATURE("avx512vl");
  DSV3_FEATURE("avx512vnni");
  DSV3_FEATURE("avx512bf16");
#undef DSV3_FEATURE
  addTileFeatures(out);
#endif
  return out;
}

Result<size_t> chooseVariant(const std::vector<std::string> &offered, const std::vector<std::string> &has,
                             const std::string &forced) {
  if (!forced.empty())
    return chooseForced(offered, has, forced);
  for (const CpuVariant &v : cpuVariants()) {
    auto at = std::find(offered.begin(), offered.end(), v.name);
    if (at != offered.end() && missing(v, has).empty())
      return size_t(at - offered.begin());
  }
  return unsupportedError("no code for this cpu: it has " + join(has) + "; the artifact has code for " +
                          join(offered));
}

} // namespace dsv3
