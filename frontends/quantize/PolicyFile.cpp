// --quant-config: a policy as JSON. The words are those of compressed-tensors' quantization_config.
#include "frontends/huggingface/ModelConfig.h"
#include "frontends/quantize/Policy.h"

#include <algorithm>

namespace dsv3::quantize {

/// The reader's errors are of checkpoints; this file is the user's.
static Error usage(const Error &error) { return usageError(error.message); }

/// Refuses a key that is not known: a misspelt one would be passed over.
static Status onlyKeys(const Json &object, const std::string &where, std::initializer_list<const char *> keys) {
  for (const auto &entry : object.items())
    if (std::find_if(keys.begin(), keys.end(), [&](const char *key) { return entry.key() == key; }) == keys.end()) {
      std::string known;
      for (const char *key : keys)
        known += (known.empty() ? "" : ", ") + std::string(key);
      return usageError(where + ": expected fields out of " + known + ", got \"" + printable(entry.key()) + "\"");
    }
  return {};
}

static Result<DType> scaleType(const JsonFields &fields) {
  Result<std::string> text = fields.stringOr("scale_dtype", "f32");
  if (!text)
    return text.error();
  for (auto [name, type] : {std::pair<const char *, DType>{"f32", DType::F32}, {"bf16", DType::BF16}, {"f16", DType::F16}})
    if (*text == name)
      return type;
  return fields.wrong("scale_dtype", "\"f32\", \"bf16\" or \"f16\"");
}

static Result<Code> codeOf(const JsonFields &fields, bool weights) {
  Result<int64_t> bits = fields.integer("num_bits", 1, 16);
  Result<std::string> type = fields.stringOr("type", "int");
  if (!bits || !type)
    return bits ? type.error() : bits.error();
  if (*type != "int" && *type != "float")
    return fields.wrong("type", "\"int\" or \"float\"");
  bool known = *bits == 8 || (*bits == 4 && *type == "int" && weights);
  if (!known)
    return fields.wrong("num_bits", *type == "float" || !weights ? "8" : "4 or 8");
  return *type == "float" ? Code::F8E4M3 : *bits == 8 ? Code::I8 : Code::I4;
}

/// `weights` of a group.
static Result<Scheme> weightScheme(const JsonFields &fields) {
  Result<Code> code = codeOf(fields, /*weights=*/true);
  Result<DType> type = scaleType(fields);
  Result<int64_t> group = hf::groupSizeOr(fields, "group_size", -1);
  if (!code || !type || !group)
    return !code ? code.error() : !type ? type.error() : group.error();
  Scheme scheme{*code, 1, *group, *type};
  if (const Json *block = fields.find("block_structure")) {
    bool two = block->is_array() && block->size() == 2;
    for (size_t i = 0; two && i < 2; ++i)
      two = (*block)[i].is_number_integer() && (*block)[i] > 0 && (*block)[i] <= 1 << 20;
    if (!two || *code != Code::F8E4M3 || fields.has("group_size"))
      return fields.wrong("block_structure", "two positive integers, for floats, without a group_size");
    scheme.blockRows = (*block)[0].get<int64_t>(), scheme.blockCols = (*block)[1].get<int64_t>();
  }
  return scheme;
}

static Result<Activation> activationOf(const JsonFields &fields) {
  Result<Code> code = codeOf(fields, /*weights=*/false);
  Result<int64_t> group = hf::groupSizeOr(fields, "group_size", -1);
  if (!code || !group)
    return code ? group.error() : code.error();
  if (*group != 0 && *group != 128)
    return fields.wrong("group_size", "128, or -1 for a scale per token");
  return Activation{Activation::Rule::Scheme, Scheme{*code, 1, *group}};
}

Result<Policy::Target> Policy::parseTarget(const std::string &text, const std::string &where) const {
  static const Component all[] = {Component::Attention,     Component::KvB,    Component::DenseFfn,  Component::SharedExperts, Component::RoutedExperts,
                                  Component::MtpProjection, Component::Router, Component::Embedding, Component::Head};
  for (Component component : all) {
    std::string name(quantize::name(component));
    if (text == name || text.compare(0, name.size() + 1, name + ".") == 0)
      return Target{{}, text, where};
  }
  Result<hf::NamePattern> pattern = hf::NamePattern::parse(text, where);
  if (!pattern)
    return usage(pattern.error());
  return Target{std::move(*pattern), "", where};
}

Status Policy::parseGroup(const JsonFields &fields, const std::string &where) {
  Group group;
  group.where = where;
  Result<std::vector<std::string>> targets = hf::stringList(fields, "targets");
  if (!targets)
    return usage(targets.error());
  if (targets->empty())
    return usageError(where + ".targets: expected components or patterns of module names");
  for (const std::string &text : *targets) {
    Result<Target> target = parseTarget(text, fields.name("targets"));
    if (!target)
      return target.error();
    group.targets.push_back(std::move(*target));
  }
  group.decision.by = where;
  if (fields.has("weights")) {
    Result<JsonFields> weights = fields.child("weights");
    if (!weights)
      return usage(weights.error());
    if (Status s = onlyKeys(*fields.find("weights"), where + ".weights", {"num_bits", "type", "group_size", "block_structure", "scale_dtype"}); !s)
      return s;
    Result<Scheme> scheme = weightScheme(*weights);
    if (!scheme)
      return usage(scheme.error());
    group.decision.weight = *scheme;
  }
  if (fields.has("input_activations")) {
    Result<JsonFields> inputs = fields.child("input_activations");
    if (!inputs)
      return usage(inputs.error());
    if (Status s = onlyKeys(*fields.find("input_activations"), where + ".input_activations", {"num_bits", "type", "group_size"}); !s)
      return s;
    Result<Activation> activation = activationOf(*inputs);
    if (!activation)
      return usage(activation.error());
    group.decision.activation = *activation;
  }
  groups.push_back(std::move(group));
  return {};
}

Result<Policy> Policy::parse(const Json &json, const std::string &where) {
  if (!json.is_object())
    return usageError(where + ": expected an object, got " + describe(json));
  if (Status s = onlyKeys(json, where, {"policy", "config_groups", "ignore"}); !s)
    return s.error();
  JsonFields fields(json, where);
  Policy policy;
  policy.title = where;
  Result<std::string> base = fields.stringOr("policy", "none");
  if (!base)
    return usage(base.error());
  if (std::string names = ", " + builtInNames() + ","; names.find(", " + *base + ",") == names.npos)
    return usage(fields.wrong("policy", "one of " + builtInNames()));
  policy.base = *base;
  if (fields.has("config_groups")) {
    Result<JsonFields> groups = fields.child("config_groups");
    if (!groups)
      return usage(groups.error());
    for (const auto &entry : fields.find("config_groups")->items()) {
      std::string at = groups->name(printable(entry.key()).c_str());
      if (!entry.value().is_object())
        return usageError(at + ": expected an object with targets, got " + describe(entry.value()));
      if (Status s = onlyKeys(entry.value(), at, {"targets", "weights", "input_activations"}); !s)
        return s.error();
      Result<JsonFields> group = groups->child(entry.key().c_str());
      if (!group)
        return usage(group.error());
      if (Status s = policy.parseGroup(*group, at); !s)
        return s.error();
    }
  }
  Result<std::vector<std::string>> names = hf::stringList(fields, "ignore");
  if (!names)
    return usage(names.error());
  for (const std::string &text : *names) {
    Result<Target> target = policy.parseTarget(text, fields.name("ignore"));
    if (!target)
      return target.error();
    policy.ignored.push_back(std::move(*target));
  }
  return policy;
}

Result<Policy> Policy::read(const std::string &path) {
  Result<Json> json = parseJsonFile(path);
  if (!json)
    return usage(json.error());
  return parse(*json, path);
}

} // namespace dsv3::quantize
