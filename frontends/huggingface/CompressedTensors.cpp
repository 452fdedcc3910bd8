// `quantization_config` of compressed-tensors: groups of modules, each with the arguments of its weights.
//
// Source of names, defaults and layouts: quantization/quant_args.py, quant_scheme.py and compressors/ of
// https://github.com/vllm-project/compressed-tensors.
#include "frontends/huggingface/ModelConfig.h"
#include "frontends/huggingface/QuantConfig.h"

namespace dsv3::hf {

namespace {

/// What QuantizationArgs say of weights or activations.
struct Args {
  int64_t bits = 8;
  bool integer = true, symmetric = true, dynamic = false, actOrder = false;
  std::string strategy;
  int64_t group = 0;            ///< with strategy group
  int64_t rows = 0, columns = 0; ///< with strategy block
};

/// Keeps the first error of several fields.
class Fields {
public:
  explicit Fields(const JsonFields &fields) : fields(fields) {}
  template <typename T> T take(Result<T> value) {
    if (value)
      return std::move(*value);
    if (status)
      status = value.error();
    return T();
  }
  const JsonFields &fields;
  Status status;
};

/// The strategy, which may be left to the group size: none per tensor, -1 per channel.
Result<std::string> strategyOf(const JsonFields &fields, std::optional<int64_t> group) {
  Result<std::string> named = fields.stringOr("strategy", "");
  if (!named || !named->empty())
    return named;
  return std::string(!group ? "tensor" : *group == -1 ? "channel" : "group");
}

/// `block_structure`: [128, 128], or "128x128" in older files.
Status blockOf(const JsonFields &fields, Args &args) {
  const Json *block = fields.find("block_structure");
  int64_t sizes[2] = {0, 0};
  if (block && block->is_array() && block->size() == 2)
    for (size_t i = 0; i < 2; ++i)
      sizes[i] = (*block)[i].is_number_integer() ? (*block)[i].get<int64_t>() : 0;
  int end = 0;
  if (block && block->is_string()) {
    const auto &text = block->get_ref<const std::string &>();
    long long rows = 0, columns = 0;
    if (std::sscanf(text.c_str(), "%7lldx%7lld%n", &rows, &columns, &end) == 2 && size_t(end) == text.size())
      sizes[0] = rows, sizes[1] = columns;
  }
  if (sizes[0] <= 0 || sizes[1] <= 0 || sizes[0] > 1 << 20 || sizes[1] > 1 << 20)
    return block ? fields.wrong("block_structure", "two positive integers") : fields.missing("block_structure");
  args.rows = sizes[0], args.columns = sizes[1];
  return {};
}

Result<bool> actOrderOf(const JsonFields &fields) {
  const Json *order = fields.find("actorder");
  if (!order || (order->is_boolean() && !order->get<bool>()))
    return false;
  std::string text = order->is_string() ? order->get<std::string>() : order->is_boolean() ? "group" : "";
  if (text == "weight" || text == "static") // a matter of calibration alone: groups lie in order
    return false;
  if (text == "group" || text == "dynamic")
    return true;
  return notSupported(fields, "actorder", "null, \"group\" and \"weight\"");
}

Result<Args> parseArgs(const JsonFields &json) {
  Args args;
  Fields f(json);
  args.bits = f.take(json.integerOr("num_bits", 8, 1, 64));
  std::string type = f.take(json.stringOr("type", "int"));
  args.symmetric = f.take(json.booleanOr("symmetric", true));
  std::optional<int64_t> group = f.take(json.integerOrNull("group_size", -1, 1 << 20));
  args.strategy = f.take(strategyOf(json, group));
  args.actOrder = f.take(actOrderOf(json));
  if (const Json *dynamic = json.find("dynamic"); dynamic && dynamic->is_string())
    return notSupported(json, "dynamic", "true and false");
  args.dynamic = f.take(json.booleanOr("dynamic", false));
  if (!f.status)
    return f.status.error();
  if (type != "int" && type != "float")
    return notSupported(json, "type", "\"int\" and \"float\"");
  args.integer = type == "int";
  if (args.strategy == "group") {
    if (!group || *group <= 0)
      return json.wrong("group_size", "a positive number for strategy \"group\"");
    args.group = *group;
  }
  if (args.strategy == "block")
    if (Status ok = blockOf(json, args); !ok)
      return ok.error();
  return args;
}

/// A group's format against its arguments.
Status checkFormat(const JsonFields &group, const JsonFields &weights, const std::string &format, const Args &args) {
  bool packed = format == "pack-quantized", known = packed || format == "int-quantized" || format == "float-quantized" ||
                                                    format == "naive-quantized";
  if (!known)
    return unsupportedError(group.name("format") + ": the format \"" + printable(format) +
                            "\" is not supported, only \"pack-quantized\", \"int-quantized\", \"float-quantized\" and "
                            "\"naive-quantized\"");
  if (args.dynamic)
    return notSupported(weights, "dynamic", "false for weights");
  if (args.integer ? args.bits != 4 && args.bits != 8 : args.bits != 8)
    return notSupported(weights, "num_bits", args.integer ? "4 and 8 for integers" : "8 for floats");
  if ((format == "float-quantized" && args.integer) || ((packed || format == "int-quantized") && !args.integer))
    return notSupported(weights, "type", std::string(args.integer ? "\"float\"" : "\"int\"") + " with format \"" + format + "\"");
  for (const char *strategy : {"tensor", "channel", "group", "block"})
    if (args.strategy == strategy) {
      if (!args.symmetric && !args.integer)
        return notSupported(weights, "symmetric", "true for floats");
      if (packed && !args.symmetric && args.strategy != "group" && args.strategy != "channel")
        return notSupported(weights, "strategy", "\"group\" and \"channel\" with packed zero points");
      return {};
    }
  return notSupported(weights, "strategy", "\"tensor\", \"channel\", \"group\" and \"block\"");
}

StoredScheme schemeOf(const std::string &format, const Args &args) {
  StoredScheme scheme;
  scheme.code = !args.integer ? StoredScheme::Code::F8E4M3 : args.bits == 8 ? StoredScheme::Code::I8 : StoredScheme::Code::I4;
  scheme.blockRows = args.strategy == "block" ? args.rows : args.strategy == "tensor" ? 0 : 1;
  scheme.blockCols = args.strategy == "block" ? args.columns : args.strategy == "group" ? args.group : 0;
  scheme.zeroPoints = !args.symmetric;
  scheme.mayIndex = args.actOrder;
  bool packed = format == "pack-quantized";
  scheme.packing = packed ? Packing::Words : Packing::Plain;
  scheme.names = {packed ? "weight_packed" : "weight", "weight_scale", "weight_zero_point", "weight_g_idx",
                  packed ? "weight_shape" : ""};
  return scheme;
}

std::string activationText(const Args &args) {
  std::string per = args.strategy == "token" ? "per token" : args.strategy == "group" ? "per token and group" : "per tensor";
  return std::string(args.integer ? "int" : "fp") + std::to_string(args.bits) + " " + per + (args.symmetric ? "" : ", asymmetric") +
         (args.dynamic ? "" : ", static");
}

/// What kernels here can do of what is asked; none: only with other numbers than the checkpoint was made for.
std::optional<ActivationScheme> activationOf(const Args &args) {
  const bool token = args.strategy == "token", group = args.strategy == "group" && args.group == 128;
  if (args.bits != 8 || !args.symmetric || !args.dynamic || (!token && !group))
    return std::nullopt;
  return ActivationScheme{args.integer, token ? 0 : args.group, /*ue8m0=*/false};
}

/// One entry of `config_groups`.
Status parseGroup(const JsonFields &fields, const std::string &format, QuantConfig &config) {
  Result<std::vector<NamePattern>> targets = patternList(fields, "targets");
  Result<std::string> own = fields.stringOr("format", format);
  if (!targets || !own)
    return targets ? own.error() : targets.error();
  if (fields.has("output_activations"))
    return notSupported(fields, "output_activations", "null");
  if (!fields.has("weights"))
    return notSupported(fields, "weights", "an object with the arguments of weights");
  Result<JsonFields> weights = fields.child("weights");
  if (!weights)
    return weights.error();
  Result<Args> args = parseArgs(*weights);
  if (!args)
    return args.error();
  if (own->empty())
    return fields.missing("format");
  if (Status ok = checkFormat(fields, *weights, *own, *args); !ok)
    return ok;
  QuantGroup group{{}, false, schemeOf(*own, *args)};
  if (fields.has("input_activations")) {
    Result<JsonFields> inputs = fields.child("input_activations");
    Result<Args> inputArgs = inputs ? parseArgs(*inputs) : Result<Args>(inputs.error());
    if (!inputArgs)
      return inputArgs.error();
    group.scheme.activation = activationOf(*inputArgs);
    if (!group.scheme.activation)
      config.unmetActivations = activationText(*inputArgs);
  }
  for (NamePattern &target : *targets)
    if (target.text() == "Linear")
      group.allLinears = true;
    else
      group.targets.push_back(std::move(target));
  config.groups.push_back(std::move(group));
  return {};
}

} // namespace

Result<QuantConfig> parseCompressedTensors(const JsonFields &fields) {
  QuantConfig config;
  config.method = "compressed-tensors";
  Result<std::string> format = fields.stringOr("format", "");
  Result<std::vector<NamePattern>> ignored = patternList(fields, "ignore");
  Result<JsonFields> groups = fields.child("config_groups");
  if (!format || !ignored || !groups)
    return !format ? format.error() : !ignored ? ignored.error() : groups.error();
  if (fields.has("kv_cache_scheme")) {
    Result<JsonFields> cache = fields.child("kv_cache_scheme");
    Result<Args> args = cache ? parseArgs(*cache) : Result<Args>(cache.error());
    if (!args)
      return args.error();
    if (args->integer || args->bits != 8 || !args->symmetric)
      return unsupportedError(fields.name("kv_cache_scheme") + ": expected symmetric floats of 8 bits, got " + activationText(*args));
    config.fp8Cache = true;
  }
  if (const Json *sparsity = fields.find("sparsity_config"); sparsity && !sparsity->empty())
    if (!sparsity->is_object() || sparsity->value("format", Json()) != Json("dense"))
      return unsupportedError(fields.name("sparsity_config") + ": sparse weights are not supported, only none or format \"dense\"; got " +
                              describe(sparsity->is_object() ? sparsity->value("format", Json()) : *sparsity));
  // Rotations that are left for the forward pass: without them the codes are of another model.
  if (const Json *transforms = fields.find("transform_config"); transforms && !transforms->empty())
    return notSupported(fields, "transform_config", "null");
  config.ignored = std::move(*ignored);
  const Json &object = *fields.find("config_groups");
  for (const auto &entry : object.items()) {
    if (!entry.value().is_object())
      return unsupportedError(fields.name("config_groups") + "." + printable(entry.key()) +
                              ": expected an object with targets and weights, got " + describe(entry.value()));
    Result<JsonFields> group = groups->child(entry.key().c_str());
    if (!group)
      return group.error();
    // The whole model's "mixed-precision" says that each group has its own.
    if (Status ok = parseGroup(*group, *format == "mixed-precision" ? "" : *format, config); !ok)
      return ok.error();
  }
  if (config.groups.empty())
    return fields.wrong("config_groups", "at least one group");
  return config;
}

} // namespace dsv3::hf
