// Reading the weights of the reference model by their checkpoint names.
#include "runtime/reference/Model.h"

namespace dsv3::reference {

/// Gathers weights; `chain` holds the first missing or misshapen one.
template <typename T> class Model<T>::Loader {
public:
  const ModelConfig &cfg;
  const WeightSource<T> &source;
  Chain chain;

  Array<T> get(const std::string &name, const Shape &shape);
  Ffn ffn(const std::string &prefix);
  void experts(const std::string &prefix, Layer &layer);
  Layer layer(int64_t index);
  Mtp mtp(int64_t index);
};

template <typename T>
Array<T> Model<T>::Loader::get(const std::string &name, const Shape &shape) {
  Result<Array<T>> w = source(name);
  if (w)
    chain(expectShape("model", name.c_str(), shape, w->shape));
  return chain(std::move(w));
}

template <typename T>
typename Model<T>::Ffn Model<T>::Loader::ffn(const std::string &prefix) {
  Array<T> gate = get(prefix + "gate_proj.weight", {-1, cfg.hidden});
  int64_t width = gate.rows();
  return {std::move(gate), get(prefix + "up_proj.weight", {width, cfg.hidden}),
          get(prefix + "down_proj.weight", {cfg.hidden, width})};
}

template <typename T>
void Model<T>::Loader::experts(const std::string &prefix, Layer &layer) {
  layer.router = get(prefix + "gate.weight", {cfg.experts, cfg.hidden});
  layer.bias = get(prefix + "gate.e_score_correction_bias", {cfg.experts});
  int64_t width = 0;
  for (int64_t e = 0; e < cfg.experts && !chain.failed(); ++e) {
    Ffn one = ffn(prefix + "experts." + std::to_string(e) + ".");
    if (e == 0) {
      width = one.gate.rows();
      layer.gateUp.shape = {cfg.experts, 2 * width, cfg.hidden};
      layer.down.shape = {cfg.experts, cfg.hidden, width};
    }
    chain(expectShape("model", "gate_proj of an expert", {width, cfg.hidden}, one.gate.shape));
    auto append = [](Array<T> &to, const Array<T> &from) {
      to.data.insert(to.data.end(), from.data.begin(), from.data.end());
    };
    append(layer.gateUp, one.gate);
    append(layer.gateUp, one.up);
    append(layer.down, one.down);
  }
  if (cfg.sharedExperts)
    layer.ffn = ffn(prefix + "shared_experts.");
}

template <typename T> typename Model<T>::Layer Model<T>::Loader::layer(int64_t index) {
  const MlaShape &m = cfg.mla;
  std::string prefix = "model.layers." + std::to_string(index) + ".";
  std::string attn = prefix + "self_attn.";
  int64_t qRows = m.heads * (m.nope + m.rope);
  Layer l;
  l.inputNorm = get(prefix + "input_layernorm.weight", {cfg.hidden});
  l.postNorm = get(prefix + "post_attention_layernorm.weight", {cfg.hidden});
  if (cfg.qRank) {
    l.qA = get(attn + "q_a_proj.weight", {cfg.qRank, cfg.hidden});
    l.qANorm = get(attn + "q_a_layernorm.weight", {cfg.qRank});
    l.qB = get(attn + "q_b_proj.weight", {qRows, cfg.qRank});
  } else {
    l.qProj = get(attn + "q_proj.weight", {qRows, cfg.hidden});
  }
  l.kvA = get(attn + "kv_a_proj_with_mqa.weight", {m.kvRank + m.rope, cfg.hidden});
  l.kvANorm = get(attn + "kv_a_layernorm.weight", {m.kvRank});
  l.kvB = get(attn + "kv_b_proj.weight", {m.heads * (m.nope + m.v), m.kvRank});
  l.o = get(attn + "o_proj.weight", {cfg.hidden, m.heads * m.v});
  l.absorbed = chain(absorb(l.kvB, m));
  if (index < cfg.firstDense)
    l.ffn = ffn(prefix + "mlp.");
  else
    experts(prefix + "mlp.", l);
  return l;
}

template <typename T> typename Model<T>::Mtp Model<T>::Loader::mtp(int64_t index) {
  std::string prefix = "model.layers." + std::to_string(index) + ".";
  Mtp m;
  m.embed = get(prefix + "embed_tokens.weight", {cfg.vocab, cfg.hidden});
  m.eNorm = get(prefix + "enorm.weight", {cfg.hidden});
  m.hNorm = get(prefix + "hnorm.weight", {cfg.hidden});
  m.ehProj = get(prefix + "eh_proj.weight", {cfg.hidden, 2 * cfg.hidden});
  m.norm = get(prefix + "shared_head.norm.weight", {cfg.hidden});
  m.head = get(prefix + "shared_head.head.weight", {cfg.vocab, cfg.hidden});
  m.layer = layer(index);
  return m;
}

template <typename T>
Result<Model<T>> Model<T>::create(const ModelConfig &config, const WeightSource<T> &source,
                                  const ModelTypes &types) {
  Model model;
  model.cfg = config;
  model.types = types;
  Loader load{config, source, {}};
  model.table = load.chain(ropeTable(config.rope));
  if (config.rope.dims != config.mla.rope)
    return usageError("model: expected rope dims equal to the head's " +
                      std::to_string(config.mla.rope) + ", got " +
                      std::to_string(config.rope.dims));
  model.scale = softmaxScale(config.mla.nope + config.mla.rope, config.rope);
  model.embedding = load.get("model.embed_tokens.weight", {config.vocab, config.hidden});
  for (int64_t i = 0; i < config.layers && !load.chain.failed(); ++i)
    model.layers.push_back(load.layer(i));
  for (int64_t i = 0; i < config.mtpLayers && !load.chain.failed(); ++i)
    model.mtpModules.push_back(load.mtp(config.layers + i));
  model.finalNorm = load.get("model.norm.weight", {config.hidden});
  model.head = load.get("lm_head.weight", {config.vocab, config.hidden});
  if (load.chain.failed())
    return load.chain.error();
  return model;
}

template Result<Model<float>> Model<float>::create(const ModelConfig &, const WeightSource<float> &,
                                                   const ModelTypes &);
template Result<Model<double>> Model<double>::create(const ModelConfig &,
                                                     const WeightSource<double> &,
                                                     const ModelTypes &);

} // namespace dsv3::reference
