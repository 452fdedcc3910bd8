// The fields of the step buffer: runtime/core/Abi.h's table, laid out for given capacities.
#pragma once

#include "codegen/targets/KernelEmitter.h"
#include "dialects/rt/RtDialect.h"

#include <vector>

namespace dsv3 {

struct StepField {
  const char *name;
  int64_t kind; ///< DSV3_FIELD_*
  rt::Elem elem;
  int64_t count;  ///< elements
  int64_t offset; ///< bytes, a multiple of 64

  int64_t bytes() const { return count * (elem == rt::Elem::I64 ? 8 : 4); }
};

/// All DSV3_FIELD_COUNT fields, in order of their kind.
std::vector<StepField> stepLayout(const codegen::Capacities &capacities);

/// Bytes of the step pool.
int64_t stepBytes(const std::vector<StepField> &fields);

} // namespace dsv3
