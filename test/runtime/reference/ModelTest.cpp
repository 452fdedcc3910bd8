// The reference model on the example checkpoint against HuggingFace transformers.
#include "runtime/reference/Model.h"
#include "Checkpoint.h"
#include "Util.h"
#include "runtime/reference/Linear.h"

#include <cstdio>
#include <map>

using namespace dsv3;
using namespace dsv3::reference;

namespace {

const std::string root = DSV3_SOURCE_DIR;

ModelConfig tinyConfig() {
  ModelConfig c;
  c.hidden = 256;
  c.vocab = 3584;
  c.layers = 6;
  c.firstDense = 1;
  c.mtpLayers = 1;
  c.qRank = 256;
  c.mla = {4, 128, 64, 128, 512};
  c.experts = 16;
  c.route = {4, 2, 4, true, 2.5};
  c.rope.yarn = true;
  c.rope.factor = 40;
  c.rope.mscale = c.rope.mscaleAllDim = 1;
  return c;
}

template <typename T> const Model<T> &tiny() {
  static const Model<T> model = [] {
    Checkpoint files({root + "/examples/dsv3-tiny/model-00001-of-000002.safetensors",
                      root + "/examples/dsv3-tiny/model-00002-of-000002.safetensors"});
    return ok(Model<T>::create(tinyConfig(),
                               [&](const std::string &name) { return files.weight<T>(name); }));
  }();
  return model;
}

const Checkpoint &goldens() {
  static const Checkpoint files({root + "/test/goldens/goldens_fp8.safetensors"});
  return files;
}

Ids ids(const std::string &name) { return goldens().ids(name); }

SeqMeta prefill(int64_t tokens) {
  SeqMeta seq;
  std::vector<int32_t> pages((tokens + kPageTokens - 1) / kPageTokens);
  std::iota(pages.begin(), pages.end(), 0);
  seq.addSequence(0, tokens, pages);
  return seq;
}

/// max|got - ref| / max|ref|.
template <typename T> double relative(const Array<T> &got, const std::string &golden) {
  Array<T> ref = ok(goldens().plain<T>(golden));
  double top = 0;
  for (T v : ref.data)
    top = std::max(top, std::fabs(double(v)));
  return maxDifference(got, ref) / top;
}

/// Router choices are sets: sorts each row's ids, and the weights with them.
template <typename T> void sortChoices(Array<T> &chosen, Array<T> &weights) {
  for (int64_t r = 0; r < chosen.rows(); ++r) {
    std::map<T, T> byId;
    for (int64_t k = 0; k < chosen.cols(); ++k)
      byId[chosen.row(r)[k]] = weights.row(r)[k];
    int64_t k = 0;
    for (auto [id, weight] : byId) {
      chosen.row(r)[k] = id;
      weights.row(r)[k++] = weight;
    }
  }
}

template <typename T> void expectSameChoices(std::map<std::string, Array<T>> &states) {
  for (int layer = 1; layer < 6; ++layer) {
    std::string prefix = "layers." + std::to_string(layer) + ".";
    auto &chosen = states.at(prefix + "topk_ids"), &weights = states.at(prefix + "topk_weights");
    sortChoices(chosen, weights);
    Ids golden = ids("arith." + prefix + "topk_ids");
    Array<T> want(golden.shape, std::vector<T>(golden.data.begin(), golden.data.end()));
    Array<T> wantWeights = ok(goldens().plain<T>("arith." + prefix + "topk_weights"));
    sortChoices(want, wantWeights);
    EXPECT_EQ(chosen.data, want.data) << prefix;
    EXPECT_LT(maxDifference(weights, wantWeights), 5e-6) << prefix;
  }
}

template <typename T> class TinyModel : public testing::Test {};
using Arithmetic = testing::Types<float, double>;
TYPED_TEST_SUITE(TinyModel, Arithmetic);

TYPED_TEST(TinyModel, StatesOfArithMatchTransformers) {
  using T = TypeParam;
  std::map<std::string, Array<T>> states;
  Ids prompt = ids("arith.input_ids");
  Cache<T> cache = tiny<T>().makeCache(1);
  Array<T> x = ok(tiny<T>().forward(prompt, prefill(prompt.size()), cache, AttentionForm::Mha,
                                    [&](const std::string &name, const Array<T> &v) {
                                      states[name] = v;
                                    }));
  EXPECT_EQ(states.size(), 2u + 6 * 7 + 5 * 3);
  expectSameChoices(states);
  double worst = 0;
  for (auto &[name, value] : states) {
    if (name.find("topk") != std::string::npos)
      continue;
    double error = relative(value, "arith." + name);
    worst = std::max(worst, error);
    EXPECT_LT(error, 2e-6) << name;
  }
  Array<T> logits = ok(tiny<T>().logits(x));
  double logitError = maxDifference(logits, ok(goldens().plain<T>("arith.logits")));
  EXPECT_LT(logitError, 2e-4);
  std::printf("worst state %.2e of max|ref|, logits %.2e (%s)\n", worst, logitError,
              sizeof(T) == 4 ? "float" : "double");
}

TYPED_TEST(TinyModel, MtpMatchesTransformers) {
  using T = TypeParam;
  Ids all = ids("mtp.input_ids");
  int64_t n = all.size() - 1;
  Cache<T> cache = tiny<T>().makeCache(2);
  Array<T> main = ok(tiny<T>().forward(all, prefill(n + 1), cache, AttentionForm::Mha));
  EXPECT_LT(relative(main, "mtp.main_hidden"), 2e-6);
  Ids next({n}, std::vector<int32_t>(all.data.begin() + 1, all.data.end()));
  Array<T> hidden({n, main.cols()}, std::vector<T>(main.data.begin(), main.data.end() - main.cols()));
  Array<T> x = ok(tiny<T>().mtp(next, hidden, prefill(n), cache, AttentionForm::Mha));
  EXPECT_LT(relative(x, "mtp.layer_out"), 2e-6);
  Array<T> logits = ok(tiny<T>().mtpLogits(x));
  double error = maxDifference(logits, ok(goldens().plain<T>("mtp.logits")));
  EXPECT_LT(error, 2e-4);
  std::printf("mtp logits %.2e\n", error);
}

TYPED_TEST(TinyModel, GreedyTextMatchesTransformers) {
  for (const char *prompt : {"arith", "story"}) {
    Ids input = ids(std::string(prompt) + ".input_ids"), want = ids(std::string(prompt) + ".greedy_ids");
    int64_t count = sizeof(TypeParam) == 4 ? want.size() : 8; // double is slower and no surer
    want.data.resize(count);
    EXPECT_EQ(ok(tiny<TypeParam>().generate(input.data, count)), want.data) << prompt;
  }
}

TEST(Model, AbsorbedFormEqualsMhaForm) {
  Ids prompt = ids("short.input_ids");
  Cache<double> a = tiny<double>().makeCache(1), b = tiny<double>().makeCache(1);
  auto mha = ok(tiny<double>().forward(prompt, prefill(prompt.size()), a, AttentionForm::Mha));
  auto absorbed =
      ok(tiny<double>().forward(prompt, prefill(prompt.size()), b, AttentionForm::Absorbed));
  EXPECT_LT(maxDifference(mha, absorbed), 1e-12);
}

TEST(Model, ChunksAndNeighboursChangeNoBit) {
  Ids prompt = ids("story.input_ids"), other = ids("short.input_ids");
  const Model<float> &model = tiny<float>();
  Cache<float> alone = model.makeCache(1), shared = model.makeCache(2);
  auto whole = ok(model.forward(prompt, prefill(prompt.size()), alone, AttentionForm::Mha));
  // First 7 tokens beside another request, then the rest with a padded row.
  SeqMeta first;
  first.addSequence(0, other.size(), {0});
  first.addSequence(0, 7, {1});
  Ids step({other.size() + 7}, other.data);
  step.data.insert(step.data.end(), prompt.data.begin(), prompt.data.begin() + 7);
  auto head = ok(model.forward(step, first, shared, AttentionForm::Mha));
  SeqMeta second;
  second.addSequence(7, prompt.size() - 7, {1});
  second.tokenSeq.push_back(-1);
  second.tokenPos.push_back(-1);
  Ids rest({prompt.size() - 6}, std::vector<int32_t>(prompt.data.begin() + 7, prompt.data.end()));
  rest.data.push_back(0);
  auto tail = ok(model.forward(rest, second, shared, AttentionForm::Mha));
  std::vector<float> joined(head.row(other.size()), head.row(other.size()) + 7 * head.cols());
  joined.insert(joined.end(), tail.data.begin(), tail.data.end() - tail.cols());
  EXPECT_EQ(joined, whole.data);
}

TEST(Model, Bfloat16IsNearAndRounded) {
  Checkpoint files({root + "/examples/dsv3-tiny/model-00001-of-000002.safetensors",
                    root + "/examples/dsv3-tiny/model-00002-of-000002.safetensors"});
  auto model = ok(Model<float>::create(
      tinyConfig(), [&](const std::string &name) { return files.weight<float>(name); },
      {Rounding::BF16, {Rounding::BF16, {}}}));
  Ids prompt = ids("short.input_ids");
  Cache<float> cache = model.makeCache(1);
  auto x = ok(model.forward(prompt, prefill(prompt.size()), cache, AttentionForm::Mha));
  EXPECT_EQ(x.data, roundTo(Rounding::BF16, Array<float>(x)).data);
  auto last = ok(model.logits(ok(selectRows(x, Ids({1}, {int32_t(prompt.size() - 1)})))));
  last.shape = {3584};
  EXPECT_LT(relative(last, "short.last_logits"), 5e-2);
  EXPECT_GT(relative(last, "short.last_logits"), 1e-4);
}

TEST(Model, NamesAMisshapenWeight) {
  ModelConfig c = tinyConfig();
  c.vocab = 3585;
  Checkpoint files({root + "/examples/dsv3-tiny/model-00001-of-000002.safetensors"});
  auto model =
      Model<float>::create(c, [&](const std::string &name) { return files.weight<float>(name); });
  EXPECT_EQ(errorOf(model), "model: expected model.embed_tokens.weight of shape [3585, 256], got "
                            "[3584, 256]");
}

} // namespace
