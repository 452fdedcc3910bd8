#include "passes/Pipeline.h"

#include "codegen/targets/Targets.h"
#include "passes/Passes.h"
#include "passes/Verifiers.h"
#include "passes/bind/VerifyBind.h"
#include "passes/quantize/Decisions.h"
#include "passes/schedule/SchedulePasses.h"
#include "passes/tile/TileAnalysis.h"
#include "passes/specialize/Taps.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3 {

//===-- The stages --------------------------------------------------------===//

/// Adds an optimisation unless the user left it out.
static void addOptional(OpPassManager &pm, const CompileOptions &options, StringRef name, std::unique_ptr<Pass> pass) {
  if (!llvm::is_contained(options.skipPasses, name))
    pm.addPass(std::move(pass));
}

/// The front end imports; there is nothing to run, only something to check.
static void buildImport(OpPassManager &, const CompileOptions &) {}

static void buildQuantize(OpPassManager &pm, const CompileOptions &options) {
  QuantizeWeightsPassOptions weights;
  weights.policy = options.quant;
  weights.config = options.quantConfig;
  weights.algorithm = options.quantAlgo;
  pm.addPass(createQuantizeWeightsPass(weights));
  pm.addPass(createQuantizeActivationsPass());
}

static void buildSpecialize(OpPassManager &pm, const CompileOptions &options) {
  InsertTapsPassOptions taps;
  taps.regex = options.taps;
  pm.addPass(createInsertTapsPass(taps));
  if (options.observers)
    pm.addPass(createInsertObserversPass());
  MakeProgramsPassOptions programs;
  programs.maxBatch = options.maxBatch;
  programs.prefillChunk = options.prefillChunk;
  programs.maxModelLen = options.maxModelLen;
  pm.addPass(createMakeProgramsPass(programs));
  addOptional(pm, options, "absorb-mla", createAbsorbMlaPass());
  pm.addPass(createEraseUnusedWeightsPass());
}

static void buildFuse(OpPassManager &pm, const CompileOptions &options) {
  addOptional(pm, options, "fuse-norm", createFuseNormPass());
  // Before fuse-linears, which would join gate and up as well.
  addOptional(pm, options, "fuse-gated", createFuseGatedPass());
  addOptional(pm, options, "fuse-linears", createFuseLinearsPass());
  addOptional(pm, options, "fuse-moe", createFuseMoePass());
  pm.addPass(createEraseUnusedWeightsPass());
}

static void buildBind(OpPassManager &pm, const CompileOptions &options) {
  pm.addPass(createLowerToKernelPass());
  ExpandAttentionPassOptions attention;
  attention.even = options.determinism == Determinism::Run;
  attention.target = options.target;
  pm.addPass(createExpandAttentionPass(attention));
  ExpandExpertsPassOptions experts;
  experts.target = options.target;
  pm.addPass(createExpandExpertsPass(experts));
  DequantizeWeightsPassOptions weights;
  weights.target = options.target;
  pm.addPass(createDequantizeWeightsPass(weights));
  DequantizeActivationsPassOptions activations;
  activations.target = options.target;
  pm.addPass(createDequantizeActivationsPass(activations));
  AddSamplingPassOptions sampling;
  sampling.target = options.target;
  pm.addPass(createAddSamplingPass(sampling));
  FuseQuantizePassOptions quantize;
  quantize.target = options.target;
  addOptional(pm, options, "fuse-quantize", createFuseQuantizePass(quantize));
  BindKernelsPassOptions bind;
  bind.target = options.target;
  pm.addPass(createBindKernelsPass(bind));
  pm.addPass(createEraseUnusedWeightsPass());
}

static void buildPack(OpPassManager &pm, const CompileOptions &options) {
  PackWeightsPassOptions pack;
  pack.target = options.target;
  pm.addPass(createPackWeightsPass(pack));
  pm.addPass(createEraseUnusedWeightsPass());
}

