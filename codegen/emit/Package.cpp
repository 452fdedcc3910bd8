#include "codegen/emit/Package.h"

#include "runtime/core/Abi.h"
#include "runtime/core/Hash.h"
#include "runtime/core/MappedFile.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3 {

static constexpr int64_t kManifestFormat = 2;

std::string codeFolder(StringRef target) { return "code/" + target.str(); }
std::string weightsPath(StringRef target) { return "weights/" + target.str() + "/rank-0.bin"; }

static const char *phaseName(uint64_t phase) {
  static const char *const names[] = {"prefill", "decode", "score", "mtp"};
  return phase < 4 ? names[phase] : "?";
}

static std::string elemName(rt::Elem elem) { return rt::stringifyElem(elem).str(); }

template <typename T> static std::string textOf(T value) {
  std::string text;
  llvm::raw_string_ostream(text) << value;
  return text;
}

static void collectSources(ModuleOp module, StringRef symbol, llvm::SetVector<StringAttr> &tensors, llvm::SmallDenseSet<StringAttr> &seen) {
  auto weight = module.lookupSymbol<ir::WeightOp>(symbol);
  if (!weight || !seen.insert(weight.getSymNameAttr()).second)
    return;
  auto source = cast<ir::WeightSource>(weight.getSource());
  source.forEachTensor([&](StringRef tensor) { tensors.insert(StringAttr::get(module.getContext(), tensor)); });
  source.forEachSymbol([&](StringRef other) { collectSources(module, other, tensors, seen); });
}

std::vector<std::string> weightSources(ModuleOp module, StringRef symbol) {
  llvm::SetVector<StringAttr> tensors;
  llvm::SmallDenseSet<StringAttr> seen;
  collectSources(module, symbol, tensors, seen);
  std::vector<std::string> names;
  for (StringAttr t : tensors)
    names.push_back(t.str());
  return names;
}

static Result<OrderedJson> fileEntry(const std::string &folder, const std::string &path) {
  Result<MappedFile> file = MappedFile::open(folder + "/" + path);
  if (!file)
    return internalError(file.error().message);
  return OrderedJson{{"file", path}, {"hash", hashHex(file->bytes())}, {"bytes", file->bytes().size()}};
}

std::map<std::string, std::string> activationSchemes(ModuleOp module) {
  std::map<std::string, std::string> schemes;
  module.walk([&](kernel::KernelOp launch) {
    auto x = launch.getIns().empty() ? RankedTensorType() : dyn_cast<RankedTensorType>(launch.getIns().front().getType());
    auto rows = x ? dyn_cast_or_null<ir::BlockedAttr>(x.getEncoding()) : ir::BlockedAttr();
    if (!rows)
      return;
    for (Value in : launch.getIns())
      if (auto use = in.getDefiningOp<kernel::UseOp>())
        schemes[module.lookupSymbol<kernel::WeightOp>(use.getWeight()).getSource().str()] = textOf(rows);
  });
  return schemes;
}

static OrderedJson weightEntry(ModuleOp module, const PackedWeight &weight, const std::map<std::string, std::string> &activations) {
  kernel::WeightOp op = weight.op;
  RankedTensorType type = op.getTensorType();
  auto packed = cast<kernel::PackedAttr>(type.getEncoding());
  OrderedJson entry = {{"name", op.getSource().str()}, {"offset", op.getOffset()}, {"bytes", op.getBytes()}};
  if (weight.fills.empty())
    entry["hash"] = weight.hash;
  if (weight.storedAt >= 0)
    entry["stored_at"] = weight.storedAt;
  entry["shape"] = type.getShape().vec();
  entry["scheme"] = packed.getScheme() ? textOf(packed.getScheme()) : textOf(type.getElementType());
  if (auto rows = activations.find(op.getSource().str()); rows != activations.end())
    entry["activations"] = rows->second;
  entry["layout"] = packed.getLayout().getMap().str();
  if (weight.fills.empty())
    entry["sources"] = weightSources(module, op.getSource());
  else // the sources stand in what is drawn from them
    for (const DummyFill &fill : weight.fills)
      entry["draw"].push_back(toJson(fill));
  return entry;
}

