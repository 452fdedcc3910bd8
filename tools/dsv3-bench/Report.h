// The results of a run, for people and for bench/results.
#pragma once

#include "tools/dsv3-bench/Run.h"

namespace dsv3::bench {

/// What stands in the JSON beside the rows.
struct RunInfo {
  std::string date, commit, command, gpu, driver;
  int64_t cases = 0; ///< that the run was to have; fewer rows: it was cut
};

/// Header and lines of the table; a summary line per op and one for all: worst and geometric mean against the anchors, and the
/// rows that failed.
std::string tableHeader();
std::string tableLine(const RunRow &row);
std::string summaryText(const std::vector<RunRow> &rows);

OrderedJson reportJson(const RunInfo &info, const std::vector<RunRow> &rows);

} // namespace dsv3::bench
