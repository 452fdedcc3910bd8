// The example model and bent small ones, imported.
#include "Imported.h"

#include "test/frontends/huggingface/TestCheckpoint.h"

#include <gmock/gmock.h>

using namespace dsv3;
using dsv3::test::Imported;
using dsv3::test::TempDir;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using testing::StartsWith;

static std::string tiny() { return std::string(DSV3_SOURCE_DIR) + "/examples/dsv3-tiny"; }

TEST(Import, TinyHasAllProgramsAndOps) {
  Imported m(tiny());
  ASSERT_TRUE(bool(m));
  m.expectUniqueSites();
  m.expectCompleteLedger();
  EXPECT_EQ(Imported::text(m.program("trunk").getFunctionType()),
            "(tensor<?xi32>, !dsv3.seq, !dsv3.kv<layers = 7, page = 64, latent = 512, rope = 64, bf16>) -> "
            "(tensor<?x256xbf16>, !dsv3.kv<layers = 7, page = 64, latent = 512, rope = 64, bf16>)");
  EXPECT_EQ(Imported::text(m.program("head").getFunctionType()), "(tensor<?x256xbf16>) -> tensor<?x3584xf32>");
  EXPECT_EQ(m.program("trunk").getArgName(0), "ids");
  EXPECT_EQ(m.program("trunk").getResultName(0), "hidden");
  EXPECT_EQ(m.program("head").getArgName(0), "hidden");
  EXPECT_EQ(m.program("head").getResultName(0), "logits");
  EXPECT_EQ(m.program("mtp").getArgName(0), "next_ids");
  EXPECT_EQ(m.program("mtp").getArgName(1), "hidden");
  EXPECT_EQ(m.program("mtp").getResultName(0), "logits");

  auto count = m.counts();
  EXPECT_EQ(count["dsv3.mla_attention"], 7) << "6 layers and the MTP module's";
  EXPECT_EQ(count["dsv3.kv_append"], 7);
  EXPECT_EQ(count["dsv3.route"], 6) << "layer 0 is dense";
  EXPECT_EQ(count["dsv3.grouped_linear"], 18);
  EXPECT_EQ(count["dsv3.combine"], 6);
  EXPECT_EQ(count["dsv3.embed"], 2);
  // Four a layer, final_norm; enorm, hnorm and the head's.
  EXPECT_EQ(count["dsv3.rms_norm"], 4 * 7 + 1 + 3);
  // q_a, q_b, kv_a, o; a dense FFN's or shared expert's three; the routers; eh_proj; two heads.
  EXPECT_EQ(count["dsv3.linear"], 7 * 4 + 7 * 3 + 6 + 1 + 2);
}

/// Sites are a contract with passes, taps and goldens: their names and their order.
TEST(Import, SitesOfADenseAndARoutedLayer) {
  Imported m(tiny());
  ASSERT_TRUE(bool(m));
  std::vector<std::string> sites = m.sites(m.program("trunk"));
  auto range = [&](const std::string &prefix) {
    std::vector<std::string> out;
    for (const std::string &site : sites)
      if (site.rfind(prefix, 0) == 0)
        out.push_back(site.substr(prefix.size()));
    return out;
  };
  EXPECT_THAT(range("l0."), ElementsAre("input_norm", "q_a", "q_a_norm", "q_b", "q_rope", "kv_a", "kv_a_norm", "k_rope",
                                        "append", "attn", "o", "attn_out_add", "post_norm", "gate", "up", "act", "mlp",
                                        "out"));
  EXPECT_THAT(range("l3."),
              ElementsAre("input_norm", "q_a", "q_a_norm", "q_b", "q_rope", "kv_a", "kv_a_norm", "k_rope", "append",
                          "attn", "o", "attn_out_add", "post_norm", "router", "route", "dispatch", "gate", "up", "act",
                          "down", "shared.gate", "shared.up", "shared.act", "shared.down", "mlp", "out"));
  EXPECT_EQ(sites.front(), "embed");
  EXPECT_EQ(sites.back(), "final_norm");
  EXPECT_THAT(m.sites(m.program("head")), ElementsAre("logits"));
  std::vector<std::string> mtp = m.sites(m.program("mtp"));
  EXPECT_THAT(std::vector<std::string>(mtp.begin(), mtp.begin() + 5),
              ElementsAre("l6.embed", "l6.enorm", "l6.hnorm", "l6.concat", "l6.eh_proj"));
  EXPECT_THAT(std::vector<std::string>(mtp.end() - 2, mtp.end()), ElementsAre("l6.shared_head_norm", "mtp_logits"));
}