static void buildTile(OpPassManager &pm, const CompileOptions &options) {
  OutlineKernelsPassOptions outline;
  outline.target = options.target;
  for (const std::string &variant : options.cpuVariants)
    outline.variants.push_back(variant);
  pm.addPass(createOutlineKernelsPass(outline));
}

static void buildSchedule(OpPassManager &pm, const CompileOptions &options) {
  LowerToRtPassOptions lower;
  lower.target = options.target;
  pm.addPass(createLowerToRtPass(lower));
}

static constexpr Stage table[] = {
    {"import", buildImport, verifyImport},
    {"quantize", buildQuantize, verifyImport},
    {"specialize", buildSpecialize, verifySpecialize},
    {"fuse", buildFuse, verifyFuse},
    {"bind", buildBind, verifyBind},
    {"pack", buildPack, verifyPack},
    {"tile", buildTile, verifyTile},
    {"schedule", buildSchedule, verifySchedule},
};

llvm::ArrayRef<Stage> stages() { return table; }

const Stage *findStage(llvm::StringRef name) {
  const Stage *found = llvm::find_if(table, [&](const Stage &s) { return s.name == name; });
  return found == std::end(table) ? nullptr : found;
}

//===-- Running them ------------------------------------------------------===//

static Status expectStage(const std::string &name, const char *flag) {
  if (findStage(name))
    return {};
  std::string known;
  for (const Stage &s : table)
    known += (known.empty() ? "" : ", ") + s.name.str();
  return usageError("expected " + std::string(flag) + " to name a stage (" + known + "), got '" + name + "'");
}

static Status checkRequest(const PipelineRequest &request) {
  if (!request.stopAfter.empty())
    if (Status s = expectStage(request.stopAfter, "--stop-after"); !s)
      return s;
  for (const std::string &name : request.dumpAfter)
    if (name != "all")
      if (Status s = expectStage(name, "--dump-after"); !s)
        return s;
  if (request.stopAfter.empty())
    return {};
  // What would never be written is not passed over in silence.
  bool runs = true;
  for (const Stage &stage : table) {
    if (!runs && llvm::is_contained(request.dumpAfter, stage.name))
      return usageError("--dump-after=" + stage.name.str() + ": expected a stage that runs, but --stop-after=" + request.stopAfter + " comes before it");
    runs = runs && stage.name != request.stopAfter;
  }
  return {};
}

static Status dump(ModuleOp module, const std::string &dir, llvm::StringRef stage) {
  if (std::error_code error = llvm::sys::fs::create_directories(dir))
    return usageError("expected a folder to write dumps to, got '" + dir + "': " + error.message());
  llvm::SmallString<128> path(dir);
  llvm::sys::path::append(path, stage + ".mlir");
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    module.print(os);
    os.close();
    error = os.error();
    os.clear_error();
  }
  return error ? usageError("cannot write '" + path.str().str() + "': " + error.message()) : Status();
}

static LogicalResult runStage(const Stage &stage, ModuleOp module, const CompileOptions &options) {
  PassManager pm(module.getContext());
  stage.build(pm, options);
  return failed(pm.run(module)) ? failure() : stage.verify(module, options);
}

