// compile-model quantize MODEL_DIR -o DIR: a checkpoint in, a quantised checkpoint out.
#pragma once

#include "frontends/quantize/Algorithm.h"
#include "runtime/core/Result.h"
#include "tools/compile-model/Options.h"

#include <optional>
#include <string>

namespace dsv3 {

struct QuantizeCommand {
  std::string modelFolder, output;
  std::string quant = "w4a16"; ///< a built-in policy; unless
  std::string config;          ///< a file with one
  quantize::Algorithm algorithm = quantize::Algorithm::Default;
  std::string calibration;     ///< a text file, or JSON lines with a field `text`; only for algorithms that look at data
  int64_t tokens = 16384;      ///< rows of calibration at most
  int64_t length = 512;        ///< tokens of one sequence
  int jobs = 1;
  bool force = false;
  bool forOthers = true; ///< int8 rows with a scale per token, whatever the policy says; else for our own reader alone
};

/// `exit` is set when there is nothing to do but to leave (--help). Usage errors name the flag.
Result<QuantizeCommand> parseQuantizeCommand(int argc, char **argv, bool &exit);

/// Writes the folder, whole or not at all. Returns the line to print. Errors: of the checkpoint, of the policy, of the text;
/// Unsupported for checkpoints that are quantised otherwise than in FP8 blocks.
Result<std::string> quantizeModel(const QuantizeCommand &command);

/// Both steps in one: quantises into a folder beside the output, compiles that as its config.json asks (`--quant=checkpoint`), and
/// removes it.
Result<std::string> compileCalibrated(const CommandLine &line);

} // namespace dsv3