TEST(Import, WeightsAreRecipes) {
  Imported m(tiny());
  ASSERT_TRUE(bool(m));
  EXPECT_EQ(m.weight("l3.q_a"),
            "@l3.q_a : tensor<256x256xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from "
            "#dsv3.file<\"model.layers.3.self_attn.q_a_proj.weight\", scale "
            "\"model.layers.3.self_attn.q_a_proj.weight_scale_inv\">");
  EXPECT_EQ(m.weight("l3.down"),
            "@l3.down : tensor<16x256x128xbf16, #dsv3.blocked<f8E4M3FN, 128x128, f32>> from "
            "#dsv3.stack<0 to 16, #dsv3.file<\"model.layers.3.mlp.experts.{}.down_proj.weight\", scale "
            "\"model.layers.3.mlp.experts.{}.down_proj.weight_scale_inv\">>");
  EXPECT_EQ(m.weight("l3.router_bias"),
            "@l3.router_bias : tensor<16xf32> from #dsv3.file<\"model.layers.3.mlp.gate.e_score_correction_bias\">");
  EXPECT_THAT(m.ignored(), ElementsAre(Pair("model.layers.6.embed_tokens.weight", "copy_of model.embed_tokens.weight"),
                                       Pair("model.layers.6.shared_head.head.weight", "copy_of lm_head.weight")));
}

TEST(Import, NumbersOfTheConfigArrive) {
  Imported m(tiny());
  ASSERT_TRUE(bool(m));
  auto rope = llvm::cast<ir::RopeOp>(m.at("l2.q_rope"));
  EXPECT_EQ(rope.getAt(), 128u);
  EXPECT_EQ(Imported::text(mlir::Attribute(rope.getRopeAttr())),
            "#dsv3.rope<dims = 64, theta = 10000.0, interleaved = true, factor = 40.0, original = 4096, betaFast = 32.0, "
            "betaSlow = 1.0>");
  // YaRN: 192^-0.5 (0.1 ln 40 + 1)^2.
  EXPECT_NEAR(llvm::cast<ir::MlaAttentionOp>(m.at("l2.attn")).getScale().convertToDouble(), 0.1352337788608801, 1e-15);
  auto route = llvm::cast<ir::RouteOp>(m.at("l2.route"));
  EXPECT_EQ(route.getGroups(), 4u);
  EXPECT_EQ(route.getKeep(), 2u);
  EXPECT_EQ(route.getTop(), 4u);
  EXPECT_TRUE(route.getNorm());
  EXPECT_EQ(route.getScale().convertToDouble(), 2.5);
}

/// Each layer appends to its own part of the cache, and its attention reads what it appended.
TEST(Import, TheCacheIsThreaded) {
  Imported m(tiny());
  ASSERT_TRUE(bool(m));
  mlir::Value kv = m.program("trunk").getBody().getArgument(2);
  for (unsigned i = 0; i < 6; ++i) {
    std::string layer = "l" + std::to_string(i);
    auto append = llvm::cast<ir::KvAppendOp>(m.at(layer + ".append"));
    auto attention = llvm::cast<ir::MlaAttentionOp>(m.at(layer + ".attn"));
    EXPECT_EQ(append.getKv(), kv);
    EXPECT_EQ(append.getLayer(), i);
    EXPECT_EQ(attention.getLayer(), i);
    EXPECT_EQ(attention.getKv(), append.getResult());
    kv = append.getResult();
  }
  EXPECT_EQ(m.program("trunk").getBody().front().getTerminator()->getOperand(1), kv);
  EXPECT_EQ(llvm::cast<ir::KvAppendOp>(m.at("l6.append")).getLayer(), 6u);
}