Status runPipeline(ModuleOp module, const CompileOptions &options, const PipelineRequest &request) {
  if (Status s = checkRequest(request); !s)
    return s;
  if (Status s = checkTaps(module, options.taps); !s)
    return s;
  if (auto decided = decideWeights(module, options.quant, options.quantConfig); !decided)
    return decided.error();
  std::string target = options.target.empty() ? codegen::kDefaultTarget.str() : options.target;
  if (!codegen::isTarget(target))
    return usageError("expected a target (" + codegen::targetNames() + "), got '" + target + "'");
  module->setAttr(codegen::kTargetAttr, codegen::targetAttr(module.getContext(), target, options.cpuVariants));
  for (const Stage &stage : table) {
    std::string first;
    LogicalResult ok = success();
    {
      // Errors travel in the Status; remarks and warnings go on to the tool's own handler.
      ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &d) -> LogicalResult {
        if (d.getSeverity() != DiagnosticSeverity::Error)
          return failure();
        if (first.empty())
          first = d.str();
        return success();
      });
      ok = runStage(stage, module, options);
    }
    if (failed(ok))
      return internalError("stage " + stage.name.str() + ": " + (first.empty() ? "failed without a message" : first));
    if (llvm::is_contained(request.dumpAfter, stage.name) || llvm::is_contained(request.dumpAfter, "all"))
      if (Status s = dump(module, request.dumpDir, stage.name); !s)
        return s;
    if (request.afterStage)
      if (Status s = request.afterStage(stage, module); !s)
        return s;
    if (stage.name == request.stopAfter)
      break;
  }
  return {};
}

//===-- Registration ------------------------------------------------------===//

namespace {
/// CompileOptions on dsv3-opt's command line: `--dsv3-stage-specialize="max-batch=4 taps=l3.*"`.
struct StagePipelineOptions : PassPipelineOptions<StagePipelineOptions> {
  Option<std::string> target{*this, "target", llvm::cl::desc("target; empty: the module's"), llvm::cl::init("")};
  Option<std::string> dtype{*this, "dtype", llvm::cl::desc("f32 or bf16"), llvm::cl::init("bf16")};
  Option<std::string> determinism{*this, "determinism", llvm::cl::desc("batch or run"), llvm::cl::init("batch")};
  Option<int64_t> maxBatch{*this, "max-batch", llvm::cl::desc("sequences of a step"), llvm::cl::init(8)};
  Option<int64_t> maxModelLen{*this, "max-model-len", llvm::cl::desc("tokens of a sequence"), llvm::cl::init(4096)};
  Option<int64_t> prefillChunk{*this, "prefill-chunk", llvm::cl::desc("tokens of a prefill step"), llvm::cl::init(512)};
  Option<std::string> quant{*this, "quant", llvm::cl::desc("policy of schemes"), llvm::cl::init("none")};
  Option<std::string> taps{*this, "taps", llvm::cl::desc("names of states to keep, an expression"), llvm::cl::init("")};

  Result<CompileOptions> get() const {
    CompileOptions options;
    Result<ComputeType> type = parseComputeType(dtype.getValue());
    if (!type)
      return type.error();
    Result<Determinism> rule = parseDeterminism(determinism.getValue());
    if (!rule)
      return rule.error();
    options.dtype = *type;
    options.determinism = *rule;
    options.maxBatch = maxBatch;
    options.maxModelLen = maxModelLen;
    options.prefillChunk = prefillChunk;
    options.taps = taps;
    options.quant = quant;
    options.target = target;
    if (Status s = resolve(options, maxModelLen); !s)
      return s.error();
    return options;
  }
};
} // namespace

void registerAllPasses() {
  registerDsv3Passes();
  registerDsv3SchedulePasses();
  registerDsv3TileAnalysisPasses();
  for (const Stage &stage : table) {
    auto build = [&stage](OpPassManager &pm, StringRef text, llvm::function_ref<LogicalResult(const Twine &)> onError) {
      StagePipelineOptions flags;
      if (failed(flags.parseFromString(text)))
        return failure();
      Result<CompileOptions> options = flags.get();
      if (!options)
        return onError(options.error().message);
      stage.build(pm, *options);
      VerifyStagePassOptions verify;
      verify.stage = stage.name.str();
      pm.addPass(createVerifyStagePass(verify));
      return success();
    };
    registerPassPipeline("dsv3-stage-" + stage.name.str(), "the passes of stage " + stage.name.str() + " and its verifier",
                         build, [](llvm::function_ref<void(const mlir::detail::PassOptions &)> handle) {
                           handle(StagePipelineOptions());
                         });
  }
}

} // namespace dsv3
