// What calibration and quantisation did to each linear, for a person who decides what to keep in more bits.
#pragma once

#include "frontends/quantize/Linear.h"

#include <string>
#include <vector>

namespace dsv3 {

struct LinearReport {
  std::string stack;     ///< "l3.up": experts of a layer share it, their scheme and their lines
  int64_t expert = -1;   ///< of that stack; -1: the linear is alone
  std::string module;    ///< "model.layers.3.mlp.experts.7.up_proj"
  std::string component; ///< "routed_experts.up"
  int64_t rows = 0, cols = 0;
  quantize::Scheme scheme;
  std::optional<quantize::Scheme> activation;
  quantize::Algorithm algorithm = quantize::Algorithm::Default;
  double weightError = 0; ///< |w - w'| / |w|
  double error = 0;       ///< of the output on the calibration rows
  double saturation = 0;  ///< share of codes at either end of the range
  int64_t tokens = 0;     ///< rows that the linear saw; 0: no calibration
  bool fellBack = false;  ///< too few rows for the algorithm that was asked for
};

/// A summary per component; what to keep in 8 bits, the largest errors first, each with its size and the targets to write into a
/// --quant-config; a table, a line per linear in the order of the model (experts of a layer on one, with the worst named); every
/// linear that was rounded for want of rows. `policy` is a built-in policy's name, or a file (`isFile`).
std::string reportText(const std::vector<LinearReport> &linears, const std::string &policy, bool isFile);

} // namespace dsv3