static std::string resultType(Imported &m, const char *site) { return Imported::text(m.at(site)->getResult(0).getType()); }

TEST(Import, RoundingsFollowTheComputeType) {
  for (bool bf16 : {true, false}) {
    Imported m(tiny(), bf16 ? DType::BF16 : DType::F32);
    ASSERT_TRUE(bool(m));
    const std::string type = bf16 ? "bf16>" : "f32>";
    for (const char *site : {"embed", "l1.q_b", "l1.attn", "l1.act", "l1.mlp", "l0.mlp", "l1.out", "final_norm"})
      EXPECT_THAT(resultType(m, site), testing::EndsWith(type)) << site;
    for (const char *site : {"l0.gate", "l1.up", "l1.down", "l1.shared.down", "l1.router", "logits", "mtp_logits"})
      EXPECT_THAT(resultType(m, site), testing::EndsWith("xf32>")) << site;
    EXPECT_THAT(m.weight("l1.gate"), HasSubstr(bf16 ? "x256xbf16, #dsv3.blocked" : "x256xf32, #dsv3.blocked"));
    EXPECT_THAT(m.weight("lm_head"), HasSubstr("x256xbf16>")) << "stored so";
  }
}

static std::string symbolType(Imported &m, const char *symbol) {
  std::string text = m.weight(symbol);
  return text.substr(0, text.find(" from"));
}

TEST(Import, PlainWeightsOfEveryStorageType) {
  struct Case {
    DType stored, compute;
    const char *matrix, *norm;
  } cases[] = {{DType::F32, DType::BF16, "bf16", "f32"},  {DType::F32, DType::F32, "f32", "f32"},
               {DType::F16, DType::BF16, "bf16", "f32"},  {DType::F16, DType::F32, "f32", "f32"},
               {DType::BF16, DType::BF16, "bf16", "bf16"}, {DType::BF16, DType::F32, "bf16", "bf16"}};
  Json config = test::smallConfig();
  config.erase("quantization_config");
  for (const Case &c : cases) {
    TempDir dir;
    test::smallCheckpoint(/*fp8=*/false, c.stored).write(dir, config);
    Imported m(dir.str(), c.compute);
    ASSERT_TRUE(bool(m));
    m.expectCompleteLedger();
    SCOPED_TRACE(std::string(safetensorsName(c.stored)) + " computed in " + std::string(safetensorsName(c.compute)));
    EXPECT_EQ(symbolType(m, "l1.kv_b"), "@l1.kv_b : tensor<66x24x" + std::string(c.matrix) + ">");
    EXPECT_EQ(symbolType(m, "l1.up"), "@l1.up : tensor<6x20x48x" + std::string(c.matrix) + ">");
    EXPECT_EQ(symbolType(m, "embed"), "@embed : tensor<70x48x" + std::string(c.matrix) + ">");
    for (const char *gamma : {"l1.input_norm", "l1.kv_a_norm", "final_norm", "l3.enorm", "l3.head_norm"})
      EXPECT_THAT(symbolType(m, gamma), testing::EndsWith("x" + std::string(c.norm) + ">")) << gamma;
    EXPECT_EQ(symbolType(m, "l1.router"), "@l1.router : tensor<6x48x" + std::string(c.norm) + ">");
    EXPECT_EQ(symbolType(m, "l1.router_bias"), "@l1.router_bias : tensor<6xf32>");
  }
}

