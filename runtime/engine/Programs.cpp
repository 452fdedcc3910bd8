#include "runtime/engine/Programs.h"

#include <algorithm>
#include <string>

namespace dsv3 {

Result<ProgramSet> ProgramSet::create(const dsv3_module_desc &module) {
  ProgramSet set(module);
  for (uint32_t i = 0; i < module.n_programs; ++i)
    set.byPhase[module.programs[i].phase].push_back(i);
  for (std::vector<uint32_t> &list : set.byPhase)
    std::sort(list.begin(), list.end(), [&](uint32_t a, uint32_t b) {
      const dsv3_program_desc &x = module.programs[a], &y = module.programs[b];
      return x.tokens != y.tokens ? x.tokens < y.tokens : x.seqs < y.seqs;
    });
  for (uint32_t phase : {DSV3_PHASE_PREFILL, DSV3_PHASE_DECODE})
    if (!set.has(phase))
      return checkpointError(std::string("programs: expected at least one of phase ") +
                             (phase == DSV3_PHASE_PREFILL ? "prefill" : "decode") + ", got none");
  return set;
}

uint32_t ProgramSet::smallestFor(uint32_t phase, const std::vector<StepItem> &items) const {
  for (uint32_t index : byPhase[phase])
    if (fitsStep(module->programs[index], items))
      return index;
  return largest(phase);
}

} // namespace dsv3
