// The command line of dsv3-run.
#pragma once

#include "runtime/core/Result.h"
#include "runtime/cuda/OpenDevice.h"
#include "runtime/engine/Completion.h"

#include <optional>
#include <string>

namespace dsv3::run {

struct Options {
  std::string artifact;
  std::optional<std::string> prompt, chat, ids, batch; ///< exactly one
  CompletionParams completion;                         ///< what a batch line does not say otherwise
  int64_t prefillChunk = 0;
  bool hostSampling = false;
  bool json = false;
  std::string logitsOut, tapsOut;
  OpenOptions open;
};

/// nullopt after --help, which has been printed. Usage errors name the flag.
Result<std::optional<Options>> parseOptions(int argc, char **argv);

} // namespace dsv3::run
