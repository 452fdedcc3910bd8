#include "tools/compile-model/quantize/Command.h"

#include "frontends/quantize/Policy.h"
#include "runtime/core/Json.h"

#include <CLI/CLI.hpp>

#include <thread>

namespace dsv3 {

static Status check(const QuantizeCommand &c, const std::string &format) {
  if (format != "compressed-tensors")
    return usageError("--format: expected compressed-tensors, got '" + printable(format) + "'");
  if (c.jobs < 1)
    return usageError("--jobs: expected 1 or more, got " + std::to_string(c.jobs));
  if (c.config.empty() && (c.quant == "none" || c.quant == "checkpoint"))
    return usageError("--quant: expected a policy that quantises weights, got " + c.quant);
  const std::string algorithm(name(c.algorithm));
  if (isCalibrated(c.algorithm) == !c.calibration.empty())
    return {};
  return usageError(c.calibration.empty() ? "--quant-algo=" + algorithm + " needs --calibration=FILE"
                                          : "--calibration: expected an algorithm that looks at data, got --quant-algo=" + algorithm);
}

Result<QuantizeCommand> parseQuantizeCommand(int argc, char **argv, bool &exit) {
  QuantizeCommand c;
  c.jobs = int(std::max(1u, std::thread::hardware_concurrency()));
  std::string algorithm(name(c.algorithm)), format = "compressed-tensors";
  CLI::App app("Quantises a checkpoint and writes one in the compressed-tensors format.", "compile-model quantize");
  app.option_defaults()->always_capture_default();
  app.add_option("MODEL_DIR", c.modelFolder, "HuggingFace checkpoint folder")->required();
  app.add_option("-o,--output", c.output, "Folder of the quantised checkpoint")->required();
  auto *quant = app.add_option("--quant", c.quant, "Which linear gets which scheme: " + quantize::Policy::builtInNames());
  app.add_option("--quant-config", c.config, "A policy of your own: JSON, see docs/cli.md")->excludes(quant);
  app.add_option("--quant-algo", algorithm, "How codes are found: " + quantize::algorithmNames());
  app.add_option("--calibration", c.calibration, "Text that the model is run on, for algorithms that look at data: plain, or JSON lines with a field \"text\"");
  app.add_option("--calibration-tokens", c.tokens, "Tokens of it at most")->check(CLI::Range(int64_t(16), int64_t(1) << 24));
  app.add_option("--calibration-length", c.length, "Tokens of one sequence")->check(CLI::Range(int64_t(16), int64_t(1) << 20));
  app.add_option("--format", format, "Of the output");
  app.add_option("--jobs", c.jobs, "Threads");
  app.add_flag("--force", c.force, "Replace an output of this command");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() != 0)
      return usageError(printable(e.what(), 300));
    exit = true;
    app.exit(e);
    return c;
  }
  Result<quantize::Algorithm> chosen = quantize::parseAlgorithm(algorithm);
  if (!chosen)
    return chosen.error();
  c.algorithm = *chosen;
  if (Status s = check(c, format); !s)
    return s.error();
  return c;
}

} // namespace dsv3
