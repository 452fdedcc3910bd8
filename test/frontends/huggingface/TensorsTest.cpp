#include "TestCheckpoint.h"

#include "frontends/huggingface/Model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <stdexcept>

using namespace dsv3;
using namespace dsv3::test;
using testing::ElementsAre;
using testing::HasSubstr;
using hf::LedgerRow;

namespace {

class TensorsTest : public testing::Test {
protected:
  Result<hf::Model> read(hf::TensorOptions options = {}) {
    checkpoint.write(dir, config);
    return hf::readModel(dir.str(), options);
  }
  hf::Model good() {
    auto model = read();
    if (!model)
      throw std::runtime_error(model.error().message); // ends this test only
    return std::move(*model);
  }
  std::string bad() {
    auto model = read();
    if (model)
      return "accepted";
    EXPECT_EQ(model.error().code, ExitCode::BadCheckpoint);
    return model.error().message;
  }
  /// The ledger row of a tensor.
  static const LedgerRow &row(const hf::Model &model, const std::string &name) {
    for (const LedgerRow &r : model.tensors.ledger.rows())
      if (r.tensor->name() == name)
        return r;
    throw std::runtime_error("no ledger row of " + name);
  }

  TempDir dir;
  Json config = smallConfig();
  TestCheckpoint checkpoint = smallCheckpoint();
};

const std::string expert = "model.layers.2.mlp.experts.4.down_proj.weight";

} // namespace

TEST_F(TensorsTest, BindsEveryTensorOnce) {
  hf::Model model = good();
  const hf::ModelTensors &t = model.tensors;
  EXPECT_EQ(t.ledger.rows().size(), checkpoint.tensors.size());
  EXPECT_EQ(t.mtpModules, 1);
  EXPECT_EQ(t.weights.front().spec.site, "embed");

  const hf::Weight *qb = t.find("l1.q_b");
  ASSERT_NE(qb, nullptr);
  EXPECT_THAT(qb->shape(), ElementsAre(60, 16));
  EXPECT_EQ(qb->dtype, DType::F8E4M3);
  EXPECT_EQ(qb->scale, DType::F32);
  EXPECT_EQ(qb->tensor(), "model.layers.1.self_attn.q_b_proj.weight");
  EXPECT_EQ(qb->scaleTensor(), "model.layers.1.self_attn.q_b_proj.weight_scale_inv");
  EXPECT_EQ(row(model, qb->scaleTensor()).use, LedgerRow::Use::Scale);

  const hf::Weight *down = t.find("l2.down");
  ASSERT_NE(down, nullptr);
  EXPECT_THAT(down->shape(), ElementsAre(6, 48, 20));
  EXPECT_EQ(down->tensor(4), expert);
  EXPECT_EQ(row(model, expert).site, "l2.down");
  EXPECT_EQ(row(model, expert).member, 4);

  EXPECT_THAT(t.find("l0.gate")->shape(), ElementsAre(40, 48));
  EXPECT_THAT(t.find("l2.shared.gate")->shape(), ElementsAre(20, 48));
  EXPECT_THAT(t.find("l3.eh_proj")->shape(), ElementsAre(48, 96));
  EXPECT_FALSE(t.find("l3.eh_proj")->scale);
  EXPECT_EQ(t.find("l1.router_bias")->dtype, DType::F32);
}

TEST_F(TensorsTest, MtpCopiesAreIgnoredAfterComparing) {
  hf::Model model = good();
  EXPECT_EQ(model.tensors.find("l3.embed"), nullptr);
  EXPECT_EQ(model.tensors.mtpEmbedding(3), model.tensors.find("embed"));
  EXPECT_EQ(model.tensors.mtpHead(3), model.tensors.find("lm_head"));
  const LedgerRow &copy = row(model, "model.layers.3.shared_head.head.weight");
  EXPECT_EQ(copy.use, LedgerRow::Use::Ignored);
  EXPECT_EQ(copy.reason, hf::Ignored::CopyOf);
  EXPECT_EQ(copy.other, "lm_head.weight");
}

TEST_F(TensorsTest, AnMtpHeadOfItsOwnIsUsed) {
  checkpoint.set("model.layers.3.shared_head.head.weight", 69 * 48, 5);
  hf::Model model = good();
  ASSERT_NE(model.tensors.find("l3.head"), nullptr);
  EXPECT_EQ(model.tensors.mtpHead(3), model.tensors.find("l3.head"));
  EXPECT_EQ(model.tensors.mtpEmbedding(3), model.tensors.find("embed"));
}

TEST_F(TensorsTest, MtpMayLeaveOutItsCopies) {
  checkpoint.tensors.erase("model.layers.3.shared_head.head.weight");
  checkpoint.tensors.erase("model.layers.3.embed_tokens.weight");
  EXPECT_EQ(good().tensors.mtpModules, 1);
}

