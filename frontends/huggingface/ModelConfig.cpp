#include "frontends/huggingface/ModelConfig.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

namespace dsv3::hf {

// Bounds far above any model, so that products of sizes cannot overflow 64 bits.
static constexpr int64_t maxDim = int64_t(1) << 24;
static constexpr int64_t maxCount = 1 << 16;
static constexpr int64_t maxVocab = int64_t(1) << 28;
static constexpr int64_t maxPositions = int64_t(1) << 40;

bool ModelConfig::hasMoe() const {
  for (int64_t i = 0; i < layers; ++i)
    if (isMoe(i))
      return true;
  return mtpModules > 0;
}

double ModelConfig::softmaxScale() const {
  return rope.softmaxFactor() / std::sqrt(double(qkDim()));
}

Error notSupported(const JsonFields &fields, const char *key, const std::string &supported) {
  const Json *value = fields.find(key);
  return unsupportedError(fields.name(key) + " " + (value ? describe(*value) : "null") +
                          " is not supported, only " + supported);
}

namespace {

/// Fills one ModelConfig. The first error is kept and later reads do nothing, so that
/// the list of fields reads as a list.
class Parser {
public:
  Parser(const Json &json, const std::string &where) : json(json), where(where), fields(json, where) {}

  Result<ModelConfig> parse();

private:
  void identity();
  void sizes();
  void attention();
  void moe();
  void moeRules();
  void tokens();
  void rest();

  bool failed() const { return !status; }
  void fail(Error e) {
    if (status)
      status = std::move(e);
  }
  template <typename T, typename U> void take(Result<U> value, T &out) {
    if (!value)
      fail(value.error());
    else if (status)
      out = T(*value);
  }
  void size(const char *key, int64_t &out, int64_t low, int64_t high) {
    if (status)
      take(fields.integer(key, low, high), out);
  }
  /// A string that has one supported value; missing means that value.
  void only(const char *key, const char *supported) {
    std::string value = supported;
    if (status)
      take(fields.stringOr(key, supported), value);
    if (status && value != supported)
      fail(notSupported(fields, key, "\"" + std::string(supported) + "\""));
  }
  std::string is(const char *key, int64_t value) const {
    return fields.name(key) + " is " + std::to_string(value);
  }

