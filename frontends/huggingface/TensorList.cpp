#include "frontends/huggingface/TensorList.h"

namespace dsv3::hf {

static Dim field(const char *name, int64_t value) {
  return {value, std::string(name) + " " + std::to_string(value)};
}

static std::string bracketed(const Dim &d) {
  return d.formula.find(" + ") == std::string::npos ? d.formula : "(" + d.formula + ")";
}

static Dim operator+(const Dim &a, const Dim &b) {
  return {a.value + b.value, a.formula + " + " + b.formula};
}

static Dim operator*(const Dim &a, const Dim &b) {
  return {a.value * b.value, bracketed(a) + " x " + bracketed(b)};
}

namespace {

/// Collects the weights of one part of the model.
class Builder {
public:
  explicit Builder(const ModelConfig &config)
      : config(config), hidden(field("hidden_size", config.hidden)),
        vocab(field("vocab_size", config.vocab)), heads(field("num_attention_heads", config.heads)),
        nope(field("qk_nope_head_dim", config.nopeDim)),
        rope(field("qk_rope_head_dim", config.ropeDim)), v(field("v_head_dim", config.valueDim)),
        kvRank(field("kv_lora_rank", config.kvLoraRank)) {}

  /// A norm, table or bias at the top of the model.
  void plain(const char *site, Role role, const std::string &tensor, std::vector<Dim> dims) {
    add(site, role, -1, tensor, std::move(dims), false);
  }

  void decoderLayer(int64_t layer, bool moe) {
    at(layer);
    layerPlain("input_norm", Role::InputNorm, "input_layernorm.weight", {hidden});
    attention();
    layerPlain("post_norm", Role::PostNorm, "post_attention_layernorm.weight", {hidden});
    if (moe)
      experts();
    else
      ffn("", {Role::Gate, Role::Up, Role::Down}, "mlp.",
          field("intermediate_size", config.intermediate));
  }

  void mtpModule(int64_t layer) {
    at(layer);
    layerPlain("embed", Role::MtpEmbedding, "embed_tokens.weight", {vocab, hidden});
    layerPlain("enorm", Role::MtpEmbedNorm, "enorm.weight", {hidden});
    layerPlain("hnorm", Role::MtpHiddenNorm, "hnorm.weight", {hidden});
    layerPlain("eh_proj", Role::MtpProjection, "eh_proj.weight", {hidden, Dim{2, "2"} * hidden});
    decoderLayer(layer, true);
    layerPlain("head_norm", Role::MtpHeadNorm, "shared_head.norm.weight", {hidden});
    layerPlain("head", Role::MtpHead, "shared_head.head.weight", {vocab, hidden});
  }

  std::vector<WeightSpec> take() { return std::move(specs); }

  const ModelConfig &config;
  const Dim hidden, vocab, heads, nope, rope, v, kvRank;

private:
  struct FfnRoles {
    Role gate, up, down;
  };

  void at(int64_t index) {
    layer = index;
    site = "l" + std::to_string(index) + ".";
    folder = "model.layers." + std::to_string(index) + ".";
  }

  void add(const std::string &name, Role role, int64_t atLayer, const std::string &tensor,
           std::vector<Dim> dims, bool quantisable) {
    WeightSpec spec;
    spec.site = name;
    spec.role = role;
    spec.layer = atLayer;
    spec.prefix = tensor;
    spec.dims = std::move(dims);
    spec.quantisable = quantisable;
    specs.push_back(std::move(spec));
  }

  void layerPlain(const char *name, Role role, const char *tensor, std::vector<Dim> dims) {
    add(site + name, role, layer, folder + tensor, std::move(dims), false);
  }

  void linear(const std::string &name, Role role, const std::string &module, const Dim &rows,
              const Dim &columns) {
    add(site + name, role, layer, folder + module + ".weight", {rows, columns}, true);
  }

  void attention() {
    if (config.qLoraRank) {
      Dim qRank = field("q_lora_rank", *config.qLoraRank);
      linear("q_a", Role::QA, "self_attn.q_a_proj", qRank, hidden);
      layerPlain("q_a_norm", Role::QANorm, "self_attn.q_a_layernorm.weight", {qRank});
      linear("q_b", Role::QB, "self_attn.q_b_proj", heads * (nope + rope), qRank);
    } else {
      linear("q", Role::Q, "self_attn.q_proj", heads * (nope + rope), hidden);
    }
    linear("kv_a", Role::KvA, "self_attn.kv_a_proj_with_mqa", kvRank + rope, hidden);
    layerPlain("kv_a_norm", Role::KvANorm, "self_attn.kv_a_layernorm.weight", {kvRank});
    linear("kv_b", Role::KvB, "self_attn.kv_b_proj", heads * (nope + v), kvRank);
    linear("o", Role::O, "self_attn.o_proj", hidden, heads * v);
  }

  void ffn(const std::string &name, FfnRoles roles, const std::string &module, const Dim &inner) {
    linear(name + "gate", roles.gate, module + "gate_proj", inner, hidden);
    linear(name + "up", roles.up, module + "up_proj", inner, hidden);
    linear(name + "down", roles.down, module + "down_proj", hidden, inner);
  }

  void experts() {
    const MoeConfig &moe = config.moe;
    Dim count = field("n_routed_experts", moe.experts);
    layerPlain("router", Role::Router, "mlp.gate.weight", {count, hidden});
    layerPlain("router_bias", Role::RouterBias, "mlp.gate.e_score_correction_bias", {count});

    size_t first = specs.size();
    Dim inner = field("moe_intermediate_size", moe.intermediate);
    ffn("", {Role::ExpertGate, Role::ExpertUp, Role::ExpertDown}, "", inner);
    for (size_t i = first; i < specs.size(); ++i) {
      specs[i].members = moe.experts;
      specs[i].suffix = "." + specs[i].prefix.substr(folder.size());
      specs[i].prefix = folder + "mlp.experts.";
    }
    if (moe.sharedExperts)
      ffn("shared.", {Role::SharedGate, Role::SharedUp, Role::SharedDown}, "mlp.shared_experts.",
          field("n_shared_experts", moe.sharedExperts) * inner);
  }

  std::vector<WeightSpec> specs;
  int64_t layer = -1;
  std::string site, folder;
};

} // namespace

std::vector<WeightSpec> mainWeights(const ModelConfig &config) {
  Builder b(config);
  b.plain("embed", Role::Embedding, "model.embed_tokens.weight", {b.vocab, b.hidden});
  for (int64_t i = 0; i < config.layers; ++i)
    b.decoderLayer(i, config.isMoe(i));
  b.plain("final_norm", Role::FinalNorm, "model.norm.weight", {b.hidden});
  if (!config.tieEmbeddings)
    b.plain("lm_head", Role::LmHead, "lm_head.weight", {b.vocab, b.hidden});
  return b.take();
}

std::vector<WeightSpec> mtpWeights(const ModelConfig &config, int64_t m) {
  Builder b(config);
  b.mtpModule(config.layers + m);
  return b.take();
}

} // namespace dsv3::hf
