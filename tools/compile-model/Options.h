// The command line of compile-model.
#pragma once

#include "passes/Options.h"
#include "runtime/core/Result.h"

#include <optional>
#include <string>
#include <vector>

namespace dsv3 {

struct CommandLine {
  std::string modelFolder, output;
  CompileOptions compile;             ///< `target` is set for each of `targets` in turn
  std::vector<std::string> targets;   ///< in the order of preference
  std::string calibration;            ///< text for algorithms that look at data; empty: none
  int64_t calibrationTokens = 16384;
  std::string report;                 ///< "text" or "json": what device kernels cost; empty: none
  bool dummyWeights = false; ///< drawn, not read
  bool maxModelLenGiven = false; ///< else the default is lowered to what the model allows
  bool opList = false;                ///< write OpList.h's list
  bool force = false;
  bool quiet = false;                 ///< no warnings; not a flag: of a compilation that only checks
  bool dryRun = false;                ///< print sizes of weights, compile nothing
  std::string stopAfter;              ///< empty: write the artifact
  std::vector<std::string> dumpAfter; ///< "all" for every stage
  std::string dumpDir = ".";
  /// Set when there is nothing to do but to exit with this code (--help).
  std::optional<int> exit;
};

/// Targets must be registered. Usage errors name the flag; Unsupported errors say what there is.
Result<CommandLine> parseCommandLine(int argc, char **argv);

} // namespace dsv3
