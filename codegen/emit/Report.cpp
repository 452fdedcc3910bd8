#include "codegen/emit/Report.h"

#include <nlohmann/json.hpp>

#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

namespace dsv3::codegen {

KernelReport reportOf(const DeviceKernel &kernel, const Multiprocessor &sm) {
  KernelReport r;
  r.kernel = kernel.symbol;
  r.threads = kernel.threads;
  r.sharedBytes = kernel.dynamicShared;
  r.stages = kernel.stages;
  r.accesses = kernel.accesses;
  if (!kernel.resources || kernel.threads <= 0)
    return r;
  r.assembled = true;
  r.registers = kernel.resources->registers;
  r.spillBytes = kernel.resources->spillStores + kernel.resources->spillLoads;
  r.sharedBytes += kernel.resources->staticShared;
  const int64_t warps = (r.threads + 31) / 32;
  const int64_t registers = warps * int64_t(llvm::alignTo(r.registers * 32, sm.registerUnit));
  const int64_t shared = int64_t(llvm::alignTo(r.sharedBytes + sm.sharedReserved, sm.sharedUnit));
  const std::pair<int64_t, const char *> limits[] = {{registers ? sm.registers / registers : sm.blocks, "registers"},
                                                     {sm.shared / shared, "shared memory"},
                                                     {sm.threads / (32 * warps), "threads"},
                                                     {sm.blocks, "blocks"}};
  auto least = std::min_element(std::begin(limits), std::end(limits), [](auto &x, auto &y) { return x.first < y.first; });
  r.blocks = least->first;
  r.limit = least->second;
  r.occupancy = double(r.blocks * warps * 32) / double(sm.threads);
  return r;
}

std::vector<KernelReport> reportOf(const DeviceCode &code) {
  std::vector<KernelReport> reports;
  for (const DeviceKernel &kernel : code.kernels)
    reports.push_back(reportOf(kernel));
  return reports;
}

/// The worst degree; "-" when unknown.
static std::string worstConflict(const KernelReport &r) {
  if (!r.accesses)
    return "-";
  int64_t worst = 1;
  for (const SharedAccess &a : *r.accesses)
    worst = std::max(worst, a.degree);
  return std::to_string(worst);
}

static nlohmann::json accessesToJson(const KernelReport &r) {
  if (!r.accesses)
    return nullptr;
  nlohmann::json out = nlohmann::json::array();
  for (const SharedAccess &a : *r.accesses)
    out.push_back({{"op", a.op}, {"instruction", a.instruction}, {"count", a.count}, {"degree", a.degree}, {"lost", a.lost}});
  return out;
}

std::string toText(const std::vector<KernelReport> &reports) {
  size_t width = 6;
  for (const KernelReport &r : reports)
    width = std::max(width, r.kernel.size());
  std::string out;
  llvm::raw_string_ostream os(out);
  auto name = [&](llvm::StringRef text) { os << llvm::left_justify(text, unsigned(width)); };
  name("kernel");
  os << "  threads  regs  spill  shared  stages  conflicts  blocks/sm  warps  limit\n";
  for (const KernelReport &r : reports) {
    name(r.kernel);
    os << llvm::format("  %7lld", (long long)r.threads);
    if (r.assembled)
      os << llvm::format("  %4lld  %5lld  %6lld  %6lld  %9s  %9lld  %4.0f%%  ", (long long)r.registers, (long long)r.spillBytes, (long long)r.sharedBytes,
                         (long long)r.stages, worstConflict(r).c_str(), (long long)r.blocks, 100 * r.occupancy)
         << r.limit << "\n";
    else
      os << llvm::format("     ?      ?  %6lld  %6lld  %9s          ?      ?  not assembled\n", (long long)r.sharedBytes, (long long)r.stages, worstConflict(r).c_str());
    for (const SharedAccess &a : r.accesses.value_or(std::vector<SharedAccess>()))
      if (a.degree > 1)
        os << "  " << a.count << " x " << a.op << " by " << a.instruction << ": " << a.degree << "-way bank conflict\n";
  }
  return out;
}

nlohmann::json toJson(const std::vector<KernelReport> &reports) {
  nlohmann::json out = nlohmann::json::array();
  for (const KernelReport &r : reports) {
    auto known = [&](auto value) { return r.assembled ? nlohmann::json(value) : nlohmann::json(); };
    out.push_back({{"kernel", r.kernel},
                   {"assembled", r.assembled},
                   {"threads", r.threads},
                   {"registers", known(r.registers)},
                   {"spill_bytes", known(r.spillBytes)},
                   {"shared_bytes", r.sharedBytes},
                   {"stages", r.stages ? nlohmann::json(r.stages) : nlohmann::json()},
                   {"blocks_per_sm", known(r.blocks)},
                   {"occupancy", known(r.occupancy)},
                   {"limit", known(r.limit)},
                   {"accesses", accessesToJson(r)}});
  }
  return out;
}

} // namespace dsv3::codegen
