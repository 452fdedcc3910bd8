// The programs of a module by what they are for.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/core/Result.h"
#include "runtime/engine/Step.h"

#include <cstdint>
#include <vector>

namespace dsv3 {

/// Indices into the module's table, smallest capacity first.
class ProgramSet {
public:
  /// BadCheckpoint when there is no prefill or no decode program.
  static Result<ProgramSet> create(const dsv3_module_desc &module);

  /// The programs of a phase; `largest` exists for phases that have any.
  const std::vector<uint32_t> &of(uint32_t phase) const { return byPhase[phase]; }
  bool has(uint32_t phase) const { return !byPhase[phase].empty(); }
  uint32_t largest(uint32_t phase) const { return byPhase[phase].back(); }

  /// The smallest program of `phase` that holds `items`; the largest always does if the
  /// items were planned for it.
  uint32_t smallestFor(uint32_t phase, const std::vector<StepItem> &items) const;

private:
  explicit ProgramSet(const dsv3_module_desc &module) : module(&module) {}

  const dsv3_module_desc *module;
  std::vector<uint32_t> byPhase[DSV3_PHASE_MTP + 1];
};

} // namespace dsv3
