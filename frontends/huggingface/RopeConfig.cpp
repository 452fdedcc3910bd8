// `rope_theta` + `rope_scaling` (the release, transformers 4) or `rope_parameters`
// (transformers 5) of config.json.
#include "frontends/huggingface/ModelConfig.h"

#include <cmath>

namespace dsv3::hf {

double YarnConfig::magnitude(double s) const {
  return factor <= 1 ? 1.0 : 0.1 * s * std::log(factor) + 1.0;
}

double RopeConfig::softmaxFactor() const {
  double m = yarn ? yarn->magnitude(yarn->mscaleAllDim) : 1.0;
  return m * m;
}

double RopeConfig::cosSinFactor() const {
  return yarn ? yarn->magnitude(yarn->mscale) / yarn->magnitude(yarn->mscaleAllDim) : 1.0;
}

/// A finite number above (or, with `orZero`, at least) zero.
static Status positive(const JsonFields &fields, const char *key, double value,
                       bool orZero = false) {
  if (value > 0 || (orZero && value == 0))
    return {};
  return fields.wrong(key, orZero ? "a number of at least 0" : "a number above 0");
}

static Result<YarnConfig> parseYarn(const JsonFields &fields) {
  YarnConfig yarn;
  Result<double> factor = fields.number("factor");
  if (!factor)
    return factor.error();
  if (*factor < 1)
    return fields.wrong("factor", "a number of at least 1");
  yarn.factor = *factor;
  Result<int64_t> original =
      fields.integer("original_max_position_embeddings", 1, int64_t(1) << 40);
  if (!original)
    return original.error();
  yarn.original = *original;

  struct Field {
    const char *key;
    double &value;
    bool zeroIsFine;
  } numbers[] = {{"beta_fast", yarn.betaFast, false},
                 {"beta_slow", yarn.betaSlow, false},
                 {"mscale", yarn.mscale, false},
                 {"mscale_all_dim", yarn.mscaleAllDim, true}};
  for (const Field &field : numbers) {
    Result<double> value = fields.numberOr(field.key, field.value);
    if (!value)
      return value.error();
    if (Status ok = positive(fields, field.key, *value, field.zeroIsFine); !ok)
      return ok.error();
    field.value = *value;
  }
  if (yarn.betaFast < yarn.betaSlow)
    return fields.wrong("beta_fast", "a number of at least beta_slow");
  // Later additions of transformers that change the table; the release has neither.
  if (fields.has("attention_factor"))
    return notSupported(fields, "attention_factor", "null");
  Result<bool> truncate = fields.booleanOr("truncate", true);
  if (!truncate)
    return truncate.error();
  if (!*truncate)
    return notSupported(fields, "truncate", "true");
  return yarn;
}

/// The scaling object under `key`, if it is there.
static Result<std::optional<YarnConfig>> parseScaling(const JsonFields &top, const char *key) {
  Result<JsonFields> fields = top.child(key);
  if (!fields)
    return fields.error();
  // transformers 4 renamed `type` to `rope_type`; files of that time may have both.
  std::string type = "default";
  const char *typeKey = "rope_type";
  for (const char *name : {"type", "rope_type"})
    if (fields->has(name)) {
      Result<std::string> value = fields->string(name);
      if (!value)
        return value.error();
      type = *value;
      typeKey = name;
    }
  if (type == "default")
    return std::optional<YarnConfig>();
  if (type != "yarn")
    return notSupported(*fields, typeKey, "\"yarn\" and \"default\"");
  Result<YarnConfig> yarn = parseYarn(*fields);
  if (!yarn)
    return yarn.error();
  return std::optional<YarnConfig>(*yarn);
}

static Result<double> parseTheta(const JsonFields &top) {
  auto check = [](const JsonFields &fields) -> Result<double> {
    Result<double> theta = fields.number("rope_theta");
    if (theta && *theta <= 1)
      return fields.wrong("rope_theta", "a number above 1");
    return theta;
  };
  if (top.has("rope_parameters")) {
    Result<JsonFields> fields = top.child("rope_parameters");
    if (!fields)
      return fields.error();
    if (fields->has("rope_theta"))
      return check(*fields);
  }
  return check(top);
}

Result<RopeConfig> parseRope(const Json &config, const std::string &where) {
  JsonFields top(config, where);
  RopeConfig rope;
  Result<double> theta = parseTheta(top);
  if (!theta)
    return theta.error();
  rope.theta = *theta;
  Result<bool> interleaved = top.booleanOr("rope_interleave", true);
  if (!interleaved)
    return interleaved.error();
  rope.interleaved = *interleaved;

  for (const char *key : {"rope_scaling", "rope_parameters"}) {
    if (!top.has(key))
      continue;
    Result<std::optional<YarnConfig>> yarn = parseScaling(top, key);
    if (!yarn)
      return yarn.error();
    if (*yarn)
      rope.yarn = *yarn;
  }
  return rope;
}

} // namespace dsv3::hf
