// quantization_config of every format: what is read, which module has which scheme, what is refused.
#include "TestCheckpoint.h"

#include "frontends/huggingface/ModelConfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace dsv3;
using namespace dsv3::test;
using testing::HasSubstr;
using hf::QuantConfig;

namespace {

Result<hf::ModelConfig> parse(const Json &quantization) {
  Json config = smallConfig();
  config["quantization_config"] = quantization;
  return hf::parseModelConfig(config);
}

QuantConfig good(const Json &quantization) {
  auto config = parse(quantization);
  EXPECT_TRUE(bool(config)) << config.error().message;
  return config ? *config->quant : QuantConfig();
}

std::string bad(const Json &quantization, ExitCode code = ExitCode::Unsupported) {
  auto config = parse(quantization);
  if (config)
    return "accepted";
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  return config.error().message;
}

/// "int4 in groups of 128", or "none".
std::string scheme(const QuantConfig &config, const std::string &module) {
  auto found = config.schemeOf(module);
  if (!found)
    return found.error().message;
  return *found ? (*found)->text() : "none";
}

/// compressed-tensors with one group.
Json compressed(const Json &weights, const std::string &format = "pack-quantized", Json ignore = Json::array()) {
  return {{"quant_method", "compressed-tensors"}, {"format", format}, {"ignore", ignore},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}};
}
const Json int4 = {{"num_bits", 4}, {"type", "int"}, {"strategy", "group"}, {"group_size", 128}, {"symmetric", true}};

Json with(Json object, const char *key, Json value) {
  object[key] = std::move(value);
  return object;
}

const std::string up = "model.layers.1.mlp.up_proj", expert = "model.layers.1.mlp.experts.3.up_proj", kvA = "model.layers.2.self_attn.kv_a_proj_with_mqa";

} // namespace

TEST(QuantConfig, CompressedTensors) {
  EXPECT_EQ(scheme(good(compressed(int4)), up), "int4 in groups of 128");
  EXPECT_EQ(scheme(good(compressed(with(int4, "symmetric", false))), up), "int4 in groups of 128 with zero points");
  EXPECT_EQ(scheme(good(compressed({{"num_bits", 4}, {"group_size", -1}})), up), "int4 per channel") << "strategy left to the group size";
  EXPECT_EQ(scheme(good(compressed({{"num_bits", 8}, {"type", "int"}, {"strategy", "channel"}}, "int-quantized")), up), "int8 per channel");
  EXPECT_EQ(scheme(good(compressed({{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}}, "float-quantized")), up), "fp8 per channel");
  EXPECT_EQ(scheme(good(compressed({{"num_bits", 8}, {"type", "float"}}, "float-quantized")), up), "fp8 per tensor");
  Json block = {{"num_bits", 8}, {"type", "float"}, {"strategy", "block"}, {"block_structure", "128x64"}};
  EXPECT_EQ(scheme(good(compressed(block, "float-quantized")), up), "fp8 in blocks of 128x64");
  EXPECT_TRUE(good(compressed(with(int4, "actorder", "group"))).groups[0].scheme.mayIndex);
  EXPECT_FALSE(good(compressed(with(int4, "actorder", "weight"))).groups[0].scheme.mayIndex);
  Json old = smallConfig();
  old.erase("quantization_config");
  old["compression_config"] = compressed(int4);
  EXPECT_TRUE(bool(hf::parseModelConfig(old)->quant)) << "the older name";
}

TEST(QuantConfig, GroupsTargetsAndIgnoredModules) {
  Json config = compressed(int4, "mixed-precision", {"lm_head", "re:.*\\.layers\\.3\\..*", "model.layers.0.mlp.gate_up_proj"});
  config["config_groups"]["group_0"]["format"] = "pack-quantized";
  config["config_groups"]["group_1"] = {{"targets", {"re:.*self_attn.*", "model.layers.1.mlp.experts.3.up_proj"}}, {"format", "int-quantized"},
                                        {"weights", {{"num_bits", 8}, {"strategy", "channel"}}},
                                        {"input_activations", {{"num_bits", 8}, {"strategy", "token"}, {"dynamic", true}}}};
  QuantConfig q = good(config);
  EXPECT_EQ(q.unmetActivations, "");
  EXPECT_FALSE(q.groups[0].scheme.activation);
  EXPECT_EQ(q.groups[1].scheme.activation->text(), "int8 per token");
  EXPECT_EQ(scheme(q, up), "int4 in groups of 128") << "all linears";
  EXPECT_EQ(scheme(q, kvA), "int8 per channel") << "an expression goes before Linear";
  EXPECT_EQ(scheme(q, expert), "int8 per channel") << "so does a name";
  EXPECT_EQ(scheme(q, "model.layers.3.mlp.experts.0.up_proj"), "none") << "the MTP layer is ignored by an expression";
  EXPECT_EQ(scheme(q, "model.layers.0.mlp.gate_proj"), "none") << "ignored under the fused name";
  EXPECT_EQ(scheme(q, "model.layers.0.mlp.up_proj"), "none");
  EXPECT_EQ(scheme(q, "model.layers.0.mlp.down_proj"), "int4 in groups of 128");
  config["ignore"] = {"re:self_attn"};
  EXPECT_EQ(scheme(good(config), kvA), "int8 per channel") << "an expression matches from the start of the name, as re.match does";
  config["ignore"] = {"re:.*fused_qkv_a_proj$"};
  EXPECT_EQ(scheme(good(config), kvA), "none");
}

