#include "tools/compile-model/Driver.h"

#include "codegen/emit/LaunchCosts.h"
#include "codegen/emit/OpList.h"
#include "codegen/emit/Package.h"
#include "codegen/sm90/simt/DummyFill.h"
#include "codegen/targets/DeviceEmitter.h"
#include "codegen/targets/Targets.h"
#include "frontends/huggingface/Import.h"
#include "passes/Pipeline.h"
#include "passes/specialize/Taps.h"
#include "runtime/core/OutputDir.h"
#include "tools/compile-model/Interrupt.h"
#include "tools/compile-model/SizeTable.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
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
    if (line.stopAfter.empty() && !line.dryRun) {
      Result<OutputDir> made = OutputDir::create(line.output, {line.force});
      if (!made)
        return made.error();
      out.emplace(std::move(*made));
      removeOnInterrupt(out->path());
    }
    if (Status s = compile(out ? out->path() : ""); !s)
      return s.error();
    if (line.dryRun)
      return sizes;
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    char time[32];
    std::snprintf(time, sizeof time, "%.1f s", seconds.count());
    if (!out)
      return "stopped after " + line.stopAfter + ", " + time;
    uint64_t bytes = folderBytes(out->path());
    removeOnInterrupt(""); // a rename is whole or not at all
    if (Status s = out->commit(); !s)
      return s.error();
    if (line.report == "json")
      return reports; // the list alone, for programs
    return reports + (reports.empty() ? "" : "\n") + line.output + ": " + sizeText(bytes) + ", max-batch " + std::to_string(options.maxBatch) + ", max-model-len " +
           std::to_string(options.maxModelLen) + ", " + std::string(name(options.dtype)) + ", " + time;
  }