TEST_F(TensorsTest, MtpMayBeWhollyAbsentButNotHalf) {
  auto &tensors = checkpoint.tensors;
  std::string norm = "model.layers.3.enorm.weight";
  TestTensor kept = tensors.at(norm);
  for (auto it = tensors.begin(); it != tensors.end();)
    it = it->first.rfind("model.layers.3.", 0) == 0 ? tensors.erase(it) : std::next(it);
  hf::Model model = good();
  EXPECT_EQ(model.tensors.mtpModules, 0);
  EXPECT_THAT(model.tensors.notes, ElementsAre(HasSubstr("no tensor of layer 3")));
  tensors[norm] = kept;
  EXPECT_THAT(bad(), HasSubstr("tensor model.layers.3.hnorm.weight is missing"));
}

TEST_F(TensorsTest, LayersBeyondTheConfigAreIgnored) {
  config["num_nextn_predict_layers"] = 0;
  hf::Model model = good();
  EXPECT_EQ(row(model, "model.layers.3.enorm.weight").reason, hf::Ignored::BeyondLayers);
}

TEST_F(TensorsTest, StrangersAreIgnoredWithAReason) {
  checkpoint.add("model.layers.1.self_attn.rotary_emb.inv_freq", DType::F32, {4});
  checkpoint.add("vision.patch.weight", DType::I64, {4});
  hf::Model model = good();
  EXPECT_EQ(row(model, "model.layers.1.self_attn.rotary_emb.inv_freq").reason, hf::Ignored::RotaryInvFreq);
  EXPECT_EQ(row(model, "vision.patch.weight").reason, hf::Ignored::Unknown);
  EXPECT_THAT(model.tensors.notes, testing::ElementsAre("1 tensor is no part of the model and left out: vision.patch.weight"));
}

TEST_F(TensorsTest, StaticScalesOfACacheAreNotNeeded) {
  checkpoint.add("model.layers.1.self_attn.k_scale", DType::F32, {1});
  hf::Model model = good();
  EXPECT_EQ(row(model, "model.layers.1.self_attn.k_scale").reason, hf::Ignored::ActivationScale);
  EXPECT_TRUE(model.tensors.notes.empty());
}

TEST_F(TensorsTest, ABiasThatSaysSomethingIsRefused) {
  checkpoint.add("model.layers.1.self_attn.o_proj.bias", DType::F32, {2});
  for (size_t i = 0; i < 2; ++i)
    checkpoint.set("model.layers.1.self_attn.o_proj.bias", i, 0);
  good();
  checkpoint.set("model.layers.1.self_attn.o_proj.bias", 1, 0.5);
  auto model = read();
  ASSERT_FALSE(bool(model));
  EXPECT_EQ(model.error().code, ExitCode::Unsupported);
  EXPECT_EQ(model.error().message, "model.layers.1.self_attn.o_proj.bias: expected a linear without a bias, got one that is not 0");
}

TEST_F(TensorsTest, CodesThatNothingSaysHowToRead) {
  checkpoint.tensors.at("lm_head.weight").dtype = DType::I8;
  auto &head = checkpoint.tensors.at("lm_head.weight");
  head.data.resize(head.data.size() / 2); // a byte each
  auto model = read();
  ASSERT_FALSE(bool(model));
  EXPECT_EQ(model.error().code, ExitCode::Unsupported);
  EXPECT_EQ(model.error().message, "lm_head.weight is stored as I8: expected BF16, F16 or F32, since only linears of decoder layers are read quantised");
}

TEST_F(TensorsTest, PlainCheckpointsOfEveryType) {
  config.erase("quantization_config");
  for (DType type : {DType::BF16, DType::F16, DType::F32}) {
    checkpoint = smallCheckpoint(false, type);
    hf::Model model = good();
    EXPECT_EQ(model.tensors.find("l1.up")->dtype, type);
    EXPECT_FALSE(model.tensors.find("l1.up")->scale);
  }
}

TEST_F(TensorsTest, QueriesWithoutLowRank) {
  config["q_lora_rank"] = nullptr;
  for (int i = 0; i < 4; ++i) {
    std::string p = "model.layers." + std::to_string(i) + ".self_attn.";
    for (const char *name : {"q_a_proj.weight", "q_a_proj.weight_scale_inv", "q_b_proj.weight",
                             "q_b_proj.weight_scale_inv", "q_a_layernorm.weight"})
      checkpoint.tensors.erase(p + name);
    checkpoint.linear(p + "q_proj", 60, 48, true);
  }
  hf::Model model = good();
  EXPECT_THAT(model.tensors.find("l0.q")->shape(), ElementsAre(60, 48));
  EXPECT_EQ(model.tensors.find("l0.q_a"), nullptr);
}

TEST_F(TensorsTest, TiedHeads) {
  config["tie_word_embeddings"] = true;
  EXPECT_THAT(bad(), HasSubstr("tie_word_embeddings is true, but lm_head.weight differs"));
  checkpoint.tensors.at("lm_head.weight") = checkpoint.tensors.at("model.embed_tokens.weight");
  {
    hf::Model model = good();
    EXPECT_EQ(row(model, "lm_head.weight").other, "model.embed_tokens.weight");
    EXPECT_NE(model.tensors.find("l3.head"), nullptr) << "differs from the tied head";
  }
  checkpoint.tensors.erase("lm_head.weight");
  hf::Model model = good();
  EXPECT_EQ(model.tensors.lmHead(), model.tensors.find("embed"));
  config["tie_word_embeddings"] = false;
  EXPECT_THAT(bad(), HasSubstr("tensor lm_head.weight is missing"));
}