static OrderedJson programEntries(rt::ModuleOp host) {
  OrderedJson programs = OrderedJson::array();
  for (auto program : host.getBody().front().getOps<rt::ProgramOp>()) {
    OrderedJson outputs = OrderedJson::array();
    for (auto output : program.getBody().front().getOps<rt::OutputOp>())
      outputs.push_back({{"name", output.getName().str()}, {"dtype", elemName(output.getElem())}, {"cols", output.getCols()}});
    programs.push_back({{"name", program.getSymName().str()},
                        {"phase", phaseName(program.getPhase())},
                        {"tokens", program.getTokens()},
                        {"seqs", program.getSeqs()},
                        {"qblocks", program.getQblocks()},
                        {"kblocks", program.getKblocks()},
                        {"outputs", outputs}});
  }
  return programs;
}

static OrderedJson memoryEntry(rt::ModuleOp host, const ArtifactInfo &info) {
  std::map<rt::Pool, uint64_t> pools;
  for (auto pool : host.getBody().front().getOps<rt::PoolOp>())
    pools[pool.getPool()] = pool.getBytes();
  uint64_t page = host.getKvLayers() * uint64_t(host.getKvPageBytes());
  return {{"weights", pools[rt::Pool::Weights]}, {"arena", pools[rt::Pool::Arena]},
          {"persist", pools[rt::Pool::Persist]}, {"step", pools[rt::Pool::Step]},
          {"kv_page", page},                     {"kv_pages_min", llvm::divideCeil(uint64_t(info.maxModelLen), host.getKvPage())}};
}

static OrderedJson modelEntry(const ArtifactInfo &info) {
  OrderedJson model = {{"vocab_size", info.vocabSize},
                       {"hidden_size", info.hiddenSize},
                       {"layers", info.layers},
                       {"mtp_layers", info.mtpLayers},
                       {"bos_token_id", nullptr},
                       {"eos_token_ids", info.eos},
                       {"max_position_embeddings", info.maxPosition}};
  if (info.bos)
    model["bos_token_id"] = *info.bos;
  return model;
}

/// One shared object per variant.
static Result<OrderedJson> variantEntries(const TargetFiles &files, const std::string &folder) {
  OrderedJson variants = OrderedJson::array();
  for (const codegen::SharedObject &object : files.variants) {
    Result<OrderedJson> entry = fileEntry(folder, codeFolder(files.name) + "/" + object.variant + ".so");
    if (!entry)
      return entry.error();
    OrderedJson variant = {{"name", object.variant}};
    variant.update(*entry);
    variants.push_back(variant);
  }
  return variants;
}

static Result<OrderedJson> kernelEntry(const TargetFiles &files, const codegen::DeviceFiles::Kernel &kernel, const std::string &folder) {
  OrderedJson entry = {{"symbol", kernel.symbol}};
  for (const char *kind : {"cubin", "ptx"}) {
    if (kind == std::string("cubin") && !kernel.assembled)
      continue;
    Result<OrderedJson> file = fileEntry(folder, codeFolder(files.name) + "/kernels/" + kernel.symbol + "." + kind);
    if (!file)
      return file.error();
    entry[kind] = *file;
  }
  return entry;
}

static Result<OrderedJson> deviceEntry(const TargetFiles &files, const std::string &folder) {
  const codegen::DeviceFiles &device = *files.device;
  Result<OrderedJson> host = fileEntry(folder, codeFolder(files.name) + "/host.so");
  if (!host)
    return host.error();
  OrderedJson kernels = OrderedJson::array();
  for (const codegen::DeviceFiles::Kernel &kernel : device.kernels) {
    Result<OrderedJson> entry = kernelEntry(files, kernel, folder);
    if (!entry)
      return entry.error();
    kernels.push_back(*entry);
  }
  return OrderedJson{{"arch", device.gpu.getArch().str()},
                     {"sm_count", device.gpu.getSmCount()},
                     {"smem", device.gpu.getSmem()},
                     {"verified", device.verified()},
                     {"assembler", device.verified() ? OrderedJson(device.assembler) : OrderedJson()},
                     {"host", *host},
                     {"kernels", kernels}};
}

