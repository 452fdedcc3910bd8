// What a case's outputs must be: the reference's results in float64 on sampled rows.
#pragma once

#include "tools/dsv3-bench/Data.h"

namespace dsv3::bench {

/// One row of an output: all dims but the last, flattened. `lanes` values from lane 0.
struct ExpectedRow {
  std::string buffer;
  int64_t row = 0;
  std::vector<double> values;
  /// What `values` stand for where they are of E4M3 codes: of two codes that are as near, either is right.
  std::vector<double> plain = {};
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

/// What the operands of one launch hold: of a case whose inputs are drawn, or of a step that runs.
class OpData {
public:
  virtual ~OpData() = default;
  /// Rows that the step defines of the launch's results.
  virtual int64_t rows() const = 0;
  /// Elements [first, first + count) of a plain input, in logical order. Safe from several threads, as are the others.
  virtual void read(const Buffer &input, int64_t first, int64_t count, double *out) const = 0;
  /// The first `count` integers of an input.
  virtual std::vector<int32_t> integers(const Buffer &input, int64_t count) const = 0;
  /// All dims but the last, and rows [from, to) dequantised.
  virtual int64_t weightRows(std::string_view name) const = 0;
  virtual reference::Array<double> weight(std::string_view name, int64_t from, int64_t to) const = 0;
  virtual reference::SeqMeta sequences() const = 0;
  /// A row of the launch's layer of the cache.
  virtual void cached(const Buffer &cache, int64_t page, int64_t slot, double *row) const = 0;
  virtual int64_t layer() const = 0;
  virtual int64_t cachePages() const = 0;
};

/// Of any launch: `op` as in Case, its attributes in `attributes`. Error: an op without a reference, or what the reference
/// says about its operands.
Result<Expected> expect(const Case &c, const Json &attributes, const OpData &data, int64_t samples);

/// For set 0 of the case, about `samples` rows, the first and the last among them. Error: an op without a reference, or what the
/// reference says about its operands.
Result<Expected> expect(const Case &c, const CaseData &data, int64_t samples);

/// Elements of an output that the step defines, from the first: fewer than the shape has when the step is not full.
int64_t definedElements(const Case &c, const CaseData &data, const Buffer &output);

} // namespace dsv3::bench
