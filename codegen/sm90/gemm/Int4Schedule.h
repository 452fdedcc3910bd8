// Which tile a product of int4 weights uses. Numbers only, no IR.
#pragma once

#include "codegen/sm90/gemm/GemmSchedule.h"

namespace dsv3::codegen {

/// Beside GemmShape, whose `operands` is not used.
struct Int4Shape : GemmShape {
  bool wide = false, e4m3 = false, wGrouped = false, xGrouped = false, promoted = false; ///< as in Int4Problem
  bool pairs = false;      ///< two warpgroups share scales of y
  bool freeSplit = false;  ///< parts of K do not change bits: the schedule's own choice
  int64_t fixedSplit = 1;  ///< else
  int64_t parts = 1;       ///< of K, in which sums are joined: a block of a cluster may have each
};

/// Parts of K for a weight: a function of the weight alone.
int64_t splitOfWeight(Int4Shape, const GpuModel & = {});

int64_t stageBytes(const Int4Shape &, const ColsSchedule &);
/// Seconds of a launch with this schedule.
double estimate(const Int4Shape &, const ColsSchedule &, const GpuModel & = {});
/// The token tile follows from the capacity, the rest from the cost.
ColsSchedule chooseInt4(const Int4Shape &, const GpuModel & = {});

} // namespace dsv3::codegen
