// What launches cost at least, beside what their kernels take of a multiprocessor: compile-model's report.
#pragma once

#include "codegen/emit/Report.h"

#include <string>
#include <vector>

namespace dsv3::codegen {

/// One launch of a program, at the program's capacities.
struct LaunchCost {
  std::string kernel, program, site;
  double bytes = 0, flops = 0;

  /// Microseconds on an H200: 4.8 TB/s, and 989 TFLOP/s, dense bf16 (fp8 products could take half as long).
  double rooflineUs() const;
};

/// The launches of a module after stage tile, in order; of a CPU target none.
std::vector<LaunchCost> launchCosts(mlir::ModuleOp module);

/// Two tables: resources per kernel; per kernel its launches and what the most expensive of them moves and computes.
std::string reportText(const std::vector<KernelReport> &kernels, const std::vector<LaunchCost> &launches);
/// The list of Report.h, each entry with `launches`: [{"program", "site", "bytes", "flops", "roofline_us"}].
std::string reportJson(const std::vector<KernelReport> &kernels, const std::vector<LaunchCost> &launches);

} // namespace dsv3::codegen