Result<OrderedJson> targetEntry(ModuleOp module, rt::ModuleOp host, const TargetFiles &files, const ArtifactInfo &info,
                                const std::string &folder) {
  Result<OrderedJson> code = files.device ? deviceEntry(files, folder) : variantEntries(files, folder);
  if (!code)
    return code.error();
  OrderedJson tensors = OrderedJson::array();
  for (const PackedWeight &weight : files.weights.weights)
    tensors.push_back(weightEntry(module, weight, files.activations));
  OrderedJson entry = {{"name", files.name}};
  entry[files.device ? "device" : "variants"] = *code;
  entry["weights"] = {{"file", weightsPath(files.name)}, {"bytes", files.weights.bytes}, {"hash", files.weights.hash}};
  if (files.weights.drawn)
    entry["weights"]["drawn"] = true;
  entry["weights"]["tensors"] = tensors;
  entry["memory"] = memoryEntry(host, info);
  entry["programs"] = programEntries(host);
  return entry;
}

OrderedJson commonEntry(ModuleOp module, rt::ModuleOp host) {
  OrderedJson taps = OrderedJson::array(), ignored = OrderedJson::array();
  for (auto tap : host.getBody().front().getOps<rt::TapPointOp>())
    taps.push_back({{"name", tap.getName().str()}, {"dtype", elemName(tap.getElem())}, {"cols", tap.getCols()}});
  for (auto op : module.getOps<ir::IgnoredOp>())
    ignored.push_back({{"tensor", op.getTensor().str()}, {"reason", op.getReason().str()}});
  OrderedJson common;
  common["kv"] = {{"layers", host.getKvLayers()}, {"page_tokens", host.getKvPage()}, {"row_elems", host.getKvRow()}, {"dtype", elemName(host.getKvElem())}};
  if (host.getKvCodes())
    common["kv"]["latent"] = {{"lanes", *host.getKvLatent()}, {"codes", host.getKvCodes()->str()}};
  common["taps"] = taps;
  common["ignored"] = ignored;
  return common;
}

OrderedJson makeManifest(const ArtifactInfo &info, const OrderedJson &targets, const OrderedJson &common) {
  OrderedJson manifest;
  manifest["format"] = kManifestFormat;
  manifest["abi"] = DSV3_ABI;
  manifest["compiler"] = {{"name", kCompilerName}, {"version", kCompilerVersion}};
  manifest["model"] = modelEntry(info);
  manifest["config"] = {{"dtype", info.dtype},          {"quant", info.quant},
                        {"determinism", info.determinism}, {"max_batch", info.maxBatch},
                        {"max_model_len", info.maxModelLen}, {"prefill_chunk", info.prefillChunk},
                        {"taps", info.taps}};
  manifest["targets"] = targets;
  manifest.update(common);
  return manifest;
}

Status writeText(const std::string &path, std::string_view content) {
  std::error_code error;
  llvm::raw_fd_ostream os(path, error);
  if (!error) {
    os << llvm::StringRef(content.data(), content.size());
    os.close();
    error = os.error();
    os.clear_error();
  }
  return error ? Status(doesNotFitError("cannot write '" + path + "': " + error.message())) : Status();
}

Status writeManifest(const OrderedJson &manifest, const std::string &folder) {
  return writeText(folder + "/manifest.json", manifest.dump(1) + "\n");
}

Status copyTokenizer(const std::string &checkpointFolder, const std::string &folder) {
  for (const char *name : {"tokenizer.json", "tokenizer_config.json"}) {
    std::string from = checkpointFolder + "/" + name;
    if (!llvm::sys::fs::exists(from))
      continue;
    Result<MappedFile> file = MappedFile::open(from);
    if (!file)
      return file.error();
    if (std::error_code error = llvm::sys::fs::create_directories(folder + "/tokenizer"))
      return doesNotFitError("cannot make '" + folder + "/tokenizer': " + error.message());
    if (Status s = writeText(folder + "/tokenizer/" + name, file->bytes()); !s)
      return s;
  }
  return {};
}

} // namespace dsv3
