// compile-model kernels SHAPES.json -o PACK: kernels of a shape list without a model around them.
#pragma once

#include "runtime/core/Result.h"

#include <string>

namespace dsv3 {

struct KernelsCommand {
  std::string shapes, output;        ///< file, folder
  std::string target = "sm_90a";
  std::string determinism = "batch"; ///< as compile-model's
  std::string filter;                ///< regular expression over case names; empty: all
  bool force = false;                ///< replace the folder
  bool keepGoing = false;            ///< leave out cases that the target has no kernel for
  int jobs = 1;
};

/// Builds a program per case, runs the stages bind, pack and tile for the target, compiles the kernels and writes the pack.
/// Returns a line about it. Usage errors name the entry of the list; a case without a kernel is an Unsupported error with the
/// emitter's reason, or with `keepGoing` a warning on standard error.
Result<std::string> writeKernelPack(const KernelsCommand &command);

/// The command line behind `kernels`. Usage error: a flag is wrong. `exit` is set after --help.
Result<KernelsCommand> parseKernelsCommand(int argc, char **argv, bool &exit);

} // namespace dsv3
