#include "frontends/quantize/CheckpointWriter.h"

#include "frontends/huggingface/QuantConfig.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace dsv3;
using namespace dsv3::quantize;

namespace {

TEST(CheckpointWriter, PacksEightCodesAWord) {
  QuantizedMatrix m(Scheme{Code::I4, 1, 8, DType::BF16}, 2, 10); // 10 columns: two words, six nibbles of the second unused
  for (int64_t i = 0; i < 20; ++i)
    m.codes[size_t(i)] = uint8_t(int8_t(i % 16 - 8));
  m.scales << 0.5f, 1, 2, 4;
  std::vector<OutTensor> t = tensorsOf("a.up_proj", {m.scheme, {}}, m);
  ASSERT_EQ(t.size(), 3u);
  EXPECT_EQ(t[0].name, "a.up_proj.weight_packed");
  EXPECT_EQ(t[0].shape, (std::vector<int64_t>{2, 2}));
  uint32_t words[4];
  ASSERT_EQ(t[0].data().size(), sizeof words);
  std::memcpy(words, t[0].data().data(), sizeof words);
  EXPECT_EQ(words[0], 0x76543210u); // code + 8, the first column lowest
  EXPECT_EQ(words[1], 0x00000098u);
  EXPECT_EQ(words[2], 0x10fedcbau);
  EXPECT_EQ(t[1].name, "a.up_proj.weight_scale");
  EXPECT_EQ(t[1].dtype, DType::BF16);
  EXPECT_EQ(t[1].shape, (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(loadAsFloat(DType::BF16, t[1].data().data(), 3), 4);
  EXPECT_EQ(t[2].name, "a.up_proj.weight_shape");
  EXPECT_EQ(loadAsFloat(DType::I64, t[2].data().data(), 1), 10);
}

TEST(CheckpointWriter, Int8IsABytePerCode) {
  QuantizedMatrix m(Scheme{Code::I8, 1, 0}, 1, 3);
  m.codes = {uint8_t(int8_t(-127)), 0, 127};
  m.scales << 2;
  std::vector<OutTensor> t = tensorsOf("a", {m.scheme, m.scheme}, m);
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t[0].name, "a.weight");
  EXPECT_EQ(t[0].dtype, DType::I8);
  EXPECT_EQ(loadAsFloat(DType::I8, t[0].data().data(), 0), -127);
}

TEST(CheckpointWriter, Int4BesideInt8ActivationsIsABytePerCode) {
  QuantizedMatrix m(Scheme{Code::I4, 1, 2}, 1, 3);
  m.codes = {uint8_t(int8_t(-8)), 0, 7};
  m.scales << 2, 3;
  std::vector<OutTensor> t = tensorsOf("a", {m.scheme, Scheme{Code::I8, 1, 0}}, m);
  ASSERT_EQ(t.size(), 2u);
  EXPECT_EQ(t[0].name, "a.weight");
  EXPECT_EQ(t[0].dtype, DType::I8);
  EXPECT_EQ(t[0].shape, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(loadAsFloat(DType::I8, t[0].data().data(), 0), -8);
  EXPECT_EQ(tensorsOf("a", {m.scheme, Scheme{Code::F8E4M3, 1, 0}}, m)[0].name, "a.weight_packed");
}

/// A model with experts in int4, attention in int8, kv_b in FP8 blocks, and plain linears.
std::map<std::string, StoredModule> mixed() {
  const Scheme int4{Code::I4, 1, 128}, int8{Code::I8, 1, 0}, groups{Code::I8, 1, 128}, fp8{Code::F8E4M3, 128, 128};
  std::map<std::string, StoredModule> modules = {{"lm_head", {}}, {"model.layers.2.eh_proj", {}}};
  for (std::string layer : {"model.layers.0.", "model.layers.1.", "model.layers.2."}) {
    modules[layer + "self_attn.o_proj"] = {int8, int8};
    modules[layer + "self_attn.kv_b_proj"] = {fp8, {}};
    if (layer != "model.layers.0.")
      modules[layer + "mlp.gate"] = {};
    for (std::string expert : {"mlp.experts.0.", "mlp.experts.11."}) {
      modules[layer + expert + "up_proj"] = {int4, int8};
      modules[layer + expert + "down_proj"] = {int4, groups};
    }
  }
  modules["model.layers.1.self_attn.o_proj"] = {}; // one layer keeps its precision
  return modules;
}

TEST(CheckpointWriter, TheReaderGivesEachModuleItsScheme) {
  std::map<std::string, StoredModule> modules = mixed();
  Json config = {{"quantization_config", Json::parse(quantizationConfig(modules).dump())}};
  Result<std::optional<hf::QuantConfig>> read = hf::parseQuantization(config, "config.json");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_TRUE(*read);
  for (const auto &[name, stored] : modules) {
    Result<const hf::StoredScheme *> scheme = (*read)->schemeOf(name);
    ASSERT_TRUE(scheme) << scheme.error().message;
    ASSERT_EQ(*scheme != nullptr, stored.weight.has_value()) << name;
    if (!*scheme)
      continue;
    EXPECT_EQ((*scheme)->blockRows, stored.weight->blockRows) << name;
    EXPECT_EQ((*scheme)->blockCols, stored.weight->blockCols) << name;
    EXPECT_EQ((*scheme)->bits(), stored.weight->bits()) << name;
    EXPECT_EQ((*scheme)->isFp8(), stored.weight->code == Code::F8E4M3) << name;
    EXPECT_EQ((*scheme)->activation.has_value(), stored.activation.has_value()) << name;
    if ((*scheme)->activation && stored.activation)
      EXPECT_EQ((*scheme)->activation->blockCols, stored.activation->blockCols) << name;
  }
}

/// vLLM refuses experts whose projections differ, in their activations too.
TEST(CheckpointWriter, ProjectionsOfAnExpertShareOneGroup) {
  OrderedJson config = quantizationConfig(forOtherEngines(mixed()));
  int64_t groups = 0;
  for (const auto &[name, group] : config["config_groups"].items())
    if (group["weights"]["num_bits"] == 4) {
      EXPECT_EQ(group["targets"], OrderedJson({"Linear"}));
      EXPECT_EQ(group["input_activations"]["strategy"], "token");
      ++groups;
    }
  EXPECT_EQ(groups, 1);
}

/// The list is short, however many layers and experts there are.
TEST(CheckpointWriter, PatternsStandForNumbers) {
  OrderedJson config = quantizationConfig(mixed());
  EXPECT_EQ(config["format"], "mixed-precision");
  std::string text = config.dump();
  EXPECT_NE(text.find("re:model\\\\.layers\\\\.\\\\d+\\\\.self_attn\\\\.kv_b_proj$"), std::string::npos) << text;
  EXPECT_EQ(text.find("experts.11"), std::string::npos) << text;
  EXPECT_NE(text.find("\"model.layers.1.self_attn.o_proj\""), std::string::npos) << text; // its kind differs between layers
}

} // namespace
