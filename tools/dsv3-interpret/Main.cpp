// dsv3-interpret: runs the IR of any stage on the reference.
#include "Options.h"

#include "dialects/kernel/KernelDialect.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cstdio>

namespace dsv3::interpret {

/// Exit code of a comparison that found a difference, as cmp and diff have it.
constexpr int kDifferent = 1;

/// The first diagnostic becomes the error.
static Result<mlir::OwningOpRef<mlir::ModuleOp>> parseModule(const std::string &path, mlir::MLIRContext &context) {
  std::string first;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
    if (first.empty() && diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error) {
      llvm::raw_string_ostream text(first);
      text << diagnostic.getLocation() << ": " << diagnostic.str();
    }
  });
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceFile<mlir::ModuleOp>(path, &context);
  if (!module)
    return usageError(first.empty() ? "expected a module in " + path : first);
  return module;
}

static Result<Output> runModule(mlir::ModuleOp module, const hf::Checkpoint *checkpoint, const Options &options,
                                const Request &request) {
  WeightReader reader(module, checkpoint, options.dummyWeights);
  return options.doublePrecision ? runRequest<double>(module, reader, request) : runRequest<float>(module, reader, request);
}

static Status saveFiles(const Output &output, const Options &options) {
  std::vector<const NamedTensor *> logits, taps;
  for (const NamedTensor &t : output.results)
    if (t.name == "logits" || t.name == "mtp_logits")
      logits.push_back(&t);
  for (const NamedTensor &t : output.taps)
    taps.push_back(&t);
  if (!options.logitsOut.empty() && logits.empty())
    return usageError("--logits-out: expected a program with a result 'logits'");
  if (!options.tapsOut.empty() && taps.empty())
    return usageError("--taps-out: expected a program with taps");
  if (!options.logitsOut.empty())
    if (Status s = save(options.logitsOut, logits); !s)
      return s;
  return options.tapsOut.empty() ? Status() : save(options.tapsOut, taps);
}

static Result<bool> compareOutputs(const Output &a, const Output &b, const Options &options) {
  Result<bool> close = compare(a.results, b.results, options.tolerance, "");
  if (!close || !options.taps)
    return close;
  Result<bool> taps = compare(a.taps, b.taps, options.tolerance, "tap ");
  return taps ? Result<bool>(*close && *taps) : taps;
}

/// Runs one program, or the plan that the request names, on one module or on two.
static Result<int> runOne(mlir::ModuleOp module, mlir::ModuleOp other, const hf::Checkpoint *checkpoint, const Options &options,
                          const Request &request) {
  Result<Output> output = runModule(module, checkpoint, options, request);
  if (!output)
    return output.error();
  if (Status s = saveFiles(*output, options); !s)
    return s.error();
  if (!other) {
    if (options.taps)
      for (const NamedTensor &t : output->taps)
        print(t, "tap ", options.print);
    for (const NamedTensor &t : output->results)
      print(t, "", options.print);
    return 0;
  }
  Request second = request;
  if (!options.againstProgram.empty())
    second.program = options.againstProgram;
  Result<Output> against = runModule(other, checkpoint, options, second);
  if (!against)
    return against.error();
  Result<bool> close = compareOutputs(*output, *against, options);
  if (!close)
    return close.error();
  return *close ? 0 : kDifferent;
}

/// Every program of the first module against the one of its name, as the test of a pass wants it.
static Result<int> runAll(mlir::ModuleOp module, mlir::ModuleOp other, const hf::Checkpoint *checkpoint, const Options &options) {
  int worst = 0;
  for (ir::ProgramOp program : module.getOps<ir::ProgramOp>()) {
    Request request = options.request;
    request.program = program.getSymName().str();
    std::printf("@%s\n", request.program.c_str());
    Result<int> code = runOne(module, other, checkpoint, options, request);
    if (!code)
      return Error{code.error().code, "@" + request.program + ": " + code.error().message};
    worst = std::max(worst, *code);
  }
  return worst;
}

static Result<int> run(const Options &options) {
  mlir::DialectRegistry registry;
  registry.insert<ir::Dsv3Dialect, kernel::KernelDialect>();
  mlir::MLIRContext context(registry, mlir::MLIRContext::Threading::DISABLED);
  auto module = parseModule(options.module, context);
  if (!module)
    return module.error();
  std::optional<hf::Checkpoint> checkpoint;
  if (!options.checkpoint.empty()) {
    Result<hf::Checkpoint> opened = hf::Checkpoint::open(options.checkpoint);
    if (!opened)
      return opened.error();
    checkpoint = std::move(*opened);
  }
  const hf::Checkpoint *files = checkpoint ? &*checkpoint : nullptr;
  if (options.against.empty())
    return runOne(**module, nullptr, files, options, options.request);
  auto other = parseModule(options.against, context);
  if (!other)
    return other.error();
  if (options.request.program.empty() && options.againstProgram.empty() && !options.request.decode)
    return runAll(**module, **other, files, options);
  return runOne(**module, **other, files, options, options.request);
}

} // namespace dsv3::interpret

int main(int argc, char **argv) {
  using namespace dsv3;
  auto fail = [](const Error &error) {
    std::fprintf(stderr, "dsv3-interpret: error: %s\n", error.message.c_str());
    return int(error.code);
  };
  auto options = interpret::parseOptions(argc, argv);
  if (!options)
    return fail(options.error());
  if (!*options)
    return 0;
  Result<int> code = interpret::run(**options);
  return code ? *code : fail(code.error());
}