/// The norms inside attention do not follow rms_norm_eps.
TEST(Import, EpsOfTheInnerNormsIsFixed) {
  TempDir dir;
  Json config = test::smallConfig();
  config["rms_norm_eps"] = 1e-5;
  test::smallCheckpoint().write(dir, config);
  Imported m(dir.str());
  ASSERT_TRUE(bool(m));
  auto eps = [&](const char *site) { return llvm::cast<ir::RmsNormOp>(m.at(site)).getEps().convertToDouble(); };
  for (const char *site : {"l1.input_norm", "l1.post_norm", "final_norm", "l3.enorm", "l3.hnorm", "l3.shared_head_norm"})
    EXPECT_EQ(eps(site), 1e-5) << site;
  for (const char *site : {"l1.q_a_norm", "l1.kv_a_norm", "l3.q_a_norm"})
    EXPECT_EQ(eps(site), 1e-6) << site;
}

/// An embedding and head of the MTP module's own are used when they are no copies.
TEST(Import, MtpTablesOfItsOwn) {
  TempDir dir;
  test::TestCheckpoint content = test::smallCheckpoint();
  content.set("model.layers.3.embed_tokens.weight", 5, -1.0f);
  content.set("model.layers.3.shared_head.head.weight", 5, -1.0f);
  content.add("model.layers.0.self_attn.rotary_emb.inv_freq", DType::F32, {4});
  content.write(dir, test::smallConfig());
  Imported m(dir.str());
  ASSERT_TRUE(bool(m));
  m.expectCompleteLedger();
  m.expectUniqueSites();
  auto weightOf = [&](const char *site) { return m.at(site)->getOperand(1).getDefiningOp<ir::UseOp>().getWeight().str(); };
  EXPECT_EQ(weightOf("l3.embed"), "l3.embed");
  EXPECT_EQ(weightOf("mtp_logits"), "l3.head");
  EXPECT_EQ(weightOf("logits"), "lm_head");
  EXPECT_THAT(m.ignored(), ElementsAre(Pair("model.layers.0.self_attn.rotary_emb.inv_freq", "rotary_inv_freq")));
}

TEST(Import, LaterMtpModulesAreIgnoredWithAWarning) {
  TempDir dir;
  Json config = test::smallConfig();
  config["num_nextn_predict_layers"] = 2;
  test::TestCheckpoint content = test::smallCheckpoint();
  std::map<std::string, test::TestTensor> second;
  for (const auto &[name, tensor] : content.tensors)
    if (name.rfind("model.layers.3.", 0) == 0)
      second["model.layers.4." + name.substr(15)] = tensor;
  content.tensors.insert(second.begin(), second.end());
  content.write(dir, config);

  auto model = hf::readModel(dir.str());
  ASSERT_TRUE(bool(model)) << model.error().message;
  ASSERT_EQ(model->tensors.mtpModules, 2);
  mlir::MLIRContext context;
  std::string warning;
  mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &d) { warning += d.str(); });
  auto direct = importModel(context, *model);
  ASSERT_TRUE(bool(direct)) << direct.error().message;
  EXPECT_EQ(warning, "the checkpoint has 2 MTP modules, only the first is used");

  Imported m(dir.str());
  ASSERT_TRUE(bool(m));
  m.expectCompleteLedger();
  m.expectUniqueSites();
  EXPECT_EQ(m.counts()["dsv3.kv_append"], 4);
  EXPECT_EQ(m.ignored()["model.layers.4.eh_proj.weight"], "later_mtp_module");
  EXPECT_EQ(m.ignored()["model.layers.4.mlp.experts.5.up_proj.weight_scale_inv"], "later_mtp_module");
  EXPECT_EQ(m.ignored()["model.layers.4.embed_tokens.weight"], "copy_of model.embed_tokens.weight");
}

TEST(Import, OtherComputeTypesAreRefused) {
  auto model = hf::readModel(tiny());
  ASSERT_TRUE(bool(model));
  mlir::MLIRContext context;
  auto result = importModel(context, *model, {DType::F16});
  ASSERT_FALSE(bool(result));
  EXPECT_EQ(result.error().code, ExitCode::Usage);
  EXPECT_EQ(result.error().message, "expected compute type F32 or BF16, got F16");
}
