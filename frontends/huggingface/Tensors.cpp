#include "frontends/huggingface/Tensors.h"

#include <algorithm>
#include <cmath>

namespace dsv3::hf {

std::vector<int64_t> Weight::shape() const {
  std::vector<int64_t> out;
  if (spec.members)
    out.push_back(spec.members);
  for (const Dim &dim : spec.dims)
    out.push_back(dim.value);
  return out;
}

const Weight *ModelTensors::find(const std::string &site) const {
  auto it = bySite.find(site);
  return it == bySite.end() ? nullptr : &weights[it->second];
}

const Weight *ModelTensors::lmHead() const {
  const Weight *own = find("lm_head");
  return own ? own : find("embed");
}

const Weight *ModelTensors::mtpEmbedding(int64_t layer) const {
  const Weight *own = find("l" + std::to_string(layer) + ".embed");
  return own ? own : find("embed");
}

const Weight *ModelTensors::mtpHead(int64_t layer) const {
  const Weight *own = find("l" + std::to_string(layer) + ".head");
  return own ? own : lmHead();
}

namespace {

class Binder {
public:
  Binder(const ModelConfig &config, const Checkpoint &checkpoint, const TensorOptions &options)
      : config(config), checkpoint(checkpoint), options(options) {
    out.ledger = Ledger(checkpoint);
  }

  Result<ModelTensors> run();

private:
  Status bindMain();
  Status bindMtp();
  Status bindTied();
  Status bind(const WeightSpec &spec);
  /// A tensor that may be absent or a byte copy of `original`; else it is bound.
  Status bindUnlessCopy(const WeightSpec &spec, const CheckpointTensor &original);
  Result<const CheckpointTensor *> require(const std::string &name, const std::string &why) const;
  Status checkShape(const CheckpointTensor &tensor, const WeightSpec &spec) const;
  Status checkType(const CheckpointTensor &tensor, const WeightSpec &spec) const;
  Status refuseCodes(const CheckpointTensor &tensor, const WeightSpec &spec, const std::string &stored) const;
  Result<LinearTensors> findParts(const WeightSpec &spec, int64_t member, const StoredScheme &scheme) const;
  Status bindPlain(Weight &weight);
  Status bindQuantised(Weight &weight);
  Status useParts(const Weight &weight, const LinearTensors &linear, int64_t member);
  Result<const StoredScheme *> schemeOf(const WeightSpec &spec);
  Status refuseStrayScales(const WeightSpec &spec, const CheckpointTensor &plain, int64_t member) const;
  Status refuseStrangeCodes(const WeightSpec &spec, int64_t member) const;
  Status checkBias(const Weight &weight) const;
  bool anyOfLayer(int64_t layer) const;
  Ignored reasonOf(const std::string &name) const;
  Status ignoreRest();

