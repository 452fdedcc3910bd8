#include "tools/compile-model/Driver.h"

#include "codegen/emit/Package.h"
#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/Targets.h"
#include "frontends/huggingface/Import.h"
#include "passes/Pipeline.h"
#include "passes/specialize/Taps.h"
#include "runtime/core/OutputDir.h"
#include "tools/compile-model/Interrupt.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "llvm/Support/ThreadPool.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <mutex>
#include <unistd.h>

using namespace mlir;

namespace dsv3 {

namespace {

/// One line on a terminal that is overwritten; nothing in a pipe.
class Progress {
public:
  void show(const std::string &text) {
    std::lock_guard<std::mutex> lock(mutex);
    if (terminal)
      std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }
  ~Progress() { show(""); }

private:
  bool terminal = isatty(STDERR_FILENO);
  std::mutex mutex;
};

std::string sizeText(uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", double(bytes) / (1 << 20));
  return text;
}

/// Diagnostics that no pass turned into a Status: the first error becomes the message, warnings wait until
/// the compilation has succeeded, since an error is to be the only line.
class Diagnostics {
public:
  explicit Diagnostics(MLIRContext &context)
      : handler(&context, [this](Diagnostic &d) {
          std::lock_guard<std::mutex> lock(mutex);
          if (d.getSeverity() == DiagnosticSeverity::Error && error.empty())
            error = d.str();
          if (d.getSeverity() == DiagnosticSeverity::Warning)
            warnings.push_back(d.str());
          return success();
        }) {}

  std::string error;
  std::vector<std::string> warnings;

private:
  std::mutex mutex;
  ScopedDiagnosticHandler handler;
};

uint64_t folderBytes(const std::string &folder) {
  uint64_t bytes = 0;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      bytes += entry.file_size();
  return bytes;
}

class Compilation {
public:
  explicit Compilation(const CommandLine &line) : line(line), options(line.compile) {}

  Result<std::string> run() {
    auto start = std::chrono::steady_clock::now();
    std::optional<OutputDir> out;
    if (line.stopAfter.empty()) {
      Result<OutputDir> made = OutputDir::create(line.output, {line.force});
      if (!made)
        return made.error();
      out.emplace(std::move(*made));
      removeOnInterrupt(out->path());
    }
    if (Status s = compile(out ? out->path() : ""); !s)
      return s.error();
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    char time[32];
    std::snprintf(time, sizeof time, "%.1f s", seconds.count());
    if (!out)
      return "stopped after " + line.stopAfter + ", " + time;
    uint64_t bytes = folderBytes(out->path());
    removeOnInterrupt(""); // a rename is whole or not at all
    if (Status s = out->commit(); !s)
      return s.error();
    return line.output + ": " + sizeText(bytes) + ", max-batch " + std::to_string(options.maxBatch) + ", max-model-len " +
           std::to_string(options.maxModelLen) + ", " + std::string(name(options.dtype)) + ", " + time;
  }

private:
  Status compile(const std::string &folder) {
    progress.show("reading " + line.modelFolder);
    Result<hf::Model> read = hf::readModel(line.modelFolder);
    if (!read)
      return read.error();
    model.emplace(std::move(*read));
    if (line.maxModelLenGiven && options.maxModelLen > model->config.maxPosition)
      return usageError("--max-model-len: expected at most max_position_embeddings " + std::to_string(model->config.maxPosition) + ", got " +
                        std::to_string(options.maxModelLen));
    if (Status s = resolve(options, model->config.maxPosition); !s)
      return s;

    llvm::DefaultThreadPool threads(llvm::hardware_concurrency(unsigned(options.jobs)));
    DialectRegistry registry;
    registerBuiltinDialectTranslation(registry);
    registerLLVMDialectTranslation(registry);
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    if (options.jobs > 1)
      context.setThreadPool(threads);
    Diagnostics diagnostics(context);
    progress.show("importing");
    ImportOptions importOptions;
    importOptions.computeType = options.dtype == ComputeType::F32 ? DType::F32 : DType::BF16;
    Result<OwningOpRef<ModuleOp>> module = importModel(context, *model, importOptions);
    if (!module)
      return module.error();
    Status done = runStages(**module);
    if (done && line.stopAfter.empty())
      done = emit(**module, folder);
    if (!done)
      return done;
    for (const std::vector<std::string> *warnings : {&model->tensors.notes, &diagnostics.warnings})
      for (const std::string &warning : *warnings)
        std::fprintf(stderr, "compile-model: warning: %s\n", warning.c_str());
    return {};
  }

