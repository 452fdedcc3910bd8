#include "tools/compile-model/Options.h"

#include "codegen/targets/Targets.h"
#include "frontends/quantize/Algorithm.h"
#include "frontends/quantize/Policy.h"
#include "passes/Pipeline.h"
#include "runtime/core/Json.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <thread>

namespace dsv3 {

namespace {

/// Values that need more than a type to be checked.
struct Texts {
  std::vector<std::string> targets{codegen::kDefaultTarget.str()};
  std::string cpuFeatures, dtype = "bf16", determinism = "batch", loadFormat = "safetensors";
};

std::string variantNames() {
  std::string names;
  for (const codegen::CpuVariant &v : codegen::cpuVariants())
    names += (names.empty() ? "" : ", ") + v.name.str();
  return names;
}

void declare(CLI::App &app, CommandLine &line, Texts &texts) {
  CompileOptions &o = line.compile;
  o.jobs = int(std::max(1u, std::thread::hardware_concurrency()));
  app.option_defaults()->always_capture_default();
  app.add_option("MODEL_DIR", line.modelFolder, "HuggingFace checkpoint folder: config.json, *.safetensors, tokenizer.json")->required();
  app.add_option("-o,--output", line.output, "Folder of the artifact; required, but for --dry-run");
  app.add_option("--target", texts.targets, "What to compile for, the preferred first: " + codegen::targetNames())->delimiter(',');
  app.add_option("--load-format", texts.loadFormat, "Where weights come from: safetensors, or dummy: drawn by name when the artifact is loaded, from config.json alone")
      ->check(CLI::IsMember({"safetensors", "dummy"}));
  app.add_option("--cpu-features", texts.cpuFeatures, "Only this code variant: " + variantNames() + "; default: all, chosen at load");
  app.add_option("--dtype", texts.dtype, "Type of activations and plain weights: bf16 or f32");
  app.add_option("--quant", o.quant, "Which schemes weights and activations get: " + quantize::Policy::builtInNames());
  app.add_option("--quant-config", o.quantConfig, "A JSON file that says it per module instead");
  app.add_option("--quant-algo", o.quantAlgo, "How weights are quantised: " + quantize::algorithmNames());
  app.add_option("--kv-cache-dtype", o.kvCacheDtype, "How the cache stores latents: auto (what the checkpoint asks, else --dtype), bf16, fp8_e4m3 or fp8_e5m2 (a scale per token)");
  app.add_option("--calibration", line.calibration, "Text for algorithms that look at data: see compile-model quantize");
  app.add_option("--calibration-tokens", line.calibrationTokens, "Tokens of it at most")->check(CLI::Range(int64_t(16), int64_t(1) << 24));
  app.add_option("--determinism", texts.determinism, "batch: a request has the same bits alone and among others; run: less strict");
  app.add_option("--max-batch", o.maxBatch, "Sequences of a step");
  app.add_option("--max-model-len", o.maxModelLen, "Tokens of a sequence, prompt and answer");
  app.add_option("--prefill-chunk", o.prefillChunk, "Tokens of a prefill step");
  app.add_option("--taps", o.taps, "Keep the states whose names match this regular expression");
  app.add_option("--jobs", o.jobs, "Threads of the compiler");
  app.add_option("--skip-pass", o.skipPasses, "Leave an optimisation out, to measure its worth: absorb-mla, fuse-norm, fuse-gated, fuse-linears, fuse-moe, fuse-quantize");
  app.add_option("--stop-after", line.stopAfter, "Stop after a stage, without writing an artifact");
  app.add_option("--dump-after", line.dumpAfter, "Write STAGE.mlir after this stage, or 'all'")->delimiter(',');
  app.add_option("--dump-dir", line.dumpDir, "Where dumps go");
  app.add_option("--report", line.report, "Print what each device kernel costs: text or json")->check(CLI::IsMember({"text", "json"}));
  app.add_flag("--op-list", line.opList, "Also write what every launch computes, for dsv3-bench slice");
  app.add_flag("--dry-run", line.dryRun, "Compile nothing: print what weights take, as bf16, as stored and in the schemes of --quant");
  app.add_flag("--force", line.force, "Replace an existing artifact");
  app.footer("compile-model inspect ARTIFACT prints what an artifact holds.\n"
             "Exit codes: 0 ok, 2 usage, 3 bad checkpoint, 4 unsupported, 5 does not fit, 6 internal.");
}

Status checkStages(const CommandLine &line) {
  std::string known;
  for (const Stage &s : stages())
    known += (known.empty() ? "" : ", ") + s.name.str();
  if (!line.stopAfter.empty() && !findStage(line.stopAfter))
    return usageError("--stop-after: expected one of " + known + ", got '" + printable(line.stopAfter) + "'");
  for (const std::string &name : line.dumpAfter)
    if (name != "all" && !findStage(name))
      return usageError("--dump-after: expected all or one of " + known + ", got '" + printable(name) + "'");
  return {};
}

Status checkTargets(CommandLine &line, const Texts &texts) {
  bool cpu = false;
  for (const std::string &target : texts.targets) {
    if (!codegen::isTarget(target))
      return unsupportedError("--target: expected out of " + codegen::targetNames() + ", got '" + printable(target) + "'");
    if (std::find(line.targets.begin(), line.targets.end(), target) != line.targets.end())
      return usageError("--target: expected each target once, got " + target + " twice");
    bool gpu = codegen::findGpu(target);
    if (gpu && line.compile.dtype != ComputeType::BF16)
      return unsupportedError("--dtype: expected bf16 for " + target + ", whose products are of bf16 and fp8, got " +
                              std::string(name(line.compile.dtype)));
    cpu |= !gpu;
    line.targets.push_back(target);
  }
  if (texts.cpuFeatures.empty())
    return {};
  if (!cpu)
    return usageError("--cpu-features: expected a CPU in --target, got " + line.targets[0]);
  if (!codegen::findCpuVariant(texts.cpuFeatures))
    return unsupportedError("--cpu-features: expected one of " + variantNames() + ", got '" + printable(texts.cpuFeatures) + "'");
  line.compile.cpuVariants = {texts.cpuFeatures};
  return {};
}

Status checkQuant(const CompileOptions &options) {
  if (Result<quantize::Policy> policy = quantize::Policy::builtIn(options.quant); !policy)
    return policy.error();
  if (Result<quantize::Algorithm> algorithm = quantize::parseAlgorithm(options.quantAlgo); !algorithm)
    return algorithm.error();
  if (options.quantAlgo != "default" && options.quantConfig.empty() && (options.quant == "none" || options.quant == "checkpoint"))
    return usageError("--quant-algo: expected a policy that quantises weights (--quant or --quant-config), got --quant=" + options.quant);
  if (!options.quantConfig.empty()) {
    if (options.quant != "none")
      return usageError("--quant-config: expected no --quant beside it (the file's \"policy\" says where it starts), got " + options.quant);
    if (Result<quantize::Policy> policy = quantize::Policy::read(options.quantConfig); !policy)
      return usageError("--quant-config: " + policy.error().message);
  }
  return {};
}

Status checkKvCache(const CompileOptions &options) {
  const std::string &type = options.kvCacheDtype;
  if (type != "auto" && type != "bf16" && type != "fp8_e4m3" && type != "fp8_e5m2")
    return usageError("--kv-cache-dtype: expected auto, bf16, fp8_e4m3 or fp8_e5m2, got '" + printable(type) + "'");
  if (type == "bf16" && options.dtype == ComputeType::F32)
    return unsupportedError("--kv-cache-dtype: expected auto, fp8_e4m3 or fp8_e5m2 with --dtype=f32, got bf16: plain rows have the compute type");
  return {};
}

Status checkCalibration(const CommandLine &line) {
  Result<quantize::Algorithm> algorithm = quantize::parseAlgorithm(line.compile.quantAlgo);
  if (!algorithm)
    return algorithm.error();
  const bool wanted = quantize::isCalibrated(*algorithm);
  if (wanted && line.calibration.empty())
    return usageError("--quant-algo=" + line.compile.quantAlgo + " needs --calibration=FILE");
  if (!wanted && !line.calibration.empty())
    return usageError("--calibration: expected an algorithm that looks at data, got --quant-algo=" + line.compile.quantAlgo);
  if (wanted && (line.dummyWeights || line.dryRun))
    return usageError("--calibration: expected weights to quantise, got " + std::string(line.dryRun ? "--dry-run" : "--load-format=dummy"));
  return {};
}

Status check(CommandLine &line, const Texts &texts) {
  Result<ComputeType> dtype = parseComputeType(texts.dtype);
  if (!dtype)
    return dtype.error();
  Result<Determinism> determinism = parseDeterminism(texts.determinism);
  if (!determinism)
    return determinism.error();
  line.compile.dtype = *dtype;
  line.compile.determinism = *determinism;
  line.dummyWeights = texts.loadFormat == "dummy";
  if (line.output.empty() && !line.dryRun)
    return usageError("--output is required");
  if (line.compile.jobs < 1)
    return usageError("--jobs: expected 1 or more, got " + std::to_string(line.compile.jobs));
  if (Status s = checkTargets(line, texts); !s)
    return s;
  if (Status s = checkQuant(line.compile); !s)
    return s;
  if (Status s = checkKvCache(line.compile); !s)
    return s;
  if (Status s = checkCalibration(line); !s)
    return s;
  return checkStages(line);
}
} // namespace

Result<CommandLine> parseCommandLine(int argc, char **argv) {
  CommandLine line;
  Texts texts;
  CLI::App app("Compiles a DeepSeek-V3 checkpoint to an artifact that dsv3-run runs.", "compile-model");
  declare(app, line, texts);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() == 0) {
      line.exit = app.exit(e); // --help
      return line;
    }
    return usageError(printable(e.what(), 300));
  }
  line.maxModelLenGiven = app.count("--max-model-len") > 0;
  if (Status s = check(line, texts); !s)
    return s.error();
  return line;
}

} // namespace dsv3
