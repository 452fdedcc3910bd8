#include "frontends/quantize/Algorithm.h"
#include "frontends/quantize/Policy.h"

#include <gmock/gmock.h>

using namespace dsv3;
using quantize::Activation;
using quantize::Component;
using quantize::Decision;
using quantize::Linear;
using quantize::Policy;
using quantize::Scheme;
using testing::HasSubstr;

namespace {

const Scheme fp8{quantize::Code::F8E4M3, 128, 128};

/// A linear of layer 3 (dense: 0) as a release stores it, FP8 blocks.
Linear linear(const std::string &site, std::vector<std::string> modules, std::optional<Scheme> stored = fp8, int64_t rank = 2) {
  auto place = Linear::place(site, rank);
  EXPECT_TRUE(place) << site;
  return {place->first, place->second, site, std::move(modules), stored, stored ? stored->bits() : 0};
}

Linear oA() { return linear("l3.o", {"model.layers.3.self_attn.o_proj"}); }
Linear qA() { return linear("l3.q_a", {"model.layers.3.self_attn.q_a_proj"}); }
Linear kvB() { return linear("l3.kv_b", {"model.layers.3.self_attn.kv_b_proj"}); }
Linear denseGate() { return linear("l0.gate", {"model.layers.0.mlp.gate_proj"}); }
Linear experts(const std::string &part) {
  std::vector<std::string> modules;
  for (int i = 0; i < 4; ++i)
    modules.push_back("model.layers.3.mlp.experts." + std::to_string(i) + "." + part + "_proj");
  return linear("l3." + part, std::move(modules), fp8, 3);
}

std::string text(const Result<Decision> &d) {
  if (!d)
    return "error: " + d.error().message;
  std::string out = d->weight ? d->weight->text() : "stored";
  if (d->activation.rule == Activation::Rule::Asked)
    return out + ", as asked";
  return out + (d->activation.rule == Activation::Rule::Plain ? "" : ", " + d->activation.scheme.text());
}

std::string builtIn(const char *policy, const Linear &l) {
  Result<Policy> p = Policy::builtIn(policy);
  return p ? text(p->decide(l)) : p.error().message;
}

Policy parsed(const char *json) {
  Result<Json> tree = parseJson(json, "q.json");
  EXPECT_TRUE(bool(tree));
  Result<Policy> policy = Policy::parse(*tree, "q.json");
  EXPECT_TRUE(bool(policy)) << (policy ? "" : policy.error().message);
  return policy ? std::move(*policy) : Policy();
}

std::string refused(const char *json) {
  Result<Policy> policy = Policy::parse(*parseJson(json, "q.json"), "q.json");
  EXPECT_FALSE(policy);
  return policy ? "" : policy.error().message;
}

} // namespace

TEST(Policy, Places) {
  EXPECT_EQ(quantize::name(linear("l3.shared.down", {}).component), "shared_experts");
  EXPECT_EQ(linear("l3.shared.down", {}).part, "down");
  EXPECT_EQ(quantize::name(experts("up").component), "routed_experts");
  EXPECT_EQ(quantize::name(denseGate().component), "dense_ffn");
  EXPECT_EQ(quantize::name(linear("l61.eh_proj", {}).component), "mtp_projection");
  EXPECT_EQ(quantize::name(linear("l61.head", {}).component), "lm_head");
  EXPECT_FALSE(Linear::place("l3.q_a_norm", 1));
  EXPECT_FALSE(Linear::place("rope_table", 2));
}

TEST(Policy, BuiltIn) {
  EXPECT_EQ(builtIn("none", oA()), "stored");
  EXPECT_EQ(builtIn("checkpoint", oA()), "stored, as asked");
  EXPECT_EQ(builtIn("fp8-block", oA()), "stored, fp8 in groups of 128");
  EXPECT_EQ(builtIn("fp8-block", linear("l3.o", {}, std::nullopt)), "fp8 in blocks of 128x128, fp8 in groups of 128") << "plain in the checkpoint";
  EXPECT_EQ(builtIn("w8a8", oA()), "int8 per channel, int8 per channel");
  EXPECT_EQ(builtIn("w8a8", experts("up")), "int8 per channel, int8 per channel");
  EXPECT_EQ(builtIn("w4a16", oA()), "int4 in groups of 128");
  EXPECT_EQ(builtIn("w4a8-experts", experts("up")), "int4 in groups of 128, int8 per channel");
  EXPECT_EQ(builtIn("w4a8-experts", experts("down")), "int4 in groups of 128, int8 in groups of 128");
  EXPECT_EQ(builtIn("w4a8-experts", linear("l3.shared.down", {})), "int8 per channel, int8 per channel");
  for (const char *policy : {"w8a8", "w4a16", "w4a8-experts", "fp8-block"}) {
    EXPECT_EQ(builtIn(policy, kvB()), "stored");
    for (const char *site : {"embed", "lm_head", "l3.router", "l61.eh_proj", "l61.head"})
      EXPECT_EQ(builtIn(policy, linear(site, {}, std::nullopt)), "stored") << policy << " " << site;
  }
  EXPECT_THAT(builtIn("w4a4", oA()), HasSubstr("expected one of none, checkpoint, fp8-block, w8a8, w4a16, w4a8-experts, got 'w4a4'"));
}

TEST(Policy, NeverWidens) {
  Linear int4 = linear("l3.up", {}, Scheme{quantize::Code::I4, 1, 64}, 3);
  EXPECT_EQ(builtIn("w8a8", int4), "stored, int8 per channel");
  EXPECT_EQ(builtIn("w4a8-experts", int4), "stored, int8 per channel") << "groups of 64 are not rounded again to groups of 128";
  Linear awq = int4;
  awq.stored.reset(); // zero points
  EXPECT_EQ(builtIn("w4a16", awq), "stored");
}

