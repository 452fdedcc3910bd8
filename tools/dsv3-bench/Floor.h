// What a case costs at least, and what the best public kernel took.
#pragma once

#include "tools/dsv3-bench/Data.h"

namespace dsv3::bench {

/// Ceilings of the device, measured (bench/anchors/README.md).
struct Ceilings {
  double bytesPerSecond = 4.70e12;
  double bf16 = 810e12; ///< multiply and add count as two
  double fp8 = 1620e12; ///< twice that: the tensor cores' ratio
};

/// By the formulas of bench/anchors/README.md.
struct Cost {
  double bytes = 0, flops = 0;
  bool fp8 = false; ///< both operands of the products
  double floorUs(const Ceilings &c = {}) const;
};

/// For set `set` of the case: what its tokens need, not its capacities.
Cost costOf(const Case &c, const CaseData &data, int64_t set);

struct Anchor {
  std::string peer;
  double us = 0;
};

/// Rows of bench/anchors/*.csv by "GROUP|CASE|TYPE".
class Anchors {
public:
  /// Reads a CSV of group,case,type,peer,us,GB/s,TFLOP/s with a header line; errors name the line.
  static Result<Anchors> read(const std::string &path);
  static Result<Anchors> parse(const std::string &text, const std::string &what);
  const Anchor *find(const std::string &key) const;

private:
  std::map<std::string, Anchor> rows;
};

/// Worst ratio and geometric mean of ratios.
struct Summary {
  int64_t count = 0;
  double worst = 0, geomean = 0;
};
Summary summarize(const std::vector<double> &ratios);

} // namespace dsv3::bench