TEST(QuantConfig, AwqGptqSlimQuant) {
  Json awq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 64}, {"zero_point", true}, {"version", "gemm"},
              {"modules_to_not_convert", {"mlp.experts.3"}}};
  EXPECT_EQ(scheme(good(awq), up), "int4 in groups of 64 with zero points");
  EXPECT_EQ(scheme(good(awq), expert), "none") << "a piece of the name is enough";
  EXPECT_EQ(scheme(good({{"quant_method", "awq"}, {"w_bit", 4}, {"q_group_size", -1}, {"version", "GEMM"}}), up), "int4 per channel with zero points");

  Json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}, {"sym", false}, {"desc_act", true}};
  EXPECT_EQ(good(gptq).groups[0].scheme.packing, hf::Packing::Gptq);
  EXPECT_TRUE(good(gptq).groups[0].scheme.mayIndex);
  EXPECT_EQ(good(with(gptq, "checkpoint_format", "gptq_v2")).groups[0].scheme.packing, hf::Packing::GptqV2);
  EXPECT_EQ(good(with(gptq, "format", "gptq_v2")).groups[0].scheme.packing, hf::Packing::GptqV2) << "zero points would be one off";
  EXPECT_EQ(scheme(good(with(with(gptq, "bits", 8), "sym", true)), up), "int8 in groups of 128");
  EXPECT_EQ(scheme(good(with(gptq, "dynamic", {{"-:.*\\.layers\\.1\\.mlp\\.up.*", Json::object()}})), up), "none");

  QuantConfig slim = good({{"quant_method", "slimquant_w4a8"}, {"ignore", {"re:.*kv_a_proj.*"}}});
  EXPECT_EQ(scheme(slim, up), "int8 per channel");
  EXPECT_EQ(scheme(slim, "model.layers.1.mlp.shared_experts.up_proj"), "int8 per channel");
  EXPECT_EQ(scheme(slim, expert), "int4 per channel");
  EXPECT_EQ(scheme(slim, kvA), "none");
  for (const hf::QuantGroup &group : slim.groups)
    EXPECT_EQ(group.scheme.activation->text(), "int8 per token");
}

TEST(QuantConfig, Activations) {
  auto asked = [](Json activations) {
    Json config = compressed({{"num_bits", 8}, {"strategy", "channel"}}, "naive-quantized");
    config["config_groups"]["group_0"]["input_activations"] = std::move(activations);
    QuantConfig q = good(config);
    const auto &known = q.groups[0].scheme.activation;
    return known ? known->text() : "unmet: " + q.unmetActivations;
  };
  EXPECT_EQ(asked({{"num_bits", 8}, {"strategy", "token"}, {"dynamic", true}}), "int8 per token");
  EXPECT_EQ(asked({{"num_bits", 8}, {"type", "float"}, {"strategy", "token"}, {"dynamic", true}}), "fp8 per token");
  EXPECT_EQ(asked({{"num_bits", 8}, {"type", "float"}, {"strategy", "group"}, {"group_size", 128}, {"dynamic", true}}), "fp8 per token and 128 channels");
  EXPECT_EQ(asked({{"num_bits", 8}, {"strategy", "tensor"}}), "unmet: int8 per tensor, static");
  EXPECT_EQ(asked({{"num_bits", 8}, {"strategy", "token"}, {"symmetric", false}, {"dynamic", true}}), "unmet: int8 per token, asymmetric");
  EXPECT_EQ(asked({{"num_bits", 4}, {"strategy", "token"}, {"dynamic", true}}), "unmet: int4 per token");
  Json fp8 = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  EXPECT_EQ(good(fp8).groups[0].scheme.activation->text(), "fp8 per token and 128 channels");
  EXPECT_EQ(good(with(fp8, "scale_fmt", "ue8m0")).groups[0].scheme.activation->text(), "fp8 per token and 128 channels, scales powers of two");
}

