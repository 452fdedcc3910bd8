#include "codegen/emit/LaunchCosts.h"

#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/Targets.h"

#include <nlohmann/json.hpp>

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3::codegen {

double LaunchCost::rooflineUs() const {
  constexpr double bytesPerUs = 4.8e6, flopsPerUs = 989e6;
  return std::max(bytes / bytesPerUs, flops / flopsPerUs);
}

std::vector<LaunchCost> launchCosts(ModuleOp module) {
  std::vector<LaunchCost> costs;
  FailureOr<TargetChoice> choice = chooseTarget(module, "");
  if (failed(choice) || !choice->gpu)
    return costs;
  for (auto program : module.getOps<ir::ProgramOp>())
    program.walk([&](kernel::KernelOp launch) {
      const KernelEmitter *emitter = choice->registry->lookup(launch);
      auto symbol = launch->getAttrOfType<FlatSymbolRefAttr>("kernel.symbol");
      if (!emitter || !emitter->asDevice() || !symbol)
        return;
      DeviceCost cost = emitter->asDevice()->cost(launch);
      costs.push_back({symbol.getValue().str(), program.getSymName().str(), launch.getSiteName().str(), cost.bytes, cost.flops});
    });
  return costs;
}

static std::vector<const LaunchCost *> launchesOf(const std::string &kernel, const std::vector<LaunchCost> &launches) {
  std::vector<const LaunchCost *> own;
  for (const LaunchCost &l : launches)
    if (l.kernel == kernel)
      own.push_back(&l);
  return own;
}

std::string reportText(const std::vector<KernelReport> &kernels, const std::vector<LaunchCost> &launches) {
  std::string out = toText(kernels);
  llvm::raw_string_ostream os(out);
  size_t width = 6;
  for (const KernelReport &k : kernels)
    width = std::max(width, k.kernel.size());
  os << "\n" << llvm::left_justify("kernel", unsigned(width)) << "  launches         MB       GFLOP  roofline us  most expensive\n";
  for (const KernelReport &k : kernels) {
    std::vector<const LaunchCost *> own = launchesOf(k.kernel, launches);
    os << llvm::left_justify(k.kernel, unsigned(width)) << llvm::format("  %8zu", own.size());
    if (!own.empty()) {
      const LaunchCost &most = **llvm::max_element(own, [](auto *a, auto *b) { return a->rooflineUs() < b->rooflineUs(); });
      os << llvm::format("  %9.3f  %10.3f  %11.2f  ", most.bytes / 1e6, most.flops / 1e9, most.rooflineUs()) << most.program << " " << most.site;
    }
    os << "\n";
  }
  return out;
}

std::string reportJson(const std::vector<KernelReport> &kernels, const std::vector<LaunchCost> &launches) {
  nlohmann::json list = toJson(kernels);
  for (size_t i = 0; i < kernels.size(); ++i) {
    list[i]["launches"] = nlohmann::json::array();
    for (const LaunchCost *l : launchesOf(kernels[i].kernel, launches))
      list[i]["launches"].push_back(
          {{"program", l->program}, {"site", l->site}, {"bytes", l->bytes}, {"flops", l->flops}, {"roofline_us", l->rooflineUs()}});
  }
  return list.dump(1);
}

} // namespace dsv3::codegen