private:
  Status compile(const std::string &folder) {
    progress.show("reading " + line.modelFolder);
    Result<hf::Model> read = line.dummyWeights ? hf::drawModel(line.modelFolder) : hf::readModel(line.modelFolder);
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
    codegen::registerDeviceDialects(registry); // and the translations of what CPU code is made of
    MLIRContext context(registry, MLIRContext::Threading::DISABLED);
    if (options.jobs > 1)
      context.setThreadPool(threads);
    Diagnostics diagnostics(context);
    progress.show("importing");
    ImportOptions importOptions;
    importOptions.computeType = options.dtype == ComputeType::F32 ? DType::F32 : DType::BF16;
    importOptions.kvCache = kvCache();
    Result<OwningOpRef<ModuleOp>> module = importModel(context, *model, importOptions);
    if (!module)
      return module.error();
    if (Status s = line.dryRun ? measure(**module) : compileTargets(**module, folder); !s)
      return s;
    if (line.quiet)
      return {};
    for (const std::vector<std::string> *warnings : {&model->tensors.notes, &diagnostics.warnings, &notes})
      for (const std::string &warning : *warnings)
        std::fprintf(stderr, "compile-model: warning: %s\n", warning.c_str());
    return {};
  }

  Status measure(ModuleOp imported) {
    Result<std::vector<WeightDecision>> decisions = decideWeights(imported, options.quant, options.quantConfig);
    if (!decisions)
      return decisions.error();
    sizes = sizeTable(imported, *decisions, options.quantConfig.empty() ? options.quant : options.quantConfig);
    return {};
  }

  /// The imported module serves every target; each gets a copy.
  Status compileTargets(ModuleOp imported, const std::string &folder) {
    OrderedJson targets = OrderedJson::array(), common;
    for (const std::string &target : line.targets) {
      options.target = target;
      OwningOpRef<ModuleOp> module(imported.clone());
      if (Status s = runStages(*module); !s)
        return s;
      if (!line.stopAfter.empty())
        continue;
      if (Status s = emit(*module, folder, targets, common); !s)
        return s;
    }
    if (!line.stopAfter.empty())
      return {};
    if (Status s = copyTokenizer(line.modelFolder, folder); !s)
      return s;
    return writeManifest(makeManifest(info(), targets, common), folder);
  }

  /// A policy that does nothing to a checkpoint: say so, rather than not do what was asked.
  Status checkQuant(ModuleOp module) const {
    if (options.quant == "none" || options.quant == "checkpoint")
      return {};
    Result<std::vector<WeightDecision>> decisions = decideWeights(module, options.quant, "");
    if (!decisions)
      return decisions.error();
    for (const WeightDecision &d : *decisions)
      if (d.changed || d.activation)
        return {};
    return unsupportedError("--quant: " + options.quant + " changes nothing, since the checkpoint's linears are stored in other or narrower schemes; compile with --quant=none");
  }

  Status runStages(ModuleOp module) {
    if (Status s = checkQuant(module); !s)
      return s;
    if (Status s = checkTaps(module, options.taps); !s)
      return usageError("--taps: " + s.error().message);
    PipelineRequest request;
    request.stopAfter = line.stopAfter;
    request.dumpAfter = line.dumpAfter;
    request.dumpDir = line.targets.size() == 1 ? line.dumpDir : line.dumpDir + "/" + options.target;
    request.afterStage = [&](const Stage &stage, ModuleOp scheduled) {
      progress.show(options.target + ": stage " + stage.name.str() + " done");
      if (stage.name == "tile")
        activations = activationSchemes(scheduled);
      if (stage.name == "tile" && !line.report.empty())
        costs = codegen::launchCosts(scheduled); // the launches are gone after schedule
      return stage.name == "tile" && line.opList ? ops.collect(scheduled) : Status();
    };
    return runPipeline(module, options, request);
  }

  /// "auto" is what the checkpoint asks.
  KvCacheType kvCache() const {
    const std::string &type = options.kvCacheDtype;
    bool asked = type == "auto" && model->config.quant && model->config.quant->fp8Cache;
    return type == "fp8_e5m2" ? KvCacheType::F8E5M2 : asked || type == "fp8_e4m3" ? KvCacheType::F8E4M3 : KvCacheType::Plain;
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
    info.quant = options.quantConfig.empty() ? options.quant : "config";
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

  static int64_t poolBytes(rt::ModuleOp host, rt::Pool which) {
    for (auto pool : host.getBody().front().getOps<rt::PoolOp>())
      if (pool.getPool() == which)
        return int64_t(pool.getBytes());
    return 0;
  }

  Status makeFolders(const std::string &folder) {
    std::error_code error;
    std::filesystem::create_directories(folder + "/" + codeFolder(options.target), error);
    if (!error)
      std::filesystem::create_directories(std::filesystem::path(folder + "/" + weightsPath(options.target)).parent_path(), error);
    return error ? Status(usageError("cannot write into '" + folder + "': " + error.message())) : Status();
  }

  Result<PackedFile> emitWeights(ModuleOp module, const std::string &folder, int64_t bytes) {
    std::atomic<int64_t> done{0};
    WeightData data(module, model->checkpoint.get());
    progress.show(options.target + ": packing weights");
    if (model->checkpoint->isDrawn())
      return writeDrawn(module, data, *model->checkpoint, folder + "/" + weightsPath(options.target));
    return packWeights(module, data, folder + "/" + weightsPath(options.target), bytes, options.jobs, [&](int64_t more) {
      progress.show(options.target + ": packed " + sizeText(uint64_t(done += more)) + " of " + sizeText(uint64_t(bytes)));
    });
  }

  Status emitCode(ModuleOp module, rt::ModuleOp host, const std::string &folder, TargetFiles &files) {
    progress.show(options.target + ": generating code");
    if (!codegen::findGpu(options.target)) {
      Result<std::vector<codegen::SharedObject>> variants = codegen::emitVariants(module, host, folder, options.jobs);
      if (!variants)
        return variants.error();
      files.variants = std::move(*variants);
      return {};
    }
    if (model->checkpoint->isDrawn())
      for (auto kernels : module.getOps<gpu::GPUModuleOp>())
        codegen::addDummyFill(kernels);
    Result<codegen::DeviceFiles> device = codegen::emitDeviceTarget(module, host, folder, options.jobs);
    if (!device)
      return device.error();
    if (!device->verified())
      notes.push_back(options.target + ": no ptxas was found: the driver compiles the kernels at load, registers and spills are unknown");
    files.device = std::move(*device);
    if (!line.report.empty())
      reports += line.report == "json" ? codegen::reportJson(files.device->report, costs) : codegen::reportText(files.device->report, costs);
    return {};
  }

  Status emitOpList(rt::ModuleOp host, const std::string &folder) {
    if (!line.opList)
      return {};
    if (Status s = ops.place(host); !s)
      return s;
    return writeText(folder + "/" + kOpListFile, ops.json().dump(1) + "\n");
  }

  /// Writes one target's files; its entry is appended to `targets`.
  Status emit(ModuleOp module, const std::string &folder, OrderedJson &targets, OrderedJson &common) {
    auto hosts = module.getOps<rt::ModuleOp>();
    if (hosts.empty())
      return internalError("the stages left no host program");
    rt::ModuleOp host = *hosts.begin();
    int64_t weightBytes = poolBytes(host, rt::Pool::Weights);
    if (Status s = checkDisk(folder, model->checkpoint->isDrawn() ? 0 : weightBytes); !s)
      return s;
    if (Status s = makeFolders(folder); !s)
      return s;
    TargetFiles files;
    files.name = options.target;
    files.activations = std::move(activations);
    Result<PackedFile> weights = emitWeights(module, folder, weightBytes);
    if (!weights)
      return weights.error();
    files.weights = std::move(*weights);
    if (Status s = emitCode(module, host, folder + "/" + codeFolder(options.target), files); !s)
      return s;
    if (Status s = emitOpList(host, folder + "/" + codeFolder(options.target)); !s)
      return s;
    Result<OrderedJson> entry = targetEntry(module, host, files, info(), folder);
    if (!entry)
      return entry.error();
    OrderedJson shared = commonEntry(module, host);
    if (!targets.empty() && shared != common)
      return internalError("targets " + line.targets[0] + " and " + options.target + " disagree on cache, taps or ignored tensors");
    common = shared;
    targets.push_back(*entry);
    return {};
  }

  const CommandLine &line;
  CompileOptions options;
  Progress progress;
  std::optional<hf::Model> model;
  std::vector<codegen::LaunchCost> costs; ///< of the target at hand
  OpList ops;                             ///< the same
  std::map<std::string, std::string> activations; ///< the same
  std::vector<std::string> notes;
  std::string reports, sizes;
};
} // namespace

void registerTargets() {
  codegen::registerTarget(codegen::kDefaultTarget, codegen::x86Registry);
  codegen::registerTarget(codegen::kSm90a, codegen::sm90Registry, codegen::sm90Dialects, codegen::sm90Lowering);
}

Result<std::string> compileModel(const CommandLine &line) { return Compilation(line).run(); }

} // namespace dsv3
