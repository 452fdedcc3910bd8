// What calibration and quantisation did to each linear, for a person who decides what to keep in more bits.
#pragma once

#include "frontends/quantize/Linear.h"

#include <string>
#include <vector>

namespace dsv3 {

struct LinearReport {
  std::string site;     ///< "l3.q_a"; of an expert with its number behind: "l3.up[7]"
  std::string stack;    ///< "l3.up": lines of experts are summed up
  quantize::Scheme scheme;
  std::optional<quantize::Scheme> activation;
  quantize::Algorithm algorithm;
  double error, saturation;
  int64_t tokens;       ///< rows that the linear saw
  bool fellBack = false; ///< too few rows for the algorithm that was asked for
};

/// A table, a line per linear in the order of the model, experts of a layer on one line with the worst named; then the ten with the
/// largest error; then every linear that fell back to rounding for want of tokens.
std::string reportText(const std::vector<LinearReport> &linears);

} // namespace dsv3
