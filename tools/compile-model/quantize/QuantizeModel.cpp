// compile-model quantize: reads a checkpoint, quantises layer after layer, writes a checkpoint.
//
// One layer's weights are in memory at a time, and one matrix of them in float32. Between layers only the rows of the calibration
// text are kept: what left one layer enters the next (LayerFolder.h).
#include "codegen/emit/Package.h"
#include "frontends/huggingface/Import.h"
#include "frontends/quantize/CheckpointWriter.h"
#include "passes/quantize/Decisions.h"
#include "runtime/core/OutputDir.h"
#include "tools/compile-model/Interrupt.h"
#include "tools/compile-model/quantize/CalibrationText.h"
#include "tools/compile-model/quantize/Command.h"
#include "tools/compile-model/quantize/LayerFolder.h"
#include "tools/compile-model/quantize/LayerQuantizer.h"
#include "tools/compile-model/quantize/Observe.h"

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
namespace fs = std::filesystem;

namespace dsv3 {

namespace {

constexpr const char *kReportFile = "quantization.txt";

class Quantization {
public:
  explicit Quantization(const QuantizeCommand &command) : command(command) {}
  Result<std::string> run();

private:
  Status read();
  Status importWeights();
  Status decide();
  Status startCalibration();
  Status writeLayer(int64_t layer, quantize::CheckpointWriter &writer);
  Status writeRest(quantize::CheckpointWriter &writer);
  Status copyFiles();
  int64_t layers() const { return model->config.layers + std::min<int64_t>(1, model->tensors.mtpModules); }
  void progress(const std::string &text) const {
    if (isatty(STDERR_FILENO))
      std::fprintf(stderr, "\r\033[K%s", text.c_str());
  }

