// The reference model on random checkpoints of odd shapes against HuggingFace
// transformers: no q_lora, half-split RoPE, plain RoPE, YaRN with unequal mscale,
// eps 1e-3, tied head, two shared experts, dense first layers or none.
#include "Checkpoint.h"
#include "Util.h"
#include "runtime/core/Json.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Model.h"

#include <cstdlib>
#include <memory>

#include <unistd.h>

using namespace dsv3;
using namespace dsv3::reference;

namespace {

const std::string root = DSV3_SOURCE_DIR;

RopeParams ropeOf(const Json &c) {
  RopeParams p;
  p.dims = c.at("qk_rope_head_dim");
  p.theta = c.at("rope_theta");
  p.interleaved = c.at("rope_interleave");
  const Json &yarn = c.at("rope_scaling");
  p.yarn = !yarn.is_null();
  if (p.yarn) {
    p.factor = yarn.at("factor");
    p.original = yarn.at("original_max_position_embeddings");
    p.betaFast = yarn.at("beta_fast");
    p.betaSlow = yarn.at("beta_slow");
    p.mscale = yarn.at("mscale");
    p.mscaleAllDim = yarn.at("mscale_all_dim");
  }
  return p;
}

ModelConfig configOf(const Json &c) {
  ModelConfig m;
  m.hidden = c.at("hidden_size");
  m.vocab = c.at("vocab_size");
  m.layers = c.at("num_hidden_layers");
  m.firstDense = c.at("first_k_dense_replace");
  m.mtpLayers = c.at("num_nextn_predict_layers");
  m.qRank = c.at("q_lora_rank").is_null() ? 0 : int64_t(c.at("q_lora_rank"));
  m.mla = {c.at("num_attention_heads"), c.at("qk_nope_head_dim"), c.at("qk_rope_head_dim"),
           c.at("v_head_dim"), c.at("kv_lora_rank")};
  m.experts = c.at("n_routed_experts");
  m.sharedExperts = c.at("n_shared_experts");
  m.route = {c.at("n_group"), c.at("topk_group"), c.at("num_experts_per_tok"),
             c.at("norm_topk_prob"), c.at("routed_scaling_factor")};
  m.eps = c.at("rms_norm_eps");
  m.rope = ropeOf(c);
  return m;
}

struct Case {
  const char *name;
  int seed; ///< of the golden's checkpoint
};

class OddShapes : public testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    std::string name = GetParam().name;
    std::string config = root + "/test/e2e/configs/" + name + ".json";
    // One folder per process: two builds may run their tests at once.
    folder = testing::TempDir() + "dsv3-odd-" + name + "-" + std::to_string(getpid());
    std::string command = std::string(DSV3_PYTHON) + " '" + root + "/test/e2e/make_checkpoint.py' '" +
                          config + "' '" + folder + "' --fill random --shards 2 --gain 1.5 --seed " +
                          std::to_string(GetParam().seed) + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    goldens = std::make_unique<Checkpoint>(
        std::vector<std::string>{root + "/test/goldens/odd/" + name + ".safetensors"});
    Checkpoint weights = Checkpoint::folder(folder);
    auto source = [&](const std::string &tensor) {
      bool tied = tensor == "lm_head.weight" && !weights.has(tensor);
      return weights.weight<float>(tied ? "model.embed_tokens.weight" : tensor);
    };
    model = ok(Model<float>::create(configOf(ok(parseJsonFile(config))), source));
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  static SeqMeta prefill(int64_t tokens) {
    SeqMeta seq;
    seq.addSequence(0, tokens, {2, 0, 1}); // pages need not ascend
    return seq;
  }

  /// Compares with a golden of any shape, by absolute difference.
  void expectNear(const Array<float> &got, const std::string &golden, double tolerance) {
    Array<float> want = ok(goldens->plain<float>(golden));
    ASSERT_EQ(got.size(), want.size()) << golden;
    double worst = 0, top = 0;
    for (int64_t i = 0; i < got.size(); ++i) {
      worst = std::max(worst, std::fabs(double(got.data[i]) - want.data[i]));
      top = std::max(top, std::fabs(double(want.data[i])));
    }
    EXPECT_LT(worst, tolerance) << golden << ", max|ref| " << top;
  }

  Array<float> lastRow(const Array<float> &x) {
    return ok(selectRows(x, Ids({1}, {int32_t(x.dim(0) - 1)})));
  }

  std::string folder;
  std::unique_ptr<Checkpoint> goldens;
  Model<float> model;
};

/// Each row's expert ids as a sorted list: their order has no meaning there.
std::vector<int32_t> sortedRows(std::vector<int32_t> ids, int64_t width) {
  for (auto row = ids.begin(); row != ids.end(); row += width)
    std::sort(row, row + width);
  return ids;
}

TEST_P(OddShapes, MatchesTransformers) {
  for (int length : {1, 7, 65, 130}) {
    std::string p = "p" + std::to_string(length) + ".";
    Ids prompt = goldens->ids(p + "input_ids");
    Cache<float> cache = model.makeCache(3);
    Array<float> x = ok(model.forward(
        prompt, prefill(prompt.size()), cache, AttentionForm::Mha,
        [&](const std::string &name, const Array<float> &v) {
          if (name.find("topk_ids") != std::string::npos) {
            Ids want = goldens->ids(p + name);
            EXPECT_EQ(sortedRows(std::vector<int32_t>(v.data.begin(), v.data.end()), v.cols()),
                      sortedRows(want.data, v.cols()))
                << p << name;
          } else if (length == 7 && (name == "embed" || name.find(".out") != std::string::npos)) {
            expectNear(v, p + name, 1e-4);
          }
        }));
    expectNear(ok(model.logits(lastRow(x))), p + "last_logits", 2e-4);
    if (length == 7)
      expectNear(ok(model.logits(x)), p + "logits", 2e-4);
    if (length == 65)
      EXPECT_EQ(ok(model.generate(prompt.data, 16)), goldens->ids(p + "greedy_ids").data);
    if (length == 130 && model.config().mtpLayers) {
      int64_t n = prompt.size() - 1;
      Ids next({n}, std::vector<int32_t>(prompt.data.begin() + 1, prompt.data.end()));
      Array<float> main({n, x.cols()}, std::vector<float>(x.data.begin(), x.data.end() - x.cols()));
      Array<float> ahead = ok(model.mtp(next, main, prefill(n), cache, AttentionForm::Mha));
      expectNear(ok(model.mtpLogits(lastRow(ahead))), "mtp.last_logits", 2e-4);
    }
  }
}

// The seeds are those of test/e2e/odd_configs.py.
INSTANTIATE_TEST_SUITE_P(Configs, OddShapes,
                         testing::Values(Case{"moe-first", 1}, Case{"dense3-mtp-ue8m0", 2},
                                         Case{"bf16-tied-halves", 3}, Case{"bf16-mtp-plain", 4},
                                         Case{"fp8-halves-mtp", 6}, Case{"fp8-edges-yarn", 7}),
                         [](const auto &info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

} // namespace
