// What the processor can do, and which code variants that admits.
#pragma once

#include "runtime/core/Result.h"

#include <string>
#include <vector>

namespace dsv3 {

/// A code variant and the CPUID features its instructions need.
struct CpuVariant {
  std::string name;
  std::vector<std::string> needs;
};

/// Every variant this runtime knows, the best first.
const std::vector<CpuVariant> &cpuVariants();

/// The features of this machine, out of those that any variant needs; a feature counts
/// only if the operating system also saves its registers. Requests the tile registers of AMX
/// for this process, so it must be called before the threads that run kernels start.
std::vector<std::string> cpuFeatures();

/// The index in `offered` of the variant to load: the best that `has` admits, or exactly
/// `forced` if that is not empty. Unsupported error with both lists when there is none.
Result<size_t> chooseVariant(const std::vector<std::string> &offered, const std::vector<std::string> &has,
                             const std::string &forced);

} // namespace dsv3
