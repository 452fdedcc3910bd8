// Runs one case of a pack on a device.
#pragma once

#include "tools/dsv3-bench/Check.h"
#include "tools/dsv3-bench/Device.h"
#include "tools/dsv3-bench/Floor.h"

#include <map>

namespace dsv3::bench {

struct RunOptions {
  bool check = true, time = true;
  int64_t samples = 16;           ///< rows compared with the reference
  int64_t coldBytes = 256 << 20;  ///< weights and cache that launches rotate over
  int64_t restMs = 10;            ///< idle time in front of each replay: a burst, which the power limit leaves alone
  int64_t timedMs = 300;          ///< of replays, about; seven at least
  bool poison = true;             ///< fill what kernels write before they do; without, initcheck sees reads of what they did not
};

/// What is printed and written for a case.
struct RunRow {
  std::string name, op;
  std::string problem; ///< empty: checked and right, or not checked
  bool checked = false;
  double worst = 0; ///< relative error
  int64_t rows = 0;
  std::string bits; ///< hash of what the case wrote; empty: not checked
  double us = 0, fastest = 0, slowest = 0; ///< median, least and most of the replays; 0: not timed
  double bytes = 0, flops = 0, floorUs = 0;
  int64_t sets = 0;
  std::string peer; ///< of the anchor; empty: none
  double anchorUs = 0;
  int64_t registers = 0, spills = 0, smem = 0, launches = 0; ///< of the widest kernel; timed launches
};

OrderedJson toJson(const RunRow &row);
Result<RunRow> rowFromJson(const Json &json);

/// What a case has drawn and no kernel changes, by what it is made of: candidates of a schedule share their weights.
using Kept = std::map<std::string, Memory>;

/// Fills, launches, compares and times. A wrong result, or a kernel that fails, stands in `problem`; errors are the pack's and
/// the machine's: missing files, no memory. `kept` are the weights of the case before, and then this one's.
Result<RunRow> runCase(const Device &device, const Pack &pack, const std::string &folder, const Case &c, const RunOptions &options,
                       const Anchors &anchors, Kept &kept);

} // namespace dsv3::bench