  const QuantizeCommand &command;
  std::optional<hf::Model> model;
  MLIRContext context{MLIRContext::Threading::DISABLED};
  OwningOpRef<ModuleOp> module;
  std::optional<WeightData> data;
  DecisionTable decisions;
  std::optional<OutputDir> out;
  std::vector<std::vector<int32_t>> text; ///< empty: no calibration
  quantize::Matrix rows;                  ///< what enters the layer at hand
  std::set<std::string> taken;            ///< checkpoint tensors that were written
  std::map<std::string, quantize::StoredModule> stored;
  std::vector<LinearReport> report;
};

Status Quantization::read() {
  Result<hf::Model> found = hf::readModel(command.modelFolder);
  if (!found)
    return found.error();
  model.emplace(std::move(*found));
  const auto &quant = model->config.quant;
  if (quant && quant->method != "fp8")
    return unsupportedError(command.modelFolder + ": expected plain weights or FP8 blocks to quantise, got quant_method \"" + quant->method + "\"");
  std::error_code error;
  if (fs::equivalent(command.modelFolder, command.output, error))
    return usageError("-o: expected another folder than MODEL_DIR, got the same");
  return {};
}

Status Quantization::importWeights() {
  ImportOptions options;
  options.computeType = DType::F32; // no rounding of dequantised weights
  Result<OwningOpRef<ModuleOp>> imported = importModel(context, *model, options);
  if (!imported)
    return imported.error();
  module = std::move(*imported);
  data.emplace(*module, model->checkpoint.get());
  return {};
}

Status Quantization::decide() {
  Result<std::vector<WeightDecision>> all = decideWeights(*module, command.quant, command.config);
  if (!all)
    return all.error();
  const std::string by = command.config.empty() ? "--quant: " + command.quant : "--quant-config: " + command.config;
  bool changes = false;
  for (const WeightDecision &d : *all) {
    const std::string site = ir::WeightOp(d.weight).getSymName().str();
    const hf::Weight *weight = model->tensors.find(site);
    if (d.changed && (!weight || !weight->spec.quantisable))
      return unsupportedError(site + ": the format stores linears of decoder layers quantised, and the policy asks for it here");
    decisions[site] = {d.changed ? schemeOf(d.scheme) : std::nullopt, schemeOf(d.activation)};
    changes |= d.changed;
  }
  if (changes)
    return {};
  return unsupportedError(by + " changes no weight of " + command.modelFolder + ", whose linears are stored in other or narrower schemes: expected a policy that does");
}

Status Quantization::startCalibration() {
  if (command.calibration.empty())
    return {};
  auto sequences = readCalibrationText(command.modelFolder, command.calibration, command.tokens, std::min(command.length, model->config.maxPosition));
  if (!sequences)
    return sequences.error();
  text = std::move(*sequences);
  auto table = data->open("embed");
  if (!table)
    return table.error();
  int64_t total = 0, row = 0;
  for (const std::vector<int32_t> &ids : text)
    total += int64_t(ids.size());
  rows.resize(total, model->config.hidden);
  for (const std::vector<int32_t> &ids : text)
    for (int32_t id : ids) {
      if (id >= model->config.vocab)
        return checkpointError("the tokenizer has token " + std::to_string(id) + ", the embedding " + std::to_string(model->config.vocab) + " rows");
      if (Status s = (*table)->values(id, 0, rows.cols(), &rows(row++, 0)); !s)
        return s;
    }
  return {};
}

/// Gives back the memory of mapped data that is not read again (whole pages inside it; they would come back from the file).
static void forget(std::string_view data) {
  const uintptr_t page = uintptr_t(sysconf(_SC_PAGESIZE)), begin = reinterpret_cast<uintptr_t>(data.data());
  const uintptr_t first = (begin + page - 1) / page * page, end = (begin + data.size()) / page * page;
  if (end > first)
    madvise(reinterpret_cast<void *>(first), end - first, MADV_DONTNEED);
}

/// A message about a layer that ran as layer 0, with the names that its tensors have.
static std::string inLayer(std::string message, int64_t layer) {
  const std::string from = "model.layers.0.", to = "model.layers." + std::to_string(layer) + ".";
  for (size_t at = message.find(from); at != message.npos; at = message.find(from, at + to.size()))
    message.replace(at, from.size(), to);
  return message;
}

Status Quantization::writeLayer(int64_t layer, quantize::CheckpointWriter &writer) {
  const std::string name = "layer " + std::to_string(layer);
  LayerStates states;
  if (!text.empty()) {
    progress(name + ": running the calibration text");
    const std::string folder = out->path() + "/calibration.tmp";
    if (layer == model->config.layers) // an MTP module's
      if (Status s = enterMtp(*model, *data, text, rows); !s)
        return s;
    if (Status s = writeLayerFolder(*model, layer, rows, folder); !s)
      return s;
    std::vector<int64_t> lengths;
    for (const std::vector<int32_t> &ids : text)
      lengths.push_back(int64_t(ids.size()));
    Result<LayerStates> seen = observeLayer(folder, lengths, command.jobs);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    if (!seen)
      return Error{seen.error().code, inLayer(seen.error().message, layer)};
    states = std::move(*seen);
    rows = std::move(states.at("l0.out"));
  }
  progress(name + ": quantising");
  LayerQuantizer layerOf(*model, *module, *data, decisions, command.algorithm);
  Result<QuantizedLayer> done = layerOf.run(layer, states);
  if (!done)
    return done.error();
  taken.insert(done->taken.begin(), done->taken.end());
  stored.insert(done->stored.begin(), done->stored.end());
  report.insert(report.end(), done->report.begin(), done->report.end());
  Status written = writer.shard(done->tensors);
  for (const std::string &tensor : done->taken)
    forget(model->checkpoint->find(tensor)->data());
  return written;
}

/// Embeddings, norms, heads, and what nobody reads.
Status Quantization::writeRest(quantize::CheckpointWriter &writer) {
  std::vector<quantize::OutTensor> tensors;
  for (const hf::CheckpointTensor &t : model->checkpoint->tensors())
    if (!taken.count(t.name())) {
      tensors.push_back({t.name(), t.dtype(), t.shape(), {}, t.data()});
      const std::string end = ".weight";
      bool matrix = t.shape().size() == 2 && t.name().size() > end.size() && t.name().compare(t.name().size() - end.size(), end.size(), end) == 0;
      if (matrix && t.name().find("embed_tokens") == std::string::npos)
        stored[t.name().substr(0, t.name().size() - end.size())]; // a plain linear
    }
  return writer.shard(tensors);
}

/// Tokenizer, generation_config.json and whatever else stands beside the weights.
Status Quantization::copyFiles() {
  std::error_code error;
  for (const auto &entry : fs::directory_iterator(command.modelFolder, error)) {
    const std::string name = entry.path().filename().string();
    bool weights = entry.path().extension() == ".safetensors" || name == hf::indexFileName || entry.path().extension() == ".bin";
    if (!entry.is_regular_file() || weights || name == "config.json" || name == kReportFile)
      continue;
    std::error_code failed;
    fs::copy_file(entry.path(), out->path() + "/" + name, failed);
    if (failed) {
      const std::string text = "cannot copy '" + entry.path().string() + "': " + failed.message();
      return failed == std::errc::no_space_on_device ? doesNotFitError(text) : usageError(text);
    }
  }
  return error ? Status(usageError("cannot read '" + command.modelFolder + "': " + error.message())) : Status();
}

Result<std::string> Quantization::run() {
  auto start = std::chrono::steady_clock::now();
  for (Status (Quantization::*step)() : {&Quantization::read, &Quantization::importWeights, &Quantization::decide})
    if (Status s = (this->*step)(); !s)
      return s.error();
  Result<OutputDir> folder = OutputDir::create(command.output, {command.force, kReportFile, {}});
  if (!folder)
    return folder.error();
  out.emplace(std::move(*folder));
  removeOnInterrupt(out->path());
  if (Status s = startCalibration(); !s)
    return s.error();
  quantize::CheckpointWriter writer(out->path(), layers() + 1);
  for (int64_t layer = 0; layer < layers(); ++layer)
    if (Status s = writeLayer(layer, writer); !s)
      return s.error();
  if (Status s = writeRest(writer); !s)
    return s.error();
  Result<Json> config = parseJsonFile(command.modelFolder + "/config.json");
  if (!config)
    return config.error();
  if (Status s = writer.finish(std::move(*config), quantize::quantizationConfig(command.forOthers ? quantize::forOtherEngines(stored) : stored)); !s)
    return s.error();
  if (Status s = copyFiles(); !s)
    return s.error();
  if (Status s = writeText(out->path() + "/" + kReportFile, reportText(report, command.config.empty() ? command.quant : command.config, !command.config.empty())); !s)
    return s.error();
  progress("");
  if (command.forOthers) // else the compilation has said it
    for (const std::string &note : model->tensors.notes)
      std::fprintf(stderr, "compile-model: warning: %s\n", note.c_str());
  removeOnInterrupt("");
  if (Status s = out->commit(); !s)
    return s.error();
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f s", std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return command.output + ": " + std::to_string(report.size()) + " linears quantised, " + std::string(name(command.algorithm)) + ", " + seconds + "; see " +
         command.output + "/" + kReportFile;
}

} // namespace

Result<std::string> quantizeModel(const QuantizeCommand &command) { return Quantization(command).run(); }

} // namespace dsv3
