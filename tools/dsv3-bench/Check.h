// Compares what a kernel wrote with what it must have written.
#pragma once

#include "tools/dsv3-bench/Expected.h"

#include <map>

namespace dsv3::bench {

/// Bytes of the buffers a case writes, after a run.
using Outputs = std::map<std::string, std::vector<uint8_t>>;

/// Poison: bytes that no result has (NaN in every float type, a negative id).
inline constexpr uint8_t kPoison = 0xff;

struct Verdict {
  std::string problem; ///< empty: right. "out row 17: expected relative error below 0.005, got 0.31"
  double worst = 0;    ///< largest relative error of a sampled row, ||out - ref|| / ||ref||
  int64_t rows = 0;    ///< rows compared
  bool ok() const { return problem.empty(); }
};

/// Largest relative error of a row that is accepted, by the type it is stored in.
double tolerance(DType stored);

/// `first` and `second` are two runs from the same state: they must be equal bit for bit, every defined element must have been
/// written, sampled rows must be near the reference, and no cache row that the step does not append may have changed.
Verdict check(const Case &c, const CaseData &data, const Expected &expected, const Outputs &first, const Outputs &second);

} // namespace dsv3::bench
