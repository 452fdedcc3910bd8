#include "TestCheckpoint.h"

#include "frontends/huggingface/ModelConfig.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

using namespace dsv3;
using namespace dsv3::test;
using testing::ElementsAre;
using testing::HasSubstr;
using hf::ModelConfig;

namespace {

using Edit = std::function<void(Json &)>;

Result<ModelConfig> parse(const Edit &edit = [](Json &) {}) {
  Json json = smallConfig();
  edit(json);
  return hf::parseModelConfig(json);
}

ModelConfig good(const Edit &edit = [](Json &) {}) {
  auto config = parse(edit);
  EXPECT_TRUE(bool(config)) << config.error().message;
  return config ? *config : ModelConfig{};
}

/// The error of an edit, checked to have `code` and to be one line.
std::string bad(ExitCode code, const Edit &edit) {
  auto config = parse(edit);
  if (config)
    return "accepted";
  EXPECT_EQ(config.error().code, code) << config.error().message;
  EXPECT_EQ(config.error().message.find('\n'), std::string::npos);
  return config.error().message;
}

std::string set(ExitCode code, const char *key, Json value) {
  return bad(code, [&](Json &c) { c[key] = value; });
}

const ExitCode B = ExitCode::BadCheckpoint, U = ExitCode::Unsupported;

} // namespace

TEST(ModelConfig, ReadsEveryField) {
  ModelConfig c = good();
  EXPECT_EQ(c.hidden, 48);
  EXPECT_EQ(c.layers, 3);
  EXPECT_EQ(c.firstDense, 1);
  EXPECT_EQ(c.vocab, 70);
  EXPECT_EQ(c.maxPosition, 2048);
  EXPECT_EQ(c.intermediate, 40);
  EXPECT_EQ(c.heads, 3);
  EXPECT_EQ(c.qLoraRank, 16);
  EXPECT_EQ(c.kvLoraRank, 24);
  EXPECT_EQ(c.nopeDim, 12);
  EXPECT_EQ(c.ropeDim, 8);
  EXPECT_EQ(c.valueDim, 10);
  EXPECT_EQ(c.rmsNormEps, 1e-6);
  EXPECT_EQ(c.moe.experts, 6);
  EXPECT_EQ(c.moe.sharedExperts, 1);
  EXPECT_EQ(c.moe.intermediate, 20);
  EXPECT_EQ(c.moe.perToken, 2);
  EXPECT_EQ(c.moe.groups, 2);
  EXPECT_EQ(c.moe.keptGroups, 1);
  EXPECT_TRUE(c.moe.normalise);
  EXPECT_EQ(c.moe.scaling, 2.5);
  EXPECT_EQ(c.rope.theta, 10000);
  EXPECT_TRUE(c.rope.interleaved);
  EXPECT_FALSE(c.rope.yarn);
  ASSERT_TRUE(bool(c.quant));
  EXPECT_EQ(c.quant->method, "fp8");
  EXPECT_EQ(c.quant->groups.front().scheme.text(), "fp8 in blocks of 16x32");
  EXPECT_FALSE(c.quant->groups.front().scheme.ue8m0);
  EXPECT_EQ(c.dtype, DType::BF16);
  EXPECT_EQ(c.mtpModules, 1);
  EXPECT_EQ(c.bos, 0);
  EXPECT_THAT(c.eos, ElementsAre(1));
  EXPECT_FALSE(c.isMoe(0));
  EXPECT_TRUE(c.isMoe(1) && c.isMoe(2));
  EXPECT_DOUBLE_EQ(c.softmaxScale(), 1 / std::sqrt(20.0));
}

