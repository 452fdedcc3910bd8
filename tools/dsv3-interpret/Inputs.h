// The arguments of a program: ids, positions, a paged cache, and drawn numbers for anything else.
#pragma once

#include "Run.h"

namespace dsv3::interpret {

/// The rows of one step.
struct Step {
  struct Rows {
    int64_t sequence, begin, end; ///< tokens begin .. end-1 of a sequence of the request
  };
  std::vector<Rows> rows; ///< of the sequences that have any, in order

  int64_t tokens() const;
};

/// Sequences of the request on pages of one pool, shuffled so that a block table cannot be taken for 0, 1, 2, ...
class Batch {
public:
  explicit Batch(const Request &request);

  int64_t sequences() const { return int64_t(lengths.size()); }
  int64_t length(int64_t s) const { return lengths[s]; }
  int64_t pages() const { return numPages; }
  /// The k-th step of at most `chunk` tokens of each sequence; no rows after the last.
  Step step(int64_t k) const;
  /// The rows of a step for which the next id is known.
  Step withNext(const Step &step) const;
  std::shared_ptr<const SeqMeta> seq(const Step &step) const;
  /// All tokens of all sequences, past ones included, as if they were one step.
  SeqMeta everything() const;
  /// Ids of the rows, or with `ahead` 1 those that follow them. `vocab` bounds drawn ones.
  Ids ids(const Step &step, int64_t ahead, int64_t vocab) const;

private:
  const Request &request;
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> tables;
  int64_t numPages = 0;
};

/// A cache of the type with drawn rows wherever a sequence may read: an append that is forgotten shows.
template <typename T> Result<std::shared_ptr<Cache<T>>> makeCache(ir::KvType type, const Batch &batch);

/// All arguments of `program` for a step. `hidden`, if there is one, serves the argument of that name or of none.
template <typename T>
Result<std::vector<Held<T>>> makeArguments(ir::ProgramOp program, const Request &request, const Batch &batch,
                                           const Step &step, std::shared_ptr<Cache<T>> cache, const Held<T> &hidden);

} // namespace dsv3::interpret