TEST(QuantConfig, SaysWhatIsSupported) {
  EXPECT_EQ(bad({{"quant_method", "bitnet"}}),
            "config.json: quantization_config.quant_method \"bitnet\" is not supported, only \"fp8\", \"compressed-tensors\", \"awq\", "
            "\"gptq\", \"slimquant_w4a8\", or no quantization_config");
  Json awq = {{"quant_method", "awq"}, {"bits", 4}, {"group_size", 128}};
  EXPECT_EQ(bad(with(awq, "version", "gemv")), "config.json: quantization_config.version \"gemv\" is not supported, only \"gemm\"");
  EXPECT_THAT(bad(with(awq, "bits", 8)), HasSubstr("bits 8 is not supported, only 4"));
  EXPECT_THAT(bad(with(awq, "zero_point", false)), HasSubstr("zero_point false is not supported, only true"));
  Json gptq = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
  EXPECT_THAT(bad(with(gptq, "bits", 3)), HasSubstr("bits 3 is not supported, only 4 and 8"));
  EXPECT_THAT(bad(with(gptq, "checkpoint_format", "marlin")), HasSubstr("only \"gptq\" and \"gptq_v2\""));
  EXPECT_THAT(bad(with(gptq, "is_marlin_format", true)), HasSubstr("is_marlin_format true is not supported"));
  EXPECT_THAT(bad(with(gptq, "lm_head", true)), HasSubstr("lm_head true is not supported, only false"));
  EXPECT_THAT(bad(with(gptq, "dynamic", {{"+:.*up.*", {{"bits", 8}}}})), HasSubstr("the rule \"+:.*up.*\" is not supported, only rules that leave modules out"));
  EXPECT_THAT(bad(with(gptq, "group_size", 0), ExitCode::BadCheckpoint), HasSubstr("group_size: expected a positive group size, or -1"));

  EXPECT_EQ(bad(compressed(int4, "marlin-24")),
            "config.json: quantization_config.config_groups.group_0.format: the format \"marlin-24\" is not supported, only "
            "\"pack-quantized\", \"int-quantized\", \"float-quantized\" and \"naive-quantized\"");
  EXPECT_THAT(bad(compressed(with(int4, "num_bits", 3))), HasSubstr("weights.num_bits 3 is not supported, only 4 and 8 for integers"));
  EXPECT_THAT(bad(compressed(with(int4, "type", "float"))), HasSubstr("num_bits 4 is not supported, only 8 for floats"));
  EXPECT_THAT(bad(compressed(int4, "float-quantized")), HasSubstr("type \"int\" is not supported, only \"float\" with format"));
  EXPECT_THAT(bad(compressed(with(int4, "strategy", "tensor_group"))), HasSubstr("strategy \"tensor_group\""));
  EXPECT_THAT(bad(compressed(with(int4, "dynamic", true))), HasSubstr("dynamic true is not supported, only false for weights"));
  EXPECT_THAT(bad(compressed(with(int4, "actorder", "random"))), HasSubstr("actorder \"random\""));
  EXPECT_THAT(bad(with(compressed(int4), "kv_cache_scheme", {{"num_bits", 8}})), HasSubstr("kv_cache_scheme: expected symmetric floats of 8 bits, got int8"));
  EXPECT_FALSE(good(compressed(int4)).fp8Cache);
  EXPECT_TRUE(good(with(compressed(int4), "kv_cache_scheme", {{"num_bits", 8}, {"type", "float"}})).fp8Cache);
  EXPECT_THAT(bad(with(compressed(int4), "sparsity_config", {{"format", "sparse-bitmask"}})), HasSubstr("sparsity_config: sparse weights are not supported"));
  EXPECT_THAT(bad(with(compressed(int4), "transform_config", {{"config_groups", {{"R1", {{"type", "hadamard"}}}}}})), HasSubstr("transform_config an object is not supported"));
  good(with(compressed(int4), "transform_config", Json::object()));
  EXPECT_THAT(bad(with(compressed(int4), "config_groups", {{"W4A16", {"Linear"}}})), HasSubstr("config_groups.W4A16: expected an object"));
  EXPECT_THAT(bad(compressed(int4, "pack-quantized", {"re:("}), ExitCode::BadCheckpoint), HasSubstr("ignore: expected a regular expression, got \"re:(\""));
  EXPECT_THAT(bad(compressed(int4, "pack-quantized", {3}), ExitCode::BadCheckpoint), HasSubstr("ignore: expected a list of names"));
}

TEST(QuantConfig, AnExpressionThatNeverEndsIsAnError) {
  QuantConfig q = good(compressed(int4, "pack-quantized", {"re:(.*a)*(.*b)*(.*c)*(.*d)*(.*e)*(.*f)*$x"}));
  EXPECT_THAT(scheme(q, std::string(60, 'a') + kvA), HasSubstr("cannot be matched against"));
}
