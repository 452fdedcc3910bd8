#include "frontends/huggingface/QuantConfig.h"

#include "frontends/huggingface/ModelConfig.h"

namespace dsv3::hf {

//===-- Which scheme a module has -----------------------------------------===//

std::string ActivationScheme::text() const {
  return std::string(integer ? "int8" : "fp8") + " per token" + (blockCols ? " and " + std::to_string(blockCols) + " channels" : "") +
         (ue8m0 ? ", scales powers of two" : "");
}

std::string StoredScheme::text() const {
  std::string out = code == Code::F8E4M3 ? "fp8" : code == Code::I8 ? "int8" : "int4";
  if (!blockRows && !blockCols)
    out += " per tensor";
  else if (!blockCols)
    out += " per channel";
  else if (blockRows == 1)
    out += " in groups of " + std::to_string(blockCols);
  else
    out += " in blocks of " + std::to_string(blockRows) + "x" + std::to_string(blockCols);
  return out + (zeroPoints ? " with zero points" : "");
}

std::vector<std::string> moduleNames(const std::string &module) {
  static const struct {
    const char *part, *fused;
  } fusions[] = {{"gate_proj", "gate_up_proj"},
                 {"up_proj", "gate_up_proj"},
                 {"q_a_proj", "fused_qkv_a_proj"},
                 {"kv_a_proj_with_mqa", "fused_qkv_a_proj"}};
  std::vector<std::string> names{module};
  size_t dot = module.rfind('.');
  for (const auto &fusion : fusions)
    if (dot != module.npos && module.compare(dot + 1, module.npos, fusion.part) == 0)
      names.push_back(module.substr(0, dot + 1) + fusion.fused);
  return names;
}

Result<bool> QuantConfig::ignores(const std::string &module) const {
  for (const std::string &name : moduleNames(module))
    for (const NamePattern &pattern : ignored) {
      Result<bool> matches = pattern.matches(name);
      if (!matches || *matches)
        return matches;
    }
  return false;
}

Result<const StoredScheme *> QuantConfig::schemeOf(const std::string &module) const {
  Result<bool> skip = ignores(module);
  if (!skip)
    return skip.error();
  const StoredScheme *none = nullptr;
  if (*skip)
    return none;
  const std::vector<std::string> names = moduleNames(module);
  for (bool regex : {false, true})
    for (const QuantGroup &group : groups)
      for (const NamePattern &target : group.targets)
        for (size_t i = 0; i < names.size() && target.isRegex() == regex; ++i) {
          Result<bool> matches = target.matches(names[i]);
          if (!matches)
            return matches.error();
          if (*matches)
            return &group.scheme;
        }
  for (const QuantGroup &group : groups)
    if (group.allLinears)
      return &group.scheme;
  return none;
}

//===-- Pieces of the parsers ---------------------------------------------===//

Result<std::vector<std::string>> stringList(const JsonFields &fields, const char *key) {
  std::vector<std::string> out;
  const Json *list = fields.find(key);
  if (!list)
    return out;
  if (!list->is_array())
    return fields.wrong(key, "a list of names");
  for (const Json &entry : *list) {
    if (!entry.is_string())
      return checkpointError(fields.name(key) + ": expected a list of names, got " + describe(entry) + " in it");
    out.push_back(entry.get<std::string>());
  }
  return out;
}

Result<std::vector<NamePattern>> patternList(const JsonFields &fields, const char *key) {
  Result<std::vector<std::string>> names = stringList(fields, key);
  if (!names)
    return names.error();
  std::vector<NamePattern> out;
  for (const std::string &name : *names) {
    Result<NamePattern> pattern = NamePattern::parse(name, fields.name(key));
    if (!pattern)
      return pattern.error();
    out.push_back(std::move(*pattern));
  }
  return out;
}

Result<int64_t> groupSize(const JsonFields &fields, const char *key) {
  if (!fields.has(key))
    return fields.missing(key);
  return groupSizeOr(fields, key, -1);
}

Result<int64_t> groupSizeOr(const JsonFields &fields, const char *key, int64_t fallback) {
  Result<int64_t> size = fields.integerOr(key, fallback, -1, 1 << 20);
  if (!size)
    return size;
  if (*size == 0)
    return fields.wrong(key, "a positive group size, or -1 for whole rows");
  return *size == -1 ? 0 : *size;
}

/// Refuses every value of a field but one.
static Status only(const JsonFields &fields, const char *key, const std::string &value) {
  Result<std::string> got = fields.stringOr(key, value);
  if (!got)
    return got.error();
  return *got == value ? Status() : notSupported(fields, key, "\"" + value + "\"");
}

static Status only(const JsonFields &fields, const char *key, bool value) {
  Result<bool> got = fields.booleanOr(key, value);
  if (!got)
    return got.error();
  return *got == value ? Status() : notSupported(fields, key, value ? "true" : "false");
}

static QuantConfig forAllLinears(const char *method, StoredScheme scheme) {
  QuantConfig config;
  config.method = method;
  config.groups.push_back({{}, /*allLinears=*/true, std::move(scheme)});
  return config;
}

//===-- DeepSeek's FP8 ----------------------------------------------------===//

static Result<QuantConfig> parseFp8(const JsonFields &fields) {
  for (auto [key, value] : {std::pair<const char *, const char *>{"fmt", "e4m3"}, {"activation_scheme", "dynamic"}})
    if (Status ok = only(fields, key, std::string(value)); !ok)
      return ok.error();

  const Json *block = fields.find("weight_block_size");
  if (!block)
    return fields.missing("weight_block_size");
  bool twoSizes = block->is_array() && block->size() == 2;
  for (size_t i = 0; twoSizes && i < 2; ++i)
    twoSizes = (*block)[i].is_number_integer() && (*block)[i] > 0 && (*block)[i] <= 1 << 20;
  if (!twoSizes)
    return checkpointError(fields.name("weight_block_size") +
                           ": expected two positive integers, got " +
                           printable(block->dump(-1, ' ', true, Json::error_handler_t::replace)));
  Result<std::string> format = fields.stringOr("scale_fmt", "float");
  if (!format)
    return format.error();
  if (*format != "float" && *format != "ue8m0")
    return notSupported(fields, "scale_fmt", "\"ue8m0\" and \"float\"");
  StoredScheme scheme;
  scheme.blockRows = (*block)[0].get<int64_t>();
  scheme.blockCols = (*block)[1].get<int64_t>();
  scheme.ue8m0 = *format == "ue8m0";
  scheme.f16Scales = false;
  scheme.names.scale = "weight_scale_inv";
  scheme.activation = ActivationScheme{/*integer=*/false, 128, scheme.ue8m0};
  return forAllLinears("fp8", std::move(scheme));
}

//===-- AWQ, GPTQ ---------------------------------------------------------===//

/// The first of two spellings that is there.
static const char *spelling(const JsonFields &fields, const char *key, const char *other) {
  return fields.has(key) || !fields.has(other) ? key : other;
}

static Result<QuantConfig> parseAwq(const JsonFields &fields) {
  const char *bitsKey = spelling(fields, "bits", "w_bit");
  Result<int64_t> bits = fields.integer(bitsKey, 1, 16);
  if (!bits)
    return bits.error();
  if (*bits != 4)
    return notSupported(fields, bitsKey, "4");
  Result<std::string> version = fields.stringOr("version", "gemm");
  if (!version)
    return version.error();
  if (*version != "gemm" && *version != "GEMM")
    return notSupported(fields, "version", "\"gemm\"");
  if (Status ok = only(fields, "zero_point", true); !ok)
    return ok.error();
  Result<int64_t> group = groupSize(fields, spelling(fields, "group_size", "q_group_size"));
  if (!group)
    return group.error();
  Result<std::vector<std::string>> skipped = stringList(fields, "modules_to_not_convert");
  if (!skipped)
    return skipped.error();
  StoredScheme scheme;
  scheme.code = StoredScheme::Code::I4;
  scheme.blockRows = 1;
  scheme.blockCols = *group;
  scheme.zeroPoints = true;
  scheme.packing = Packing::Awq;
  scheme.names = {"qweight", "scales", "qzeros", "", ""};
  QuantConfig config = forAllLinears("awq", std::move(scheme));
  for (const std::string &name : *skipped)
    config.ignored.push_back(NamePattern::containing(name));
  return config;
}

/// GPTQModel's `dynamic`: "-:EXPRESSION" leaves modules out; "+:EXPRESSION" gives them other settings.
static Result<std::vector<NamePattern>> dynamicRules(const JsonFields &fields) {
  std::vector<NamePattern> ignored;
  const Json *rules = fields.find("dynamic");
  if (!rules)
    return ignored;
  if (!rules->is_object())
    return fields.wrong("dynamic", "an object");
  for (const auto &rule : rules->items()) {
    if (rule.key().compare(0, 2, "-:") != 0)
      return unsupportedError(fields.name("dynamic") + ": the rule \"" + printable(rule.key()) +
                              "\" is not supported, only rules that leave modules out (\"-:...\")");
    Result<NamePattern> pattern = NamePattern::parse("re:" + rule.key().substr(2), fields.name("dynamic"));
    if (!pattern)
      return pattern.error();
    ignored.push_back(std::move(*pattern));
  }
  return ignored;
}

static Result<QuantConfig> parseGptq(const JsonFields &fields) {
  Result<int64_t> bits = fields.integer("bits", 1, 16), group = groupSize(fields, "group_size");
  if (!bits || !group)
    return bits ? group.error() : bits.error();
  if (*bits != 4 && *bits != 8)
    return notSupported(fields, "bits", "4 and 8");
  const char *formatKey = spelling(fields, "checkpoint_format", "format");
  Result<std::string> format = fields.stringOr(formatKey, "gptq");
  if (!format)
    return format.error();
  if (*format != "gptq" && *format != "gptq_v2")
    return notSupported(fields, formatKey, "\"gptq\" and \"gptq_v2\"");
  Result<bool> symmetric = fields.booleanOr("sym", true), actOrder = fields.booleanOr("desc_act", false);
  if (!symmetric || !actOrder)
    return symmetric ? actOrder.error() : symmetric.error();
  for (const char *key : {"lm_head", "is_marlin_format"})
    if (Status ok = only(fields, key, false); !ok)
      return ok.error();
  Result<std::vector<NamePattern>> ignored = dynamicRules(fields);
  if (!ignored)
    return ignored.error();
  StoredScheme scheme;
  scheme.code = *bits == 4 ? StoredScheme::Code::I4 : StoredScheme::Code::I8;
  scheme.blockRows = 1;
  scheme.blockCols = *group;
  scheme.zeroPoints = !*symmetric;
  scheme.mayIndex = *actOrder;
  scheme.packing = *format == "gptq" ? Packing::Gptq : Packing::GptqV2;
  scheme.names = {"qweight", "scales", "qzeros", "g_idx", ""};
  QuantConfig config = forAllLinears("gptq", std::move(scheme));
  config.ignored = std::move(*ignored);
  return config;
}

//===-- SlimQuant W4A8 ----------------------------------------------------===//

static Result<QuantConfig> parseSlimQuant(const JsonFields &fields) {
  Result<std::vector<NamePattern>> ignored = patternList(fields, "ignore");
  Result<NamePattern> experts = NamePattern::parse("re:.*\\.mlp\\.experts\\.\\d+\\.", "slimquant");
  if (!ignored || !experts)
    return ignored ? experts.error() : ignored.error();
  StoredScheme dense;
  dense.code = StoredScheme::Code::I8;
  dense.blockRows = 1;
  dense.blockCols = 0;
  dense.activation = ActivationScheme();
  StoredScheme routed = dense;
  routed.code = StoredScheme::Code::I4;
  routed.packing = Packing::HighFirst;
  QuantConfig config = forAllLinears("slimquant_w4a8", dense);
  config.groups.push_back({{*experts}, /*allLinears=*/false, routed});
  config.ignored = std::move(*ignored);
  return config;
}

//===-- The formats -------------------------------------------------------===//

Result<std::optional<QuantConfig>> parseQuantization(const Json &config, const std::string &where) {
  static const struct {
    const char *method;
    Result<QuantConfig> (*parse)(const JsonFields &);
  } formats[] = {{"fp8", parseFp8},
                 {"compressed-tensors", parseCompressedTensors},
                 {"awq", parseAwq},
                 {"gptq", parseGptq},
                 {"slimquant_w4a8", parseSlimQuant}};
  JsonFields top(config, where);
  const char *key = spelling(top, "quantization_config", "compression_config");
  if (!top.has(key))
    return std::optional<QuantConfig>();
  Result<JsonFields> fields = top.child(key);
  if (!fields)
    return fields.error();
  Result<std::string> method = fields->string("quant_method");
  if (!method)
    return method.error();
  std::string known;
  for (const auto &format : formats) {
    if (*method != format.method) {
      known += "\"" + std::string(format.method) + "\", ";
      continue;
    }
    Result<QuantConfig> parsed = format.parse(*fields);
    if (!parsed)
      return parsed.error();
    return std::optional<QuantConfig>(std::move(*parsed));
  }
  return notSupported(*fields, "quant_method", known + "or no quantization_config");
}

} // namespace dsv3::hf
