#include "frontends/huggingface/Tensors.h"

#include <algorithm>

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
  Result<DType> bindScale(const CheckpointTensor &tensor, const WeightSpec &spec, int64_t member);
  Status checkGrid(const CheckpointTensor &scale, const WeightSpec &spec) const;
  bool anyOfLayer(int64_t layer) const;
  Status ignoreRest();

  const ModelConfig &config;
  const Checkpoint &checkpoint;
  const TensorOptions &options;
  ModelTensors out;
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
  if (type != DType::F8E4M3 || !spec.mayBeFp8)
    return checkpointError(tensor.name() + ": expected dtype " +
                           (spec.mayBeFp8 ? "F8_E4M3, " : "") + "BF16, F16 or F32, got " + stored);
  if (!config.fp8)
    return checkpointError("config.json has no quantization_config, but " + tensor.name() +
                           " is stored as fp8 (" + stored + ")");
  return {};
}

Status Binder::checkGrid(const CheckpointTensor &scale, const WeightSpec &spec) const {
  if (scale.dtype() != DType::F32 && scale.dtype() != DType::BF16)
    return checkpointError(scale.name() + ": expected dtype F32 or BF16, got " +
                           std::string(safetensorsName(scale.dtype())));
  int64_t n = spec.dims[0].value, k = spec.dims[1].value;
  int64_t bn = config.fp8->blockRows, bk = config.fp8->blockCols;
  std::vector<int64_t> grid = {(n + bn - 1) / bn, (k + bk - 1) / bk};
  if (scale.shape() == grid)
    return {};
  return checkpointError(scale.name() + ": expected shape " + shapeText(grid) + " (one scale per " +
                         std::to_string(bn) + "x" + std::to_string(bk) + " block of " +
                         shapeText({n, k}) + "), got " + shapeText(scale.shape()));
}

Result<DType> Binder::bindScale(const CheckpointTensor &tensor, const WeightSpec &spec,
                                int64_t member) {
  auto scale = require(tensor.name() + "_scale_inv", ", but the fp8 weight needs it");
  if (!scale)
    return scale.error();
  if (Status ok = checkGrid(**scale, spec); !ok)
    return ok.error();
  if (Status ok = out.ledger.use(**scale, LedgerRow::Use::Scale, spec.site, member); !ok)
    return ok.error();
  return (*scale)->dtype();
}

Status Binder::bind(const WeightSpec &spec) {
  Weight weight{spec, DType::F32, std::nullopt};
  for (int64_t e = 0; e < std::max<int64_t>(1, spec.members); ++e) {
    auto found = require(spec.tensor(e), "");
    if (!found)
      return found.error();
    const CheckpointTensor &tensor = **found;
    if (Status ok = checkShape(tensor, spec); !ok)
      return ok;
    if (Status ok = checkType(tensor, spec); !ok)
      return ok;
    if (Status ok = out.ledger.use(tensor, LedgerRow::Use::Data, spec.site, e); !ok)
      return ok;
    std::optional<DType> scaleType;
    if (isFp8(tensor.dtype())) {
      Result<DType> scale = bindScale(tensor, spec, e);
      if (!scale)
        return scale.error();
      scaleType = *scale;
    } else if (checkpoint.find(weight.scaleTensor(e))) {
      return checkpointError(weight.scaleTensor(e) + " scales an fp8 weight, but " +
                             tensor.name() + " is stored as " +
                             std::string(safetensorsName(tensor.dtype())));
    }
    if (e == 0) {
      weight.dtype = tensor.dtype();
      weight.scale = scaleType;
    } else if (tensor.dtype() != weight.dtype || scaleType != weight.scale) {
      return checkpointError(tensor.name() + ": expected the dtypes of " + spec.tensor(0) +
                             " (one layer's experts are stored alike), got " +
                             std::string(safetensorsName(tensor.dtype())));
    }
  }
  if (options.checkValues)
    if (Status ok = checkValues(weight, checkpoint); !ok)
      return ok;
  out.bySite.emplace(spec.site, out.weights.size());
  out.weights.push_back(std::move(weight));
  return {};
}

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

Status Binder::ignoreRest() {
  for (const CheckpointTensor &tensor : checkpoint.tensors()) {
    if (!out.ledger.isOpen(tensor))
      continue;
    Ignored reason = endsWith(tensor.name(), ".rotary_emb.inv_freq") ? Ignored::RotaryInvFreq
                     : layerOf(tensor.name()) >= config.layers + out.mtpModules
                         ? Ignored::BeyondLayers
                         : Ignored::Unknown;
    if (Status ok = out.ledger.ignore(tensor, reason); !ok)
      return ok;
  }
  return out.ledger.verifyComplete();
}

Result<ModelTensors> Binder::run() {
  for (Status (Binder::*step)() : {&Binder::bindMain, &Binder::bindMtp, &Binder::ignoreRest})
    if (Status ok = (this->*step)(); !ok)
      return ok.error();
  return std::move(out);
}

} // namespace

Result<ModelTensors> bindTensors(const ModelConfig &config, const Checkpoint &checkpoint,
                                 const TensorOptions &options) {
  return Binder(config, checkpoint, options).run();
}

} // namespace dsv3::hf
