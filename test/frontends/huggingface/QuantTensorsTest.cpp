// Quantised checkpoints of a small model: what is bound, what is ignored and why, what is refused.
#include "TestCheckpoint.h"

#include "frontends/huggingface/Model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

using namespace dsv3;
using namespace dsv3::test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace {

/// Fills a tensor of integers of any width with one value.
void fill(TestTensor &t, int64_t value) {
  for (size_t i = 0; i < t.data.size(); i += byteSize(t.dtype))
    std::memcpy(t.data.data() + i, &value, byteSize(t.dtype)); // little-endian
}

class QuantTensors : public ::testing::Test {
protected:
  /// The model in float, its linears rewritten by `rewrite(module, n, k)`.
  void make(const Json &quantization, const std::function<void(const std::string &, int64_t, int64_t)> &rewrite) {
    config = smallConfig();
    config["quantization_config"] = quantization;
    checkpoint = smallCheckpoint(false);
    for (const auto &[name, t] : smallCheckpoint(true).tensors) // the FP8 one says which are linears
      if (t.dtype == DType::F8E4M3) {
        checkpoint.tensors.erase(name);
        rewrite(name.substr(0, name.rfind('.')), t.shape[0], t.shape[1]);
      }
  }
  void integers(const std::string &name, DType type, std::vector<int64_t> shape, int64_t value) {
    checkpoint.tensors[name] = {type, shape, std::string(size_t(*tensorBytes(type, shape)), '\0')};
    fill(checkpoint.tensors[name], value);
  }
  /// compressed-tensors, pack-quantized int4 in groups of 16.
  void packed(bool zeros = false, const Json &more = Json::object()) {
    Json weights = {{"num_bits", 4}, {"strategy", "group"}, {"group_size", 16}, {"symmetric", !zeros}};
    weights.update(more);
    make({{"quant_method", "compressed-tensors"}, {"format", "pack-quantized"}, {"ignore", {"lm_head"}},
          {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", weights}}}}}},
         [&](const std::string &m, int64_t n, int64_t k) {
           integers(m + ".weight_packed", DType::I32, {n, (k + 7) / 8}, 0x76543210);
           checkpoint.add(m + ".weight_scale", DType::BF16, {n, (k + 15) / 16});
           integers(m + ".weight_shape", DType::I64, {2}, 0);
           int64_t shape[2] = {n, k};
           std::memcpy(checkpoint.tensors[m + ".weight_shape"].data.data(), shape, sizeof shape);
           if (zeros)
             integers(m + ".weight_zero_point", DType::I32, {(n + 7) / 8, (k + 15) / 16}, 0x77777777);
         });
  }
  void slimquant() {
    make({{"quant_method", "slimquant_w4a8"}}, [&](const std::string &m, int64_t n, int64_t k) {
      bool routed = m.find(".experts.") != m.npos;
      integers(m + ".weight", DType::I8, {n, routed ? k / 2 : k}, 0x5a);
      checkpoint.add(m + ".weight_scale", DType::F32, {n, 1});
    });
  }
  /// GPTQ with groups of 8; heads and experts of sizes that fill words.
  void gptq(bool symmetric, bool actOrder) {
    make({{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 8}, {"sym", symmetric}, {"desc_act", actOrder}},
         [&](const std::string &m, int64_t n, int64_t k) {
           if (n % 8 || k % 8) // q_b, kv_b, o and experts of the small model
             return checkpoint.add(m + ".weight", DType::BF16, {n, k});
           integers(m + ".qweight", DType::I32, {k / 8, n}, 0x76543210);
           checkpoint.add(m + ".scales", DType::F16, {k / 8, n});
           integers(m + ".qzeros", DType::I32, {k / 8, n / 8}, 0x77777777);
           integers(m + ".g_idx", DType::I32, {k}, 0);
           for (int32_t i = 0; i < k; ++i)
             index(m, i, i / 8);
         });
  }
  void index(const std::string &module, int32_t column, int32_t group) {
    std::memcpy(checkpoint.tensors[module + ".g_idx"].data.data() + 4 * column, &group, 4);
  }

  Result<hf::Model> read(const hf::TensorOptions &options = {}) {
    checkpoint.write(dir, config);
    return hf::readModel(dir.str(), options);
  }
  hf::Model good() {
    auto model = read();
    EXPECT_TRUE(bool(model)) << model.error().message;
    return model ? std::move(*model) : hf::Model();
  }
  std::string bad(ExitCode code = ExitCode::BadCheckpoint) {
    auto model = read();
    if (model)
      return "accepted";
    EXPECT_EQ(model.error().code, code) << model.error().message;
    EXPECT_EQ(model.error().message.find('\n'), std::string::npos);
    return model.error().message;
  }
  static std::string reason(const hf::Model &model, const std::string &name) {
    for (const hf::LedgerRow &row : model.tensors.ledger.rows())
      if (row.tensor->name() == name)
        return row.use == hf::LedgerRow::Use::Ignored ? std::string(hf::keyword(row.reason)) : "used";
    return "absent";
  }

  Json config;
  TestCheckpoint checkpoint;
  TempDir dir;
};

const std::string up = "model.layers.0.mlp.up_proj", expert = "model.layers.2.mlp.experts.4.down_proj";

} // namespace

TEST_F(QuantTensors, PackedInt4) {
  packed();
  hf::Model model = good();
  const hf::Weight &w = *model.tensors.find("l2.down");
  EXPECT_EQ(w.scheme->text(), "int4 in groups of 16");
  EXPECT_EQ(w.tensor(4), expert + ".weight_packed");
  EXPECT_EQ(w.scaleTensor(4), expert + ".weight_scale");
  EXPECT_EQ(w.scale, DType::BF16);
  EXPECT_THAT(w.shape(), ElementsAre(6, 48, 20)) << "of the numbers, not of the words";
  EXPECT_EQ(reason(model, expert + ".weight_shape"), "shape_as_numbers");
  EXPECT_FALSE(model.tensors.find("l2.router")->scheme);
  EXPECT_THAT(model.tensors.notes, ElementsAre());
}

TEST_F(QuantTensors, PackedZeroPoints) {
  packed(true);
  hf::Model model = good();
  EXPECT_EQ(model.tensors.find("l2.down")->zeroTensor(4), expert + ".weight_zero_point");
  EXPECT_EQ(reason(model, expert + ".weight_zero_point"), "used");
  checkpoint.tensors.erase(expert + ".weight_zero_point");
  EXPECT_THAT(bad(), HasSubstr("tensor " + expert + ".weight_zero_point is missing"));
}

TEST_F(QuantTensors, ShapesOfPackedParts) {
  packed();
  integers(expert + ".weight_packed", DType::I32, {48, 4}, 0);
  EXPECT_EQ(bad(), expert + ".weight_packed: expected shape [48, 3] (8 codes of 4 bits a word of [48, 20]), got [48, 4]");
  packed();
  checkpoint.add(expert + ".weight_scale", DType::BF16, {2, 48});
  EXPECT_EQ(bad(), expert + ".weight_scale: expected shape [48, 2] (one scale per 1x16 block of [48, 20]), got [2, 48]") << "a transposed grid";
  packed();
  integers(expert + ".weight_shape", DType::I64, {2}, 48);
  EXPECT_THAT(bad(), HasSubstr(expert + ".weight_shape: expected the numbers [48, 20]"));
  packed();
  checkpoint.add(expert + ".weight_scale", DType::F8E4M3, {48, 2});
  EXPECT_THAT(bad(), HasSubstr("expected dtype F32, BF16 or F16, got F8_E4M3"));
  packed();
  checkpoint.tensors.erase(expert + ".weight_scale");
  EXPECT_EQ(bad().find("tensor " + expert + ".weight_scale is missing from "), 0u);
}

TEST_F(QuantTensors, IgnoredMustBePlainAndPlainIsNoted) {
  packed();
  config["quantization_config"]["ignore"] = {"re:.*experts.4.*"};
  EXPECT_THAT(bad(ExitCode::Unsupported), HasSubstr("has other settings for model.layers.1.mlp.experts.4.gate_proj"));
  packed();
  config["quantization_config"]["ignore"] = {"model.layers.0.mlp.gate_up_proj"};
  EXPECT_EQ(bad(), "config.json: quantization_config ignores model.layers.0.mlp.gate_proj, but the checkpoint holds "
                   "model.layers.0.mlp.gate_proj.weight_packed");
  packed();
  for (const char *part : {".weight_packed", ".weight_scale", ".weight_shape"})
    checkpoint.tensors.erase(up + part);
  checkpoint.add(up + ".weight", DType::BF16, {40, 48});
  hf::Model model = good();
  EXPECT_FALSE(model.tensors.find("l0.up")->scheme);
  EXPECT_THAT(model.tensors.notes, ElementsAre(HasSubstr("the checkpoint holds 1 plain, " + up + " first")));
  config["quantization_config"]["ignore"] = {up};
  EXPECT_THAT(good().tensors.notes, ElementsAre());
}

TEST_F(QuantTensors, WhatNobodySaidIsQuantised) {
  packed();
  integers("lm_head.weight_packed", DType::I32, {70, 6}, 0);
  checkpoint.tensors.erase("lm_head.weight");
  EXPECT_EQ(bad(ExitCode::Unsupported), "lm_head.weight is to be stored plain: only linears of decoder layers are read quantised, but the "
                                        "checkpoint holds lm_head.weight_packed");
  packed();
  config.erase("quantization_config");
  EXPECT_THAT(bad(), HasSubstr("config.json has no quantization_config, but the checkpoint holds model.layers.0.self_attn.q_a_proj.weight_packed"));
  packed();
  checkpoint.add(up + ".weight", DType::BF16, {40, 48});
  EXPECT_THAT(bad(), HasSubstr(up + ".weight and " + up + ".weight_packed are the same linear"));
}

TEST_F(QuantTensors, SlimQuant) {
  slimquant();
  hf::Model model = good();
  EXPECT_EQ(model.tensors.find("l0.up")->scheme->text(), "int8 per channel");
  EXPECT_EQ(model.tensors.find("l2.shared.up")->scheme->text(), "int8 per channel");
  EXPECT_EQ(model.tensors.find("l2.down")->scheme->packing, hf::Packing::HighFirst);
  EXPECT_THAT(model.tensors.notes, ElementsAre());
  EXPECT_EQ(model.tensors.find("l2.down")->scheme->activation->text(), "int8 per token");
  EXPECT_THAT(model.tensors.find("l2.down")->shape(), ElementsAre(6, 48, 20));
  checkpoint.set(expert + ".weight_scale", 3, 0);
  EXPECT_TRUE(bool(read())) << "an all-zero row";
  checkpoint.set(expert + ".weight_scale", 3, -1);
  EXPECT_TRUE(bool(read())) << "the largest number of the row is the code -8, whatever its sign";
  checkpoint.set(expert + ".weight_scale", 3, INFINITY);
  EXPECT_THAT(bad(), HasSubstr(expert + ".weight_scale: element 3 is inf, expected a finite scale"));
  slimquant();
  integers(expert + ".weight", DType::I8, {48, 20}, 0);
  EXPECT_EQ(bad(), expert + ".weight: expected shape [48, 10] (2 codes a byte of [48, 20]), got [48, 20]");
  slimquant();
  checkpoint.tensors[expert + ".weight"] = {DType::BF16, {48, 20}, std::string(1920, '\0')};
  EXPECT_THAT(bad(), HasSubstr(expert + ".weight_scale scales an fp8 or integer weight, but"));
}

TEST_F(QuantTensors, GptqIndicesInOrderSayNothing) {
  gptq(false, false);
  hf::Model model = good();
  const hf::Weight &w = *model.tensors.find("l0.up");
  EXPECT_EQ(w.scheme->text(), "int4 in groups of 8 with zero points");
  EXPECT_FALSE(w.indexed);
  EXPECT_EQ(reason(model, up + ".g_idx"), "groups_in_order");
  EXPECT_EQ(reason(model, up + ".qzeros"), "used");
}

TEST_F(QuantTensors, GptqIndicesThatPermuteAreUsed) {
  gptq(false, true);
  index(up, 0, 5);
  index(up, 40, 0);
  hf::Model model = good();
  EXPECT_TRUE(model.tensors.find("l0.up")->indexed);
  EXPECT_FALSE(model.tensors.find("l0.gate")->indexed);
  EXPECT_EQ(reason(model, up + ".g_idx"), "used");
  index(up, 7, 6);
  EXPECT_EQ(bad(), up + ".g_idx: element 7 is 6, expected a group from 0 to 5");
  gptq(false, true);
  checkpoint.tensors.erase(up + ".g_idx");
  EXPECT_THAT(bad(), HasSubstr("tensor " + up + ".g_idx is missing"));
}

TEST_F(QuantTensors, SymmetricZeroPointsStandForZero) {
  gptq(true, false);
  EXPECT_EQ(reason(good(), up + ".qzeros"), "symmetric_zero_points");
  fill(checkpoint.tensors[up + ".qzeros"], 0x77777877);
  EXPECT_EQ(bad(), up + ".qzeros: element 0 holds zero point 8, expected 7 throughout, since config.json says symmetric");
}

TEST_F(QuantTensors, PackingsThatDoNotFit) {
  gptq(false, false);
  std::string module = "model.layers.0.self_attn.q_b_proj"; // 60 rows
  checkpoint.tensors.erase(module + ".weight");
  integers(module + ".qweight", DType::I32, {2, 60}, 0);
  checkpoint.add(module + ".scales", DType::F16, {2, 60});
  integers(module + ".qzeros", DType::I32, {2, 8}, 0);
  integers(module + ".g_idx", DType::I32, {16}, 0);
  EXPECT_EQ(bad(ExitCode::Unsupported), module + ": GPTQ needs a multiple of 8 rows, got 60");
}

TEST_F(QuantTensors, PowerOfTwoScalesAreChecked) {
  make({{"quant_method", "fp8"}, {"weight_block_size", {16, 32}}, {"scale_fmt", "ue8m0"}},
       [&](const std::string &m, int64_t n, int64_t k) {
         checkpoint.add(m + ".weight", DType::F8E4M3, {n, k});
         checkpoint.add(m + ".weight_scale_inv", DType::F32, {(n + 15) / 16, (k + 31) / 32});
         for (int64_t i = 0; i < (n + 15) / 16 * ((k + 31) / 32); ++i)
           checkpoint.set(m + ".weight_scale_inv", size_t(i), 0.125f);
       });
  EXPECT_TRUE(good().tensors.find("l0.up")->scheme->ue8m0);
  checkpoint.set(expert + ".weight_scale_inv", 1, 0.1875f);
  EXPECT_EQ(bad(), expert + ".weight_scale_inv: element 1 is 0.187500, expected a power of two (scale_fmt ue8m0)");
  config["quantization_config"].erase("scale_fmt");
  EXPECT_TRUE(bool(read()));
}

TEST_F(QuantTensors, StaticActivationScalesAreIgnoredByName) {
  make({{"quant_method", "compressed-tensors"}, {"format", "float-quantized"},
        {"config_groups", {{"group_0", {{"targets", {"Linear"}}, {"weights", {{"num_bits", 8}, {"type", "float"}}}}}}}},
       [&](const std::string &m, int64_t n, int64_t k) {
         checkpoint.add(m + ".weight", DType::F8E4M3, {n, k});
         checkpoint.add(m + ".weight_scale", DType::F32, m == up ? std::vector<int64_t>{} : std::vector<int64_t>{1});
         checkpoint.add(m + ".input_scale", DType::F32, {1});
       });
  hf::Model model = good();
  EXPECT_EQ(model.tensors.find("l0.up")->scheme->text(), "fp8 per tensor");
  EXPECT_EQ(reason(model, up + ".input_scale"), "activation_scale");
}
