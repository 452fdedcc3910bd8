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
  std::string bits;    ///< a hash of every defined element of the outputs, 16 digits: equal results have equal ones
  bool ok() const { return problem.empty(); }
};

/// Largest relative error of a row that is accepted, by the type it is stored in.
double tolerance(DType stored);

/// What differs between a row as it is and as the reference has it, or empty: its relative error, then single elements.
/// `elem` is what the row is stored in.
std::string rowFault(DType elem, const std::vector<double> &expected, const std::vector<double> &got, double &relative);

/// What is wrong with a token's experts. Where float32 cannot tell two scores apart either is right; `tie` is set when another
/// than the reference's was taken, whose weights then differ.
std::string expertFault(const ExpectedExperts &expected, const std::vector<int32_t> &got, bool &tie);

/// `first` and `second` are two runs from the same state: they must be equal bit for bit, every defined element must have been
/// written, sampled rows must be near the reference, and no cache row that the step does not append may have changed.
Verdict check(const Case &c, const CaseData &data, const Expected &expected, const Outputs &first, const Outputs &second);

} // namespace dsv3::bench
