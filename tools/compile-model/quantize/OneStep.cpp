// compile-model MODEL --quant=... --quant-algo=gptq --calibration=FILE
#include "tools/compile-model/Driver.h"
#include "tools/compile-model/Interrupt.h"
#include "tools/compile-model/quantize/Command.h"

#include <filesystem>
#include <unistd.h>

namespace dsv3 {

namespace {
/// A folder that goes away with this.
class Temporary {
public:
  explicit Temporary(std::string folder) : path(std::move(folder)) { removeOnInterrupt(path); }
  ~Temporary() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
    removeOnInterrupt("");
  }
  const std::string path;
};
} // namespace

/// What a compilation would refuse of the flags and the checkpoint: before a calibration, not after it.
static Status checkFlags(CommandLine line) {
  line.compile.quant = "none";
  line.compile.quantConfig.clear();
  line.compile.quantAlgo = "default";
  line.stopAfter = "import";
  line.dumpAfter.clear();
  line.quiet = true;
  Result<std::string> done = compileModel(line);
  return done ? Status() : Status(done.error());
}

Result<std::string> compileCalibrated(const CommandLine &line) {
  std::error_code error;
  if (!line.force && !line.output.empty() && std::filesystem::exists(line.output, error)) // before the work, not after it
    return usageError("'" + line.output + "' exists: use --force to replace it");
  if (Status s = checkFlags(line); !s)
    return s.error();
  std::string beside = line.output.empty() ? "quantised" : line.output;
  while (beside.size() > 1 && beside.back() == '/')
    beside.pop_back();
  Temporary checkpoint(beside + ".quantised-" + std::to_string(getpid()));
  QuantizeCommand command;
  command.modelFolder = line.modelFolder;
  command.output = checkpoint.path;
  command.quant = line.compile.quant;
  command.config = line.compile.quantConfig;
  Result<quantize::Algorithm> algorithm = quantize::parseAlgorithm(line.compile.quantAlgo);
  if (!algorithm)
    return algorithm.error();
  command.algorithm = *algorithm;
  command.calibration = line.calibration;
  command.tokens = line.calibrationTokens;
  command.jobs = line.compile.jobs;
  command.forOthers = false;
  if (Result<std::string> done = quantizeModel(command); !done)
    return done.error();
  CommandLine compile = line;
  compile.modelFolder = checkpoint.path;
  compile.compile.quant = "checkpoint";
  compile.compile.quantConfig.clear();
  compile.compile.quantAlgo = "default";
  return compileModel(compile);
}

} // namespace dsv3
