#include "runtime/engine/StepCost.h"

#include "runtime/engine/Step.h"

#include <algorithm>

namespace dsv3 {

/// Recent steps count most: rows of a long prompt become dearer as it goes on.
static void learn(double &mean, double seen) { mean = mean > 0 ? 0.5 * (mean + seen) : seen; }

void StepCost::decoded(double seconds) { learn(decode, seconds); }

void StepCost::prefilled(int64_t rows, double seconds) {
  if (rows > 0)
    learn(row, seconds / double(rows));
}

int64_t StepCost::rowsWithin(double gap) const {
  if (row <= 0)
    return kNoLimit;
  // Half of the bound is left for what a mean does not tell.
  double rows = std::max(0.0, 0.5 * gap - decode) / row;
  if (rows > 1e9)
    return kNoLimit;
  return std::max<int64_t>(1, int64_t(rows) / kQueryTile) * kQueryTile;
}

} // namespace dsv3
