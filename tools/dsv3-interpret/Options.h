// The command line of dsv3-interpret.
#pragma once

#include "Report.h"

#include <optional>

namespace dsv3::interpret {

struct Options {
  std::string module;     ///< file of IR, "-" for standard input
  std::string checkpoint; ///< folder; empty: none
  bool dummyWeights = false;
  bool doublePrecision = false;
  Request request;
  std::string against; ///< second module; empty: print the first one's results
  std::string againstProgram;
  double tolerance = 0;
  bool taps = false;
  PrintOptions print;
  std::string logitsOut, tapsOut;
};

/// nullopt after --help. Usage errors name the flag.
Result<std::optional<Options>> parseOptions(int argc, char **argv);

} // namespace dsv3::interpret
