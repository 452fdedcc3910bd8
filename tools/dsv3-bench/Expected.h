// What a case's outputs must be: the reference's results in float64 on sampled rows.
#pragma once

#include "tools/dsv3-bench/Data.h"

namespace dsv3::bench {

/// One row of an output: all dims but the last, flattened. `lanes` values from lane 0.
struct ExpectedRow {
  std::string buffer;
  int64_t row = 0;
  std::vector<double> values;
};

/// The first `values.size()` integers of an output.
struct ExpectedInts {
  std::string buffer;
  std::vector<int32_t> values;
};

/// Experts of sampled tokens. Two experts whose scores differ by less than float32 can tell are as good as each other.
struct ExpectedExperts {
  int64_t token = 0;
  std::vector<int32_t> ids;
  std::vector<double> scores; ///< of every expert, biased: what the choice compares
};

struct Expected {
  std::vector<ExpectedRow> rows;
  std::vector<ExpectedInts> ints;
  std::vector<ExpectedExperts> experts;
};

/// For set 0 of the case, about `samples` rows, the first and the last among them. Error: an op without a reference, or what the
/// reference says about its operands.
Result<Expected> expect(const Case &c, const CaseData &data, int64_t samples);

/// Elements of an output that the step defines, from the first: fewer than the shape has when the step is not full.
int64_t definedElements(const Case &c, const CaseData &data, const Buffer &output);

} // namespace dsv3::bench
