// The command line of compile-model kernels.
#include "tools/compile-model/kernels/KernelPack.h"

#include "runtime/core/Json.h"

#include <CLI/CLI.hpp>

#include <thread>

namespace dsv3 {

Result<KernelsCommand> parseKernelsCommand(int argc, char **argv, bool &exit) {
  KernelsCommand c;
  c.jobs = int(std::max(1u, std::thread::hardware_concurrency()));
  CLI::App app("Compiles the kernels of a shape list to a pack that dsv3-bench runs.", "compile-model kernels");
  app.option_defaults()->always_capture_default();
  app.add_option("SHAPES", c.shapes, "Shape list: bench/gpu/*.json")->required();
  app.add_option("-o,--output", c.output, "Folder of the pack")->required();
  app.add_option("--target", c.target, "Device target");
  app.add_option("--determinism", c.determinism, "batch or run, as for a model");
  app.add_option("--filter", c.filter, "Only cases whose name matches this regular expression");
  app.add_option("--jobs", c.jobs, "Threads of the compiler")->check(CLI::PositiveNumber);
  app.add_flag("--force", c.force, "Replace an existing pack");
  app.add_flag("--keep-going", c.keepGoing, "Leave out cases that the target has no kernel for, with a warning each");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() != 0)
      return usageError(printable(e.what(), 300));
    exit = true;
    app.exit(e);
  }
  return c;
}

} // namespace dsv3
