// compile-model MODEL_DIR -o OUT: see Options.cpp for the flags, Driver.cpp for what happens. `inspect` prints an artifact,
// `kernels` compiles kernels without a model, `quantize` writes a quantised checkpoint.
#include "tools/compile-model/Driver.h"
#include "tools/compile-model/Interrupt.h"
#include "tools/compile-model/kernels/KernelPack.h"
#include "tools/compile-model/quantize/Command.h"

#include <cstdio>
#include <string>

static int fail(const dsv3::Error &error) {
  std::fprintf(stderr, "compile-model: error: %s\n", error.message.c_str());
  return int(error.code);
}

static int inspect(int argc, char **argv) {
  if (argc != 3)
    return fail(dsv3::usageError("expected compile-model inspect ARTIFACT"));
  dsv3::Result<std::string> text = dsv3::inspectArtifact(argv[2]);
  if (!text)
    return fail(text.error());
  std::fputs(text->c_str(), stdout);
  return 0;
}

static int kernels(int argc, char **argv) {
  bool done = false;
  dsv3::Result<dsv3::KernelsCommand> command = dsv3::parseKernelsCommand(argc, argv, done);
  if (!command)
    return fail(command.error());
  if (done)
    return 0;
  dsv3::Result<std::string> summary = dsv3::writeKernelPack(*command);
  if (!summary)
    return fail(summary.error());
  std::printf("%s\n", summary->c_str());
  return 0;
}

static int quantize(int argc, char **argv) {
  bool done = false;
  dsv3::Result<dsv3::QuantizeCommand> command = dsv3::parseQuantizeCommand(argc, argv, done);
  if (!command)
    return fail(command.error());
  if (done)
    return 0;
  dsv3::watchInterrupts();
  dsv3::Result<std::string> summary = dsv3::quantizeModel(*command);
  if (!summary)
    return fail(summary.error());
  std::printf("%s\n", summary->c_str());
  return 0;
}

int main(int argc, char **argv) {
  if (argc > 1 && std::string(argv[1]) == "inspect")
    return inspect(argc, argv);
  dsv3::registerTargets();
  if (argc > 1 && std::string(argv[1]) == "kernels")
    return kernels(argc - 1, argv + 1);
  if (argc > 1 && std::string(argv[1]) == "quantize")
    return quantize(argc - 1, argv + 1);
  dsv3::Result<dsv3::CommandLine> line = dsv3::parseCommandLine(argc, argv);
  if (!line)
    return fail(line.error());
  if (line->exit)
    return *line->exit;
  dsv3::watchInterrupts();
  dsv3::Result<std::string> summary = line->calibration.empty() ? dsv3::compileModel(*line) : dsv3::compileCalibrated(*line);
  if (!summary)
    return fail(summary.error());
  std::printf("%s\n", summary->c_str());
  return 0;
}