TEST(ModelConfig, ReadsTheReleasesYarn) {
  ModelConfig c = good([](Json &j) {
    j["qk_nope_head_dim"] = 128;
    j["qk_rope_head_dim"] = 64;
    j["rope_scaling"] = {{"type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 4096},
                         {"beta_fast", 32}, {"beta_slow", 1}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}};
  });
  ASSERT_TRUE(bool(c.rope.yarn));
  EXPECT_EQ(c.rope.yarn->original, 4096);
  EXPECT_EQ(c.rope.yarn->factor, 40);
  EXPECT_NEAR(c.rope.yarn->magnitude(1), 1.3689, 5e-5);
  EXPECT_NEAR(c.softmaxScale(), 0.135234, 5e-7);
  EXPECT_EQ(c.rope.cosSinFactor(), 1);
}

TEST(ModelConfig, AcceptsTheSpellingsOfBothTransformersVersions) {
  Json yarn = {{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 512},
               {"rope_theta", 500.0}};
  ModelConfig c = good([&](Json &j) {
    j.erase("rope_theta");
    j.erase("rope_scaling");
    j["rope_parameters"] = yarn;
    j["dtype"] = "float32";
    j.erase("torch_dtype");
    j.erase("num_nextn_predict_layers");
    j["num_mtp_layers"] = 2;
    for (const char *key : {"scoring_func", "topk_method", "moe_layer_freq"}) // never saved there
      j.erase(key);
  });
  EXPECT_EQ(c.rope.theta, 500);
  ASSERT_TRUE(bool(c.rope.yarn));
  EXPECT_EQ(c.rope.yarn->factor, 4);
  EXPECT_EQ(c.rope.yarn->mscaleAllDim, 0);
  EXPECT_DOUBLE_EQ(c.rope.cosSinFactor(), 0.1 * std::log(4.0) + 1);
  EXPECT_EQ(c.dtype, DType::F32);
  EXPECT_EQ(c.mtpModules, 2);

  EXPECT_FALSE(good([](Json &j) { j["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 7.0}}; }).rope.yarn);
  EXPECT_FALSE(good([](Json &j) { j["rope_scaling"] = {{"type", "default"}}; }).rope.yarn);
  EXPECT_FALSE(good([](Json &j) { j.erase("rope_scaling"); }).rope.yarn);
}

TEST(ModelConfig, AcceptsLegalVariants) {
  EXPECT_FALSE(good([](Json &j) { j["q_lora_rank"] = nullptr; }).qLoraRank);
  EXPECT_FALSE(good([](Json &j) { j.erase("quantization_config"); }).quant);
  EXPECT_TRUE(good([](Json &j) { j["quantization_config"]["scale_fmt"] = "ue8m0"; }).quant->groups.front().scheme.ue8m0);
  EXPECT_THAT(good([](Json &j) { j["eos_token_id"] = {3, 2, 3}; }).eos, ElementsAre(3, 2));
  EXPECT_TRUE(good([](Json &j) { j["eos_token_id"] = nullptr; }).eos.empty());
  EXPECT_TRUE(good([](Json &j) { j["tie_word_embeddings"] = true; }).tieEmbeddings);
  EXPECT_EQ(good([](Json &j) { j["n_shared_experts"] = nullptr; }).moe.sharedExperts, 0);
  EXPECT_EQ(good([](Json &j) { j["moe_layer_freq"] = 2; }).isMoe(1), false);
  ModelConfig dense = good([](Json &j) {
    j["first_k_dense_replace"] = 9;
    j["num_nextn_predict_layers"] = 0;
    for (const char *key : {"n_routed_experts", "n_group", "topk_group", "num_experts_per_tok"})
      j.erase(key);
  });
  EXPECT_FALSE(dense.hasMoe());
}

TEST(ModelConfig, NamesMissingFields) {
  for (const char *key : {"model_type", "hidden_size", "num_hidden_layers", "first_k_dense_replace", "vocab_size",
                          "max_position_embeddings", "intermediate_size", "num_attention_heads", "kv_lora_rank",
                          "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "hidden_act", "rms_norm_eps",
                          "rope_theta", "n_routed_experts", "moe_intermediate_size", "num_experts_per_tok", "n_group",
                          "topk_group", "norm_topk_prob", "routed_scaling_factor"})
    EXPECT_EQ(bad(B, [&](Json &j) { j.erase(key); }), std::string("config.json: ") + key + " is missing");
}

TEST(ModelConfig, NamesWrongValues) {
  EXPECT_THAT(set(B, "hidden_size", 0), HasSubstr("hidden_size: expected an integer from 1"));
  EXPECT_THAT(set(B, "hidden_size", -5), HasSubstr("got -5"));
  EXPECT_THAT(set(B, "hidden_size", "256"), HasSubstr("hidden_size: expected an integer, got \"256\""));
  EXPECT_THAT(set(B, "hidden_size", 48.0), HasSubstr("got 48.0"));
  EXPECT_THAT(set(B, "vocab_size", int64_t(1) << 62), HasSubstr("vocab_size: expected"));
  EXPECT_THAT(set(B, "num_hidden_layers", 1000000), HasSubstr("num_hidden_layers: expected"));
  EXPECT_THAT(set(B, "qk_rope_head_dim", 7), HasSubstr("qk_rope_head_dim: expected an even number, got 7"));
  EXPECT_THAT(set(B, "num_key_value_heads", 1), HasSubstr("num_key_value_heads is 1, expected num_attention_heads (3)"));
  EXPECT_THAT(set(B, "qk_head_dim", 21), HasSubstr("qk_head_dim is 21"));
  EXPECT_THAT(set(B, "rms_norm_eps", 0), HasSubstr("rms_norm_eps"));
  EXPECT_THAT(set(B, "rope_theta", -1), HasSubstr("rope_theta: expected a number above 1"));
  EXPECT_THAT(set(B, "eos_token_id", 70), HasSubstr("eos_token_id: expected token ids below vocab_size (70), got 70"));
  EXPECT_THAT(set(B, "eos_token_id", {1, "x"}), HasSubstr("got \"x\""));
  EXPECT_THAT(set(B, "bos_token_id", 70), HasSubstr("bos_token_id"));
  EXPECT_THAT(set(B, "tie_word_embeddings", 1), HasSubstr("tie_word_embeddings: expected true or false"));
  EXPECT_THAT(hf::parseModelConfig(Json::array()).error().message, HasSubstr("expected an object"));
}

TEST(ModelConfig, ChecksTheRouter) {
  EXPECT_THAT(set(B, "n_group", 4), HasSubstr("n_group is 4, expected a divisor of n_routed_experts (6)"));
  EXPECT_THAT(set(B, "n_group", 6), HasSubstr("n_group is 6, expected groups of at least 2"));
  EXPECT_THAT(set(B, "topk_group", 3), HasSubstr("topk_group is 3, expected at most n_group (2)"));
  EXPECT_THAT(set(B, "num_experts_per_tok", 4), HasSubstr("num_experts_per_tok is 4, expected at most the 3"));
  EXPECT_THAT(set(B, "routed_scaling_factor", 0), HasSubstr("routed_scaling_factor"));
}

TEST(ModelConfig, SaysWhatIsSupported) {
  EXPECT_EQ(set(U, "model_type", "gpt_neox"), "config.json: model_type \"gpt_neox\" is not supported, only \"deepseek_v3\"");
  EXPECT_THAT(set(U, "architectures", {"Other"}), HasSubstr("\"Other\" is not supported, only \"DeepseekV3ForCausalLM\""));
  EXPECT_EQ(set(U, "hidden_act", "gelu"), "config.json: hidden_act \"gelu\" is not supported, only \"silu\"");
  EXPECT_THAT(set(U, "scoring_func", "softmax"), HasSubstr("scoring_func \"softmax\" is not supported, only \"sigmoid\""));
  EXPECT_THAT(set(U, "topk_method", "greedy"), HasSubstr("topk_method \"greedy\""));
  EXPECT_THAT(set(U, "attention_bias", true), HasSubstr("attention_bias true is not supported, only false"));
  EXPECT_THAT(set(U, "torch_dtype", "float64"), HasSubstr("torch_dtype \"float64\""));
  auto quant = [](const char *key, Json value) {
    return bad(U, [&](Json &j) { j["quantization_config"][key] = value; });
  };
  EXPECT_THAT(quant("quant_method", "bitnet"), HasSubstr("quantization_config.quant_method \"bitnet\" is not supported, only \"fp8\", "));
  EXPECT_THAT(quant("fmt", "e5m2"), HasSubstr("quantization_config.fmt \"e5m2\""));
  EXPECT_THAT(quant("activation_scheme", "static"), HasSubstr("activation_scheme \"static\""));
  EXPECT_THAT(quant("scale_fmt", "ue4m0"), HasSubstr("scale_fmt \"ue4m0\""));
}

TEST(ModelConfig, ChecksRopeScaling) {
  Json yarn = {{"type", "yarn"}, {"factor", 40}, {"original_max_position_embeddings", 4096}};
  auto with = [&](ExitCode code, const char *key, Json value) {
    return bad(code, [&](Json &j) {
      j["rope_scaling"] = yarn;
      j["rope_scaling"][key] = value;
    });
  };
  EXPECT_EQ(with(U, "type", "longrope"),
            "config.json: rope_scaling.type \"longrope\" is not supported, only \"yarn\" and \"default\"");
  EXPECT_THAT(with(U, "rope_type", "llama3"), HasSubstr("rope_scaling.rope_type \"llama3\""));
  EXPECT_THAT(with(B, "factor", 0.5), HasSubstr("rope_scaling.factor: expected a number of at least 1, got 0.5"));
  EXPECT_THAT(with(B, "factor", nullptr), HasSubstr("rope_scaling.factor is missing"));
  EXPECT_THAT(with(B, "original_max_position_embeddings", 0), HasSubstr("original_max_position_embeddings"));
  EXPECT_THAT(with(B, "beta_slow", 0), HasSubstr("beta_slow: expected a number above 0"));
  EXPECT_THAT(with(B, "beta_fast", 0.5), HasSubstr("beta_fast: expected a number of at least beta_slow"));
  EXPECT_THAT(with(B, "mscale_all_dim", -1), HasSubstr("mscale_all_dim: expected a number of at least 0"));
  EXPECT_THAT(with(U, "attention_factor", 1.0), HasSubstr("attention_factor"));
  EXPECT_THAT(with(U, "truncate", false), HasSubstr("truncate"));
  EXPECT_THAT(set(B, "rope_scaling", 3), HasSubstr("rope_scaling: expected an object, got 3"));
}

TEST(ModelConfig, ChecksTheQuantisationBlock) {
  for (Json block : {Json({128}), Json({128, 0}), Json({128, -128}), Json("128"), Json({1.5, 2})})
    EXPECT_THAT(bad(B, [&](Json &j) { j["quantization_config"]["weight_block_size"] = block; }),
                HasSubstr("quantization_config.weight_block_size: expected two positive integers"));
  EXPECT_THAT(bad(B, [](Json &j) { j["quantization_config"].erase("weight_block_size"); }),
              HasSubstr("quantization_config.weight_block_size is missing"));
}

TEST(ModelConfig, ReadsTheFolder) {
  TempDir dir;
  EXPECT_THAT(hf::readModelConfig(dir / "none").error().message, HasSubstr("there is nothing of that name"));
  EXPECT_THAT(hf::readModelConfig(dir.str()).error().message, HasSubstr("config.json: cannot open"));
  dir.write("config.json", smallConfig().dump());
  EXPECT_THAT(hf::readModelConfig(dir.str())->eos, ElementsAre(1));
  dir.write("generation_config.json", R"({"eos_token_id": [1, 5]})");
  EXPECT_THAT(hf::readModelConfig(dir.str())->eos, ElementsAre(1, 5));
  dir.write("generation_config.json", R"({"eos_token_id": 99})");
  EXPECT_THAT(hf::readModelConfig(dir.str()).error().message, HasSubstr("generation_config.json: eos_token_id"));
}
