// Small checkpoint folders, written tensor by tensor so that a test can bend any of them.
#pragma once

#include "test/runtime/core/TempDir.h"

#include "runtime/core/Json.h"
#include "runtime/core/Safetensors.h"
#include "runtime/core/SafetensorsWriter.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace dsv3::test {

/// A legal config.json of a model with odd sizes: 3 layers, the first dense, one MTP module.
inline Json smallConfig() {
  return Json::parse(R"({
    "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
    "attention_bias": false, "bos_token_id": 0, "eos_token_id": 1,
    "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 48, "intermediate_size": 40,
    "kv_lora_rank": 24, "max_position_embeddings": 2048, "moe_intermediate_size": 20,
    "moe_layer_freq": 1, "n_group": 2, "n_routed_experts": 6, "n_shared_experts": 1,
    "norm_topk_prob": true, "num_attention_heads": 3, "num_experts_per_tok": 2,
    "num_hidden_layers": 3, "num_key_value_heads": 3, "num_nextn_predict_layers": 1,
    "q_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 8, "v_head_dim": 10,
    "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                            "weight_block_size": [16, 32]},
    "rms_norm_eps": 1e-6, "rope_interleave": true, "rope_scaling": null, "rope_theta": 10000,
    "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false,
    "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "vocab_size": 70})");
}

/// One tensor in memory.
struct TestTensor {
  DType dtype;
  std::vector<int64_t> shape;
  std::string data;
};

/// Content of a folder under construction: name -> tensor.
class TestCheckpoint {
public:
  std::map<std::string, TestTensor> tensors;

  /// Deterministic data that differs from tensor to tensor: `seed` picks the bytes.
  void add(const std::string &name, DType dtype, std::vector<int64_t> shape, int seed = 1) {
    TestTensor t{dtype, shape, {}};
    std::vector<float> values(size_t(*tensorBytes(dtype, shape) / byteSize(dtype)));
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 0.25f + float((i * 7 + size_t(seed) * 13) % 32) / 64;
    t.data.resize(values.size() * byteSize(dtype));
    convertFromFloat(dtype, values.data(), values.size(), t.data.data());
    tensors[name] = std::move(t);
  }

  /// A linear in the config's FP8 blocks of 16 x 32, or plain.
  void linear(const std::string &name, int64_t n, int64_t k, bool fp8, DType plain = DType::BF16) {
    add(name + ".weight", fp8 ? DType::F8E4M3 : plain, {n, k});
    if (fp8)
      add(name + ".weight_scale_inv", DType::F32, {(n + 15) / 16, (k + 31) / 32});
  }

  void set(const std::string &name, size_t i, float value) {
    TestTensor &t = tensors.at(name);
    convertFromFloat(t.dtype, &value, 1, t.data.data() + i * byteSize(t.dtype));
  }

  static void writeShard(const std::string &path,
                         const std::map<std::string, TestTensor> &content) {
    std::vector<SafetensorsWriter::Tensor> header;
    for (const auto &[name, t] : content)
      header.push_back({name, t.dtype, t.shape});
    auto writer = SafetensorsWriter::create(path, header);
    ASSERT_TRUE(bool(writer)) << writer.error().message;
    for (const auto &[name, t] : content)
      ASSERT_TRUE(bool(writer->append(t.data.data(), t.data.size())));
    ASSERT_TRUE(bool(writer->finish()));
  }

  /// Two shards dealt out alternately, so that scales and weights part, with an index.
  void write(const TempDir &dir, const Json &config) const {
    std::map<std::string, TestTensor> shards[2];
    Json map = Json::object();
    int next = 0;
    for (const auto &[name, t] : tensors) {
      shards[next][name] = t;
      map[name] = "model-0000" + std::to_string(next + 1) + ".safetensors";
      next ^= 1;
    }
    writeShard(dir / "model-00001.safetensors", shards[0]);
    writeShard(dir / "model-00002.safetensors", shards[1]);
    dir.write("model.safetensors.index.json", Json{{"weight_map", map}}.dump());
    dir.write("config.json", config.dump());
  }
};

/// The whole model of `smallConfig()`, with names and shapes spelled out here so that the
/// test does not lean on the code under test.
inline TestCheckpoint smallCheckpoint(bool fp8 = true, DType plain = DType::BF16) {
  TestCheckpoint c;
  auto layer = [&](const std::string &p, bool moe) {
    c.add(p + "input_layernorm.weight", plain, {48});
    c.linear(p + "self_attn.q_a_proj", 16, 48, fp8, plain);
    c.add(p + "self_attn.q_a_layernorm.weight", plain, {16});
    c.linear(p + "self_attn.q_b_proj", 60, 16, fp8, plain);
    c.linear(p + "self_attn.kv_a_proj_with_mqa", 32, 48, fp8, plain);
    c.add(p + "self_attn.kv_a_layernorm.weight", plain, {24});
    c.linear(p + "self_attn.kv_b_proj", 66, 24, fp8, plain);
    c.linear(p + "self_attn.o_proj", 48, 30, fp8, plain);
    c.add(p + "post_attention_layernorm.weight", plain, {48});
    auto ffn = [&](const std::string &m, int64_t inner) {
      c.linear(m + "gate_proj", inner, 48, fp8, plain);
      c.linear(m + "up_proj", inner, 48, fp8, plain);
      c.linear(m + "down_proj", 48, inner, fp8, plain);
    };
    if (!moe)
      return ffn(p + "mlp.", 40);
    c.add(p + "mlp.gate.weight", plain, {6, 48});
    c.add(p + "mlp.gate.e_score_correction_bias", DType::F32, {6});
    for (int e = 0; e < 6; ++e)
      ffn(p + "mlp.experts." + std::to_string(e) + ".", 20);
    ffn(p + "mlp.shared_experts.", 20);
  };
  c.add("model.embed_tokens.weight", plain, {70, 48}, 2);
  layer("model.layers.0.", false);
  layer("model.layers.1.", true);
  layer("model.layers.2.", true);
  c.add("model.norm.weight", plain, {48});
  c.add("lm_head.weight", plain, {70, 48}, 3);
  const std::string mtp = "model.layers.3.";
  c.add(mtp + "embed_tokens.weight", plain, {70, 48}, 2);
  c.add(mtp + "enorm.weight", plain, {48});
  c.add(mtp + "hnorm.weight", plain, {48});
  c.add(mtp + "eh_proj.weight", plain, {48, 96});
  layer(mtp, true);
  c.add(mtp + "shared_head.norm.weight", plain, {48});
  c.add(mtp + "shared_head.head.weight", plain, {70, 48}, 3);
  return c;
}

} // namespace dsv3::test
