#include "runtime/engine/CpuFeatures.h"

#include <algorithm>

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

} // namespace

const std::vector<CpuVariant> &cpuVariants() {
  static const std::vector<CpuVariant> variants = {
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
