// `quantization_config` of config.json.
#include "frontends/huggingface/ModelConfig.h"

namespace dsv3::hf {

static Result<Fp8Config> parseFp8(const JsonFields &fields) {
  Fp8Config fp8;
  struct Choice {
    const char *key, *supported;
  } choices[] = {{"fmt", "e4m3"}, {"activation_scheme", "dynamic"}};
  for (const Choice &choice : choices) {
    Result<std::string> value = fields.stringOr(choice.key, choice.supported);
    if (!value)
      return value.error();
    if (*value != choice.supported)
      return notSupported(fields, choice.key, "\"" + std::string(choice.supported) + "\"");
  }

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
  fp8.blockRows = (*block)[0].get<int64_t>();
  fp8.blockCols = (*block)[1].get<int64_t>();

  Result<std::string> format = fields.stringOr("scale_fmt", "float");
  if (!format)
    return format.error();
  if (*format != "float" && *format != "ue8m0")
    return notSupported(fields, "scale_fmt", "\"ue8m0\" and \"float\"");
  fp8.ue8m0 = *format == "ue8m0";
  return fp8;
}

Result<std::optional<Fp8Config>> parseQuantization(const Json &config, const std::string &where) {
  JsonFields top(config, where);
  if (!top.has("quantization_config"))
    return std::optional<Fp8Config>();
  Result<JsonFields> fields = top.child("quantization_config");
  if (!fields)
    return fields.error();
  Result<std::string> method = fields->string("quant_method");
  if (!method)
    return method.error();
  if (*method != "fp8")
    return notSupported(*fields, "quant_method", "\"fp8\" or no quantization_config");
  Result<Fp8Config> fp8 = parseFp8(*fields);
  if (!fp8)
    return fp8.error();
  return std::optional<Fp8Config>(*fp8);
}

} // namespace dsv3::hf