  Status runStages(ModuleOp module) {
    if (Status s = checkTaps(module, options.taps); !s)
      return usageError("--taps: " + s.error().message);
    PipelineRequest request;
    request.stopAfter = line.stopAfter;
    request.dumpAfter = line.dumpAfter;
    request.dumpDir = line.dumpDir;
    request.afterStage = [&](const Stage &stage, ModuleOp) {
      progress.show("stage " + stage.name.str() + " done");
      return Status();
    };
    return runPipeline(module, options, request);
  }

  ArtifactInfo info() const {
    const hf::ModelConfig &c = model->config;
    ArtifactInfo info;
    info.vocabSize = c.vocab;
    info.hiddenSize = c.hidden;
    info.layers = c.layers;
    info.mtpLayers = std::min<int64_t>(1, model->tensors.mtpModules);
    info.maxPosition = c.maxPosition;
    info.bos = c.bos;
    info.eos = c.eos;
    info.dtype = name(options.dtype);
    info.quant = options.quant;
    info.determinism = name(options.determinism);
    info.taps = options.taps;
    info.maxBatch = options.maxBatch;
    info.maxModelLen = options.maxModelLen;
    info.prefillChunk = options.prefillChunk;
    return info;
  }

  static Status checkDisk(const std::string &folder, int64_t weights) {
    constexpr uint64_t rest = uint64_t(8) << 20; // code, tokenizer, objects on their way
    std::error_code error;
    std::filesystem::space_info space = std::filesystem::space(folder, error);
    if (!error && space.available < uint64_t(weights) + rest)
      return doesNotFitError("the artifact needs " + sizeText(uint64_t(weights) + rest) + ", the disk has " + sizeText(space.available) +
                             " free");
    return {};
  }

  Status emit(ModuleOp module, const std::string &folder) {
    auto hosts = module.getOps<rt::ModuleOp>();
    if (hosts.empty())
      return internalError("the stages left no host program");
    rt::ModuleOp host = *hosts.begin();
    int64_t weightBytes = 0;
    for (auto pool : host.getBody().front().getOps<rt::PoolOp>())
      if (pool.getPool() == rt::Pool::Weights)
        weightBytes = int64_t(pool.getBytes());
    if (Status s = checkDisk(folder, weightBytes); !s)
      return s;
    std::error_code error;
    std::filesystem::create_directories(folder + "/" + codeFolder(), error);
    if (!error)
      std::filesystem::create_directories(std::filesystem::path(folder + "/" + weightsPath()).parent_path(), error);
    if (error)
      return usageError("cannot write into '" + folder + "': " + error.message());

    std::atomic<int64_t> packedBytes{0};
    WeightData data(module, model->checkpoint.get());
    progress.show("packing weights");
    Result<PackedFile> weights = packWeights(module, data, folder + "/" + weightsPath(), weightBytes, options.jobs, [&](int64_t bytes) {
      progress.show("packed " + sizeText(uint64_t(packedBytes += bytes)) + " of " + sizeText(uint64_t(weightBytes)));
    });
    if (!weights)
      return weights.error();
    progress.show("generating code");
    Result<std::vector<codegen::SharedObject>> code = codegen::emitVariants(module, host, folder + "/" + codeFolder(), options.jobs);
    if (!code)
      return code.error();
    if (Status s = copyTokenizer(line.modelFolder, folder); !s)
      return s;
    Result<OrderedJson> manifest = makeManifest(module, host, info(), *weights, *code, folder);
    return manifest ? writeManifest(*manifest, folder) : Status(manifest.error());
  }

  const CommandLine &line;
  CompileOptions options;
  Progress progress;
  std::optional<hf::Model> model;
};
} // namespace

Result<std::string> compileModel(const CommandLine &line) {
  codegen::registerTarget(codegen::kDefaultTarget, codegen::x86Registry);
  codegen::registerTarget(codegen::kSm90a, codegen::sm90Registry, codegen::sm90Dialects);
  return Compilation(line).run();
}

} // namespace dsv3