  const Json &json;
  const std::string &where;
  JsonFields fields;
  ModelConfig config{};
  Status status;
};

void Parser::identity() {
  std::string type;
  take(fields.string("model_type"), type);
  if (status && type != "deepseek_v3")
    return fail(notSupported(fields, "model_type", "\"deepseek_v3\""));
  const Json *architectures = fields.find("architectures");
  if (!status || !architectures)
    return;
  if (!architectures->is_array() || architectures->size() != 1 || !(*architectures)[0].is_string())
    return fail(fields.wrong("architectures", "a list of one name"));
  if ((*architectures)[0] != "DeepseekV3ForCausalLM")
    fail(unsupportedError(fields.name("architectures") + ": " + describe((*architectures)[0]) +
                          " is not supported, only \"DeepseekV3ForCausalLM\""));
}

void Parser::sizes() {
  size("hidden_size", config.hidden, 1, maxDim);
  size("num_hidden_layers", config.layers, 1, maxCount);
  size("first_k_dense_replace", config.firstDense, 0, maxCount);
  size("vocab_size", config.vocab, 1, maxVocab);
  size("max_position_embeddings", config.maxPosition, 1, maxPositions);
  size("intermediate_size", config.intermediate, 1, maxDim);
  // transformers 5 writes the newer of the two names.
  const char *mtp = fields.has("num_nextn_predict_layers") ? "num_nextn_predict_layers"
                                                          : "num_mtp_layers";
  take(fields.integerOr(mtp, 0, 0, 64), config.mtpModules);
  take(fields.integerOr("moe_layer_freq", 1, 1, maxCount), config.moe.layerFreq);
}

void Parser::attention() {
  size("num_attention_heads", config.heads, 1, maxCount);
  take(fields.integerOrNull("q_lora_rank", 1, maxDim), config.qLoraRank);
  size("kv_lora_rank", config.kvLoraRank, 1, maxDim);
  size("qk_nope_head_dim", config.nopeDim, 1, maxCount);
  size("qk_rope_head_dim", config.ropeDim, 1, maxCount);
  size("v_head_dim", config.valueDim, 1, maxCount);
  if (failed())
    return;
  if (config.ropeDim % 2)
    return fail(fields.wrong("qk_rope_head_dim", "an even number"));
  int64_t kvHeads = config.heads, qkDim = config.qkDim();
  take(fields.integerOr("num_key_value_heads", config.heads, 1, maxCount), kvHeads);
  take(fields.integerOr("qk_head_dim", qkDim, 1, 2 * maxCount), qkDim);
  if (status && kvHeads != config.heads)
    return fail(checkpointError(is("num_key_value_heads", kvHeads) +
                                ", expected num_attention_heads (" + std::to_string(config.heads) +
                                "), since latent attention has one key per query head"));
  if (status && qkDim != config.qkDim())
    return fail(checkpointError(is("qk_head_dim", qkDim) +
                                ", expected qk_nope_head_dim + qk_rope_head_dim = " +
                                std::to_string(config.qkDim())));
  bool bias = false;
  take(fields.booleanOr("attention_bias", false), bias);
  if (status && bias)
    fail(notSupported(fields, "attention_bias", "false"));
}

void Parser::moe() {
  if (failed() || !config.hasMoe())
    return;
  MoeConfig &moe = config.moe;
  size("n_routed_experts", moe.experts, 1, maxCount);
  size("moe_intermediate_size", moe.intermediate, 1, maxDim);
  take(fields.integerOr("n_shared_experts", 0, 0, 1024), moe.sharedExperts);
  size("num_experts_per_tok", moe.perToken, 1, maxCount);
  size("n_group", moe.groups, 1, maxCount);
  size("topk_group", moe.keptGroups, 1, maxCount);
  if (status)
    take(fields.boolean("norm_topk_prob"), moe.normalise);
  if (status)
    take(fields.number("routed_scaling_factor"), moe.scaling);
  if (status && !(moe.scaling > 0))
    fail(fields.wrong("routed_scaling_factor", "a number above 0"));
  only("scoring_func", "sigmoid");
  only("topk_method", "noaux_tc");
  moeRules();
}

/// What the router's arithmetic needs (a group's score is the sum of its two best).
void Parser::moeRules() {
  if (failed())
    return;
  const MoeConfig &moe = config.moe;
  std::string experts = "n_routed_experts (" + std::to_string(moe.experts) + ")";
  if (moe.experts % moe.groups)
    return fail(checkpointError(is("n_group", moe.groups) + ", expected a divisor of " + experts));
  int64_t groupSize = moe.experts / moe.groups;
  if (groupSize < 2)
    return fail(checkpointError(is("n_group", moe.groups) + ", expected groups of at least 2 of " +
                                experts));
  if (moe.keptGroups > moe.groups)
    return fail(checkpointError(is("topk_group", moe.keptGroups) + ", expected at most n_group (" +
                                std::to_string(moe.groups) + ")"));
  if (moe.keptGroups * groupSize < moe.perToken)
    fail(checkpointError(is("num_experts_per_tok", moe.perToken) + ", expected at most the " +
                         std::to_string(moe.keptGroups * groupSize) +
                         " experts in topk_group groups"));
}

/// Reads `key` as a token id, a list of them, or nothing, and adds new ones to `out`.
static Status readTokenIds(const JsonFields &fields, const char *key, int64_t vocab,
                           std::vector<int64_t> &out) {
  const Json *value = fields.find(key);
  if (!value)
    return {};
  Json list = value->is_array() ? *value : Json::array({*value});
  for (const Json &id : list) {
    if (!id.is_number_integer() || id < 0 || id >= vocab)
      return checkpointError(fields.name(key) + ": expected token ids below vocab_size (" +
                             std::to_string(vocab) + "), got " + describe(id));
    if (std::find(out.begin(), out.end(), id.get<int64_t>()) == out.end())
      out.push_back(id.get<int64_t>());
  }
  return {};
}

void Parser::tokens() {
  if (failed())
    return;
  take(fields.integerOrNull("bos_token_id", 0, config.vocab - 1), config.bos);
  if (Status ok = readTokenIds(fields, "eos_token_id", config.vocab, config.eos); !ok)
    fail(ok.error());
}

void Parser::rest() {
  if (failed())
    return;
  if (!fields.has("hidden_act"))
    return fail(fields.missing("hidden_act"));
  only("hidden_act", "silu");
  if (status)
    take(fields.number("rms_norm_eps"), config.rmsNormEps);
  if (status && !(config.rmsNormEps > 0 && config.rmsNormEps < 1))
    fail(fields.wrong("rms_norm_eps", "a number between 0 and 1"));
  take(fields.booleanOr("tie_word_embeddings", false), config.tieEmbeddings);
  take(parseRope(json, where), config.rope);
  take(parseQuantization(json, where), config.quant);

  const char *key = fields.has("dtype") ? "dtype" : "torch_dtype";
  std::string name;
  take(fields.stringOr(key, ""), name);
  if (name == "bfloat16")
    config.dtype = DType::BF16;
  else if (name == "float16")
    config.dtype = DType::F16;
  else if (name == "float32")
    config.dtype = DType::F32;
  else if (!name.empty())
    fail(notSupported(fields, key, "bfloat16, float16 and float32"));
}

Result<ModelConfig> Parser::parse() {
  identity();
  sizes();
  attention();
  moe();
  tokens();
  rest();
  if (failed())
    return status.error();
  return config;
}

} // namespace

Result<ModelConfig> parseModelConfig(const Json &config, const std::string &where) {
  if (!config.is_object())
    return checkpointError(where + ": expected an object, got " + describe(config));
  return Parser(config, where).parse();
}

Result<ModelConfig> readModelConfig(const std::string &dir) {
  namespace fs = std::filesystem;
  std::error_code ec;
  if (!fs::is_directory(dir, ec))
    return checkpointError(dir + ": expected a folder with a checkpoint" +
                           (fs::exists(dir, ec) ? "" : ", there is nothing of that name"));
  std::string path = (fs::path(dir) / "config.json").string();
  Result<Json> json = parseJsonFile(path);
  if (!json)
    return json.error();
  Result<ModelConfig> config = parseModelConfig(*json, path);
  std::string generation = (fs::path(dir) / "generation_config.json").string();
  if (!config || !fs::exists(generation, ec))
    return config;
  Result<Json> extra = parseJsonFile(generation);
  if (!extra)
    return extra.error();
  if (!extra->is_object())
    return checkpointError(generation + ": expected an object, got " + describe(*extra));
  if (Status ok = readTokenIds(JsonFields(*extra, generation), "eos_token_id", config->vocab,
                               config->eos);
      !ok)
    return ok.error();
  return config;
}

} // namespace dsv3::hf