TEST_F(TensorsTest, MissingTensorsAreNamed) {
  checkpoint.tensors.erase(expert + "_scale_inv");
  EXPECT_THAT(bad(), HasSubstr("tensor " + expert + "_scale_inv is missing"));
  checkpoint.tensors.erase(expert);
  EXPECT_THAT(bad(), HasSubstr("tensor " + expert + " is missing"));
}

TEST_F(TensorsTest, ShapesAreExplainedByTheConfig) {
  config["num_attention_heads"] = config["num_key_value_heads"] = 6;
  EXPECT_EQ(bad(), "config.json contradicts model.layers.0.self_attn.q_b_proj.weight: expected 120 rows "
                   "(num_attention_heads 6 x (qk_nope_head_dim 12 + qk_rope_head_dim 8)), got 60");
  config = smallConfig();
  config["moe_intermediate_size"] = 24;
  EXPECT_THAT(bad(), HasSubstr("experts.0.gate_proj.weight: expected 24 rows (moe_intermediate_size 24), got 20"));
  config = smallConfig();
  config["vocab_size"] = 71;
  EXPECT_THAT(bad(), HasSubstr("expected 71 rows (vocab_size 71), got 70"));
  config = smallConfig();
  checkpoint.add("model.norm.weight", DType::BF16, {48, 1});
  EXPECT_THAT(bad(), HasSubstr("model.norm.weight: expected 1 dimensions, got shape [48, 1]"));
}

TEST_F(TensorsTest, TypesAreChecked) {
  checkpoint.add("model.norm.weight", DType::F64, {48});
  EXPECT_EQ(bad(), "model.norm.weight: expected dtype BF16, F16 or F32, got F64");
  checkpoint.add("model.norm.weight", DType::F8E4M3, {48});
  EXPECT_THAT(bad(), HasSubstr("model.norm.weight: expected dtype BF16, F16 or F32, got F8_E4M3"));
  checkpoint.add("model.norm.weight", DType::F16, {48});
  checkpoint.add(expert, DType::F8E5M2, {48, 20});
  EXPECT_EQ(bad(), expert + ": expected dtype F8_E4M3, got F8_E5M2");
  checkpoint.add(expert, DType::BF16, {48, 20});
  EXPECT_THAT(bad(), HasSubstr(expert + "_scale_inv scales an fp8 or integer weight, but"));
  checkpoint.tensors.erase(expert + "_scale_inv");
  EXPECT_THAT(bad(), HasSubstr(expert + ": expected the dtypes of model.layers.2.mlp.experts.0."));
}

TEST_F(TensorsTest, Fp8NeedsItsConfig) {
  config.erase("quantization_config");
  EXPECT_EQ(bad(), "config.json has no quantization_config, but model.layers.0.self_attn.q_a_proj.weight "
                   "is stored as fp8 (F8_E4M3)");
}

TEST_F(TensorsTest, ScaleGridsHavePartialEdges) {
  // down_proj [48, 20] in blocks of 16 x 32: 3 x 1, the last column block partial.
  checkpoint.add(expert + "_scale_inv", DType::F32, {1, 3});
  EXPECT_EQ(bad(), expert + "_scale_inv: expected shape [3, 1] (one scale per 16x32 block of [48, 20]), got [1, 3]");
  checkpoint.add(expert + "_scale_inv", DType::F16, {3, 1});
  EXPECT_THAT(bad(), HasSubstr("_scale_inv: expected dtype F32 or BF16, got F16"));
}

TEST_F(TensorsTest, Bf16ScalesAreLegal) {
  for (auto &[name, t] : checkpoint.tensors)
    if (name.find("layers.1.mlp.shared_experts.up_proj.weight_scale_inv") != name.npos)
      checkpoint.add(name, DType::BF16, t.shape);
  EXPECT_EQ(good().tensors.find("l1.shared.up")->scale, DType::BF16);
}

TEST_F(TensorsTest, ValuesOfSmallTensorsAreChecked) {
  const std::string bias = "model.layers.1.mlp.gate.e_score_correction_bias";
  checkpoint.set(bias, 5, std::nanf(""));
  EXPECT_EQ(bad(), bias + ": element 5 is nan, expected a finite value");
  EXPECT_TRUE(bool(read({/*checkValues=*/false})));
  checkpoint.set(bias, 5, -1);
  for (float value : {0.0f, -1.0f, INFINITY, float(NAN)}) {
    checkpoint.set(expert + "_scale_inv", 2, value);
    EXPECT_THAT(bad(), HasSubstr(expert + "_scale_inv: element 2 is"));
  }
}

TEST_F(TensorsTest, ManyMtpModules) {
  config["num_nextn_predict_layers"] = 2;
  hf::Model model = good();
  EXPECT_EQ(model.tensors.mtpModules, 1);
  EXPECT_THAT(model.tensors.notes, ElementsAre(HasSubstr("promises 2 MTP modules, the checkpoint holds 1")));
}