TEST(Policy, File) {
  Policy p = parsed(R"({
    "policy": "w8a8",
    "config_groups": {
      "experts": {"targets": ["routed_experts"], "weights": {"num_bits": 4, "group_size": 128, "scale_dtype": "bf16"}, "input_activations": {"num_bits": 8}},
      "down": {"targets": ["routed_experts.down"], "weights": {"num_bits": 8}},
      "attention": {"targets": ["re:.*self_attn\\.o_proj", "re:.*fused_qkv_a_proj"], "weights": {"num_bits": 4}},
      "one": {"targets": ["model.layers.0.mlp.gate_up_proj"], "weights": {"num_bits": 8, "type": "float", "block_structure": [128, 128]}}
    },
    "ignore": ["re:.*layers\\.61\\..*"]
  })");
  EXPECT_EQ(text(p.decide(experts("up"))), "int4 in groups of 128, int8 per channel");
  EXPECT_EQ(p.decide(experts("up"))->weight->scaleType, DType::BF16);
  EXPECT_EQ(p.decide(experts("up"))->by, "q.json: config_groups.experts");
  EXPECT_EQ(text(p.decide(experts("down"))), "int8 per channel") << "a part goes before its component";
  EXPECT_EQ(text(p.decide(oA())), "int4 per channel");
  EXPECT_EQ(text(p.decide(qA())), "int4 per channel") << "named by its fusion";
  EXPECT_EQ(text(p.decide(denseGate())), "fp8 in blocks of 128x128") << "a fused name";
  EXPECT_EQ(text(p.decide(linear("l3.q_b", {"model.layers.3.self_attn.q_b_proj"}))), "int8 per channel, int8 per channel") << "the policy it starts from";
  Status missing = p.verifyAllMatched();
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().message, "q.json: ignore: \"re:.*layers\\.61\\..*\" matches no linear of the model");
  EXPECT_EQ(missing.error().code, ExitCode::Usage);
  EXPECT_EQ(text(p.decide(linear("l61.o", {"model.layers.61.self_attn.o_proj"}))), "stored") << "the MTP layer is ignored";
  EXPECT_TRUE(bool(p.verifyAllMatched()));
}

TEST(Policy, RefusesInOneLine) {
  EXPECT_EQ(refused(R"({"groups": {}})"), "q.json: expected fields out of policy, config_groups, ignore, got \"groups\"");
  EXPECT_EQ(refused(R"({"policy": "w2"})"), "q.json: policy: expected one of none, checkpoint, fp8-block, w8a8, w4a16, w4a8-experts, got \"w2\"");
  EXPECT_EQ(refused(R"({"config_groups": {"a": {"weights": {"num_bits": 8}}}})"), "q.json: config_groups.a.targets: expected components or patterns of module names");
  EXPECT_EQ(refused(R"({"config_groups": {"a": {"targets": ["o"], "weights": {"num_bits": 3}}}})"), "q.json: config_groups.a.weights.num_bits: expected 4 or 8, got 3");
  EXPECT_EQ(refused(R"({"config_groups": {"a": {"targets": ["o"], "weights": {"num_bits": 4, "type": "float"}}}})"), "q.json: config_groups.a.weights.num_bits: expected 8, got 4");
  EXPECT_EQ(refused(R"({"config_groups": {"a": {"targets": ["o"], "input_activations": {"num_bits": 8, "group_size": 64}}}})"),
            "q.json: config_groups.a.input_activations.group_size: expected 128, or -1 for a scale per token, got 64");
  EXPECT_THAT(refused(R"({"config_groups": {"a": {"targets": ["re:("], "weights": {"num_bits": 8}}}})"), HasSubstr("q.json: config_groups.a.targets: expected a regular expression, got \"re:(\""));
  EXPECT_THAT(refused(R"({"config_groups": {"a": {"targets": ["o"], "weigths": {"num_bits": 8}}}})"), HasSubstr("q.json: config_groups.a: expected fields out of targets, weights, input_activations, got \"weigths\""));

  Policy some = parsed(R"({"config_groups": {"a": {"targets": ["re:.*experts\\.3\\..*"], "weights": {"num_bits": 4}}}})");
  EXPECT_EQ(text(some.decide(experts("up"))), "error: q.json: config_groups.a.targets: \"re:.*experts\\.3\\..*\" matches 1 of the 4 experts of l3.up, "
                                              "which have one scheme: expected all or none");
  Policy halves = parsed(R"({"config_groups": {"a": {"targets": ["kv_b"], "weights": {"num_bits": 8}}}})");
  EXPECT_EQ(text(halves.decide(kvB())), "error: q.json: config_groups.a: expected l3.kv_b (kv_b) to be left as it is stored, with plain activations: decode multiplies with its halves");
}

TEST(Algorithm, NamesAndClips) {
  EXPECT_EQ(*quantize::parseAlgorithm("mse"), quantize::Algorithm::Mse);
  EXPECT_THAT(quantize::parseAlgorithm("best").error().message, HasSubstr("--quant-algo: expected one of default, rtn, mse"));
  EXPECT_EQ(quantize::clipOf(quantize::Algorithm::Default, quantize::Code::I4), quantize::Clip::Mse);
  EXPECT_EQ(quantize::clipOf(quantize::Algorithm::Default, quantize::Code::I8), quantize::Clip::Absmax);
  EXPECT_EQ(quantize::clipOf(quantize::Algorithm::Rtn, quantize::Code::I4), quantize::Clip::Absmax);
}