  const ModelConfig &config;
  const Checkpoint &checkpoint;
  const TensorOptions &options;
  ModelTensors out;
  int64_t plainLinears = 0; ///< linears that config.json calls quantised and the checkpoint holds plain
  std::string firstPlain;
};

Result<const CheckpointTensor *> Binder::require(const std::string &name,
                                                 const std::string &why) const {
  const CheckpointTensor *tensor = checkpoint.find(name);
  if (!tensor)
    return checkpointError("tensor " + name + " is missing from " + checkpoint.dir() + why);
  if (!tensor->indexed)
    return checkpointError("tensor " + name + " is in " + checkpoint.fileName(*tensor) + ", but " +
                           indexFileName + " does not list it");
  return tensor;
}

static std::string dimName(size_t i, size_t rank) {
  if (rank == 1)
    return "elements";
  return i == 0 ? "rows" : "columns";
}

Status Binder::checkShape(const CheckpointTensor &tensor, const WeightSpec &spec) const {
  const std::vector<int64_t> &shape = tensor.shape();
  if (shape.size() != spec.dims.size())
    return checkpointError(tensor.name() + ": expected " + std::to_string(spec.dims.size()) +
                           " dimensions, got shape " + shapeText(shape));
  for (size_t i = 0; i < shape.size(); ++i) {
    const Dim &dim = spec.dims[i];
    if (shape[i] != dim.value)
      return checkpointError("config.json contradicts " + tensor.name() + ": expected " +
                             std::to_string(dim.value) + " " + dimName(i, shape.size()) + " (" +
                             dim.formula + "), got " + std::to_string(shape[i]));
  }
  return {};
}

Status Binder::checkType(const CheckpointTensor &tensor, const WeightSpec &spec) const {
  DType type = tensor.dtype();
  if (type == DType::BF16 || type == DType::F16 || type == DType::F32)
    return {};
  std::string stored = std::string(safetensorsName(type));
  if (spec.dims.size() == 2 && (isFp8(type) || type == DType::I8))
    return refuseCodes(tensor, spec, isFp8(type) ? "fp8 (" + stored + ")" : stored);
  return checkpointError(tensor.name() + ": expected dtype BF16, F16 or F32, got " + stored);
}

/// A weight in codes that config.json does not say how to read.
Status Binder::refuseCodes(const CheckpointTensor &tensor, const WeightSpec &spec, const std::string &stored) const {
  const std::string held = tensor.name() + " is stored as " + stored;
  if (!spec.quantisable)
    return unsupportedError(held + ": expected BF16, F16 or F32, since only linears of decoder layers are read quantised");
  if (!config.quant)
    return checkpointError("config.json has no quantization_config, but " + held);
  const std::string module = tensor.name().substr(0, tensor.name().rfind('.'));
  Result<bool> ignored = config.quant->ignores(module);
  if (!ignored)
    return ignored.error();
  return checkpointError("config.json: quantization_config " + (*ignored ? "ignores " + module : "has no group for " + module) + ", but " + held);
}

//===-- Quantised linears -------------------------------------------------===//

/// The scheme a weight is stored in; null when it is plain. What the checkpoint holds decides; config.json only says
/// how it is to be read.
Result<const StoredScheme *> Binder::schemeOf(const WeightSpec &spec) {
  const StoredScheme *none = nullptr;
  if (!spec.quantisable || !config.quant)
    return none;
  Result<const StoredScheme *> scheme = config.quant->schemeOf(spec.module());
  if (!scheme || !*scheme)
    return scheme;
  if (isStored(checkpoint, spec.module(), **scheme)) {
    for (int64_t e = 1; e < spec.members; ++e) {
      Result<const StoredScheme *> other = config.quant->schemeOf(spec.module(e));
      if (!other)
        return other;
      if (*other != *scheme)
        return unsupportedError("config.json: quantization_config has other settings for " + spec.module(e) + " than for " +
                                spec.module() + ", and one layer's experts are stored alike");
    }
    return scheme;
  }
  if (config.quant->method != "fp8" && !plainLinears++)
    firstPlain = spec.module();
  return none;
}

/// Codes of a linear that config.json does not say how to read.
Status Binder::refuseStrangeCodes(const WeightSpec &spec, int64_t member) const {
  for (const char *part : {"weight_packed", "qweight"}) {
    const CheckpointTensor *codes = checkpoint.find(spec.module(member) + "." + part);
    if (!codes)
      continue;
    std::string held = ", but the checkpoint holds " + codes->name();
    if (!spec.quantisable)
      return unsupportedError(spec.tensor(member) + " is to be stored plain: only linears of decoder layers are read quantised" + held);
    if (!config.quant)
      return checkpointError("config.json has no quantization_config" + held);
    Result<bool> ignored = config.quant->ignores(spec.module(member));
    if (!ignored)
      return ignored.error();
    return checkpointError("config.json: quantization_config " +
                           (*ignored ? "ignores " + spec.module(member) : "(" + config.quant->method + ") has no place for it") + held);
  }
  return {};
}

Result<LinearTensors> Binder::findParts(const WeightSpec &spec, int64_t member, const StoredScheme &scheme) const {
  LinearTensors out{spec.module(member), spec.dims[0].value, spec.dims[1].value};
  auto data = require(out.name(scheme.names.data), "");
  if (!data)
    return data.error();
  out.data = *data;
  if (scheme.names.data == "weight") {
    if (Status ok = scheme.packing == Packing::Plain ? checkShape(**data, spec) : Status(); !ok)
      return ok.error();
  } else if (const CheckpointTensor *plain = checkpoint.find(out.name("weight"))) {
    return checkpointError(plain->name() + " and " + out.data->name() + " are the same linear: expected one of them");
  }
  auto scale = require(out.name(scheme.names.scale), ", but the " + scheme.text() + " weight needs it");
  if (!scale)
    return scale.error();
  out.scale = *scale;
  if (!scheme.names.zero.empty())
    out.zero = checkpoint.find(out.name(scheme.names.zero));
  if (!scheme.names.index.empty())
    out.index = checkpoint.find(out.name(scheme.names.index));
  if (!scheme.names.shape.empty())
    out.shape = checkpoint.find(out.name(scheme.names.shape));
  if (scheme.zeroPoints && !out.zero)
    return require(out.name(scheme.names.zero), ", but the weight has zero points").error();
  if (scheme.mayIndex && scheme.blockCols && !out.index)
    return require(out.name(scheme.names.index), ", but config.json says that groups are permuted").error();
  if (Status ok = checkParts(out, scheme); !ok)
    return ok.error();
  return out;
}

/// Enters the tensors of one linear into the ledger: parts that say nothing new are ignored.
Status Binder::useParts(const Weight &weight, const LinearTensors &linear, int64_t member) {
  struct Entry {
    const CheckpointTensor *tensor;
    bool used;
    LedgerRow::Use how;
    Ignored reason;
  } entries[] = {{linear.data, true, LedgerRow::Use::Data, Ignored::Unknown},
                 {linear.scale, true, LedgerRow::Use::Scale, Ignored::Unknown},
                 {linear.zero, weight.scheme->zeroPoints, LedgerRow::Use::Zero, Ignored::SymmetricZero},
                 {linear.index, weight.indexed, LedgerRow::Use::Index, Ignored::GroupsInOrder},
                 {linear.shape, false, LedgerRow::Use::None, Ignored::ShapeAsNumbers}};
  for (const Entry &entry : entries)
    if (entry.tensor)
      if (Status ok = entry.used ? out.ledger.use(*entry.tensor, entry.how, weight.spec.site, member)
                                 : out.ledger.ignore(*entry.tensor, entry.reason);
          !ok)
        return ok;
  for (const char *part : {"input_scale", "input_zero_point"}) // of static activation quantisation
    if (const CheckpointTensor *tensor = checkpoint.find(linear.name(part)))
      if (Status ok = out.ledger.ignore(*tensor, Ignored::ActivationScale); !ok)
        return ok;
  return {};
}

Status Binder::bindQuantised(Weight &weight) {
  const StoredScheme &scheme = *weight.scheme;
  std::vector<LinearTensors> linears;
  for (int64_t e = 0; e < std::max<int64_t>(1, weight.spec.members); ++e) {
    const CheckpointTensor *plain = checkpoint.find(weight.spec.tensor(e));
    if (plain && !isStored(checkpoint, weight.spec.module(e), scheme)) {
      Status stray = refuseStrayScales(weight.spec, *plain, e);
      return !stray ? stray : checkpointError(plain->name() + ": expected the dtypes of " + weight.tensor(0) +
                                              " (one layer's experts are stored alike), got " + std::string(safetensorsName(plain->dtype())));
    }
    Result<LinearTensors> linear = findParts(weight.spec, e, scheme);
    if (!linear)
      return linear.error();
    if (options.checkValues) {
      if (Status ok = checkPartValues(*linear, scheme); !ok)
        return ok;
      Result<bool> permutes = permutesGroups(*linear, scheme);
      if (!permutes)
        return permutes.error();
      weight.indexed |= *permutes;
    }
    if (e == 0) {
      weight.dtype = linear->data->dtype();
      weight.scale = linear->scale->dtype();
    } else if (linear->scale->dtype() != weight.scale) {
      return checkpointError(linear->scale->name() + ": expected the dtype of " + weight.scaleTensor(0) +
                             " (one layer's experts are stored alike), got " + std::string(safetensorsName(linear->scale->dtype())));
    }
    linears.push_back(std::move(*linear));
  }
  weight.indexed |= !options.checkValues && scheme.mayIndex;
  for (size_t e = 0; e < linears.size(); ++e) {
    if (weight.indexed && !linears[e].index)
      return require(weight.indexTensor(int64_t(e)), ", but " + weight.indexTensor(0) + " permutes groups").error();
    if (Status ok = useParts(weight, linears[e], int64_t(e)); !ok)
      return ok;
  }
  return {};
}

Status Binder::refuseStrayScales(const WeightSpec &spec, const CheckpointTensor &plain, int64_t member) const {
  for (const char *part : {"weight_scale_inv", "weight_scale"})
    if (const CheckpointTensor *scale = spec.quantisable ? checkpoint.find(spec.module(member) + "." + part) : nullptr)
      return checkpointError(scale->name() + " scales an fp8 or integer weight, but " + plain.name() + " is stored as " +
                             std::string(safetensorsName(plain.dtype())));
  return {};
}

Status Binder::bindPlain(Weight &weight) {
  const WeightSpec &spec = weight.spec;
  for (int64_t e = 0; e < std::max<int64_t>(1, spec.members); ++e) {
    if (!checkpoint.find(spec.tensor(e)))
      if (Status ok = refuseStrangeCodes(spec, e); !ok)
        return ok;
    auto found = require(spec.tensor(e), "");
    if (!found)
      return found.error();
    const CheckpointTensor &tensor = **found;
    if (Status ok = checkShape(tensor, spec); !ok)
      return ok;
    if (Status ok = checkType(tensor, spec); !ok)
      return ok;
    if (Status ok = refuseStrayScales(spec, tensor, e); !ok)
      return ok;
    if (Status ok = out.ledger.use(tensor, LedgerRow::Use::Data, spec.site, e); !ok)
      return ok;
    if (e == 0)
      weight.dtype = tensor.dtype();
    else if (tensor.dtype() != weight.dtype)
      return checkpointError(tensor.name() + ": expected the dtypes of " + spec.tensor(0) +
                             " (one layer's experts are stored alike), got " +
                             std::string(safetensorsName(tensor.dtype())));
  }
  return options.checkValues ? checkBias(weight) : Status();
}

/// A router bias that is not finite would spoil every choice silently.
Status Binder::checkBias(const Weight &weight) const {
  if (weight.spec.role != Role::RouterBias)
    return {};
  const CheckpointTensor &bias = *checkpoint.find(weight.tensor());
  for (size_t i = 0; i < bias.data().size() / byteSize(bias.dtype()); ++i)
    if (float value = loadAsFloat(bias.dtype(), bias.data().data(), i); !std::isfinite(value))
      return checkpointError(bias.name() + ": element " + std::to_string(i) + " is " + std::to_string(value) +
                             ", expected a finite value");
  return {};
}

Status Binder::bind(const WeightSpec &spec) {
  Result<const StoredScheme *> scheme = schemeOf(spec);
  if (!scheme)
    return scheme.error();
  Weight weight{spec, DType::F32, std::nullopt, std::nullopt};
  if (*scheme)
    weight.scheme = **scheme;
  if (Status ok = weight.scheme ? bindQuantised(weight) : bindPlain(weight); !ok)
    return ok;
  out.bySite.emplace(spec.site, out.weights.size());
  out.weights.push_back(std::move(weight));
  return {};
}

//===-- The model ---------------------------------------------------------===//

static bool sameBytes(const CheckpointTensor &a, const CheckpointTensor &b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.data() == b.data();
}

Status Binder::bindUnlessCopy(const WeightSpec &spec, const CheckpointTensor &original) {
  const CheckpointTensor *tensor = checkpoint.find(spec.tensor());
  if (!tensor)
    return {};
  if (sameBytes(*tensor, original))
    return out.ledger.ignore(*tensor, Ignored::CopyOf, original.name());
  return bind(spec);
}

Status Binder::bindMain() {
  for (const WeightSpec &spec : mainWeights(config))
    if (Status ok = bind(spec); !ok)
      return ok;
  return config.tieEmbeddings ? bindTied() : Status();
}

/// A tied checkpoint may still hold the head, if it says the same.
Status Binder::bindTied() {
  const CheckpointTensor *head = checkpoint.find("lm_head.weight");
  const CheckpointTensor *embedding = checkpoint.find(out.find("embed")->tensor());
  if (!head)
    return {};
  if (!sameBytes(*head, *embedding))
    return checkpointError("config.json: tie_word_embeddings is true, but lm_head.weight differs "
                           "from " + embedding->name());
  return out.ledger.ignore(*head, Ignored::CopyOf, embedding->name());
}

static std::string layerPrefix(int64_t layer) {
  return "model.layers." + std::to_string(layer) + ".";
}

bool Binder::anyOfLayer(int64_t layer) const {
  std::string prefix = layerPrefix(layer);
  const auto &all = checkpoint.tensors();
  auto it = std::lower_bound(all.begin(), all.end(), prefix,
                             [](const auto &t, const std::string &p) { return t.name() < p; });
  return it != all.end() && it->name().compare(0, prefix.size(), prefix) == 0;
}

Status Binder::bindMtp() {
  for (int64_t m = 0; m < config.mtpModules; ++m) {
    if (!anyOfLayer(config.layers + m)) {
      out.notes.push_back("config.json promises " + std::to_string(config.mtpModules) +
                          " MTP modules, the checkpoint holds " + std::to_string(m) +
                          ": there is no tensor of layer " + std::to_string(config.layers + m));
      break;
    }
    for (const WeightSpec &spec : mtpWeights(config, m)) {
      const Weight *original = spec.role == Role::MtpEmbedding ? out.find("embed")
                               : spec.role == Role::MtpHead    ? out.lmHead()
                                                               : nullptr;
      Status ok = original ? bindUnlessCopy(spec, *checkpoint.find(original->tensor())) : bind(spec);
      if (!ok)
        return ok;
    }
    ++out.mtpModules;
  }
  return {};
}

static bool endsWith(const std::string &text, const std::string &end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

/// The N of "model.layers.N.", or -1.
static int64_t layerOf(const std::string &name) {
  const std::string prefix = "model.layers.";
  if (name.compare(0, prefix.size(), prefix) != 0)
    return -1;
  int64_t layer = 0;
  size_t i = prefix.size();
  for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && layer < (1 << 24); ++i)
    layer = layer * 10 + (name[i] - '0');
  return i > prefix.size() && i < name.size() && name[i] == '.' ? layer : -1;
}

/// Why a tensor that no weight claimed is left out.
Ignored Binder::reasonOf(const std::string &name) const {
  if (endsWith(name, ".rotary_emb.inv_freq"))
    return Ignored::RotaryInvFreq;
  if (layerOf(name) >= config.layers + out.mtpModules)
    return Ignored::BeyondLayers;
  for (const char *scale : {".k_scale", ".v_scale", ".kv_scale", ".q_scale", ".output_scale"}) // static ones: rows have their own
    if (endsWith(name, scale))
      return Ignored::ActivationScale;
  return Ignored::Unknown;
}

Status Binder::ignoreRest() {
  std::string first;
  int64_t unknown = 0;
  for (const CheckpointTensor &tensor : checkpoint.tensors()) {
    if (!out.ledger.isOpen(tensor))
      continue;
    Ignored reason = reasonOf(tensor.name());
    if (reason == Ignored::Unknown && endsWith(tensor.name(), "_proj.bias") && tensor.data().find_first_not_of('\0') != std::string_view::npos)
      return unsupportedError(tensor.name() + ": expected a linear without a bias, got one that is not 0");
    if (reason == Ignored::Unknown && !unknown++)
      first = tensor.name();
    if (Status ok = out.ledger.ignore(tensor, reason); !ok)
      return ok;
  }
  if (unknown)
    out.notes.push_back(std::to_string(unknown) + (unknown == 1 ? " tensor is" : " tensors are") + " no part of the model and left out: " + first +
                        (unknown == 1 ? "" : ", ..."));
  return out.ledger.verifyComplete();
}

Result<ModelTensors> Binder::run() {
  for (Status (Binder::*step)() : {&Binder::bindMain, &Binder::bindMtp, &Binder::ignoreRest})
    if (Status ok = (this->*step)(); !ok)
      return ok.error();
  if (config.quant && !config.quant->unmetActivations.empty())
    out.notes.push_back("config.json asks for activations in " + config.quant->unmetActivations + ": they stay in the compute type");
  if (plainLinears)
    out.notes.push_back("config.json calls all linears quantised (" + config.quant->method + "), but the checkpoint holds " +
                        std::to_string(plainLinears) + " plain, " + firstPlain + " first: they are used as they are");
  return std::move(out);
}

} // namespace

Result<ModelTensors> bindTensors(const ModelConfig &config, const Checkpoint &checkpoint,
                                 const TensorOptions &options) {
  return Binder(config, checkpoint, options).run();
}

} // namespace dsv3::hf
