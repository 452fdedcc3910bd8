// The whole of DeepSeek-V3 in the reference's functions: what a compiled model
// must compute, written as straight as it can be.
#pragma once

#include "runtime/reference/Attention.h"
#include "runtime/reference/Moe.h"
#include "runtime/reference/Rope.h"

#include <functional>

namespace dsv3::reference {

/// The numbers of `config.json` that change what is computed.
struct ModelConfig {
  int64_t hidden = 0, vocab = 0;
  int64_t layers = 0;     ///< of the main model
  int64_t firstDense = 0; ///< layers before it, and with it the MTP layer, are MoE
  int64_t mtpLayers = 0;  ///< 0 or 1
  int64_t qRank = 0;      ///< 0: one q_proj without a low-rank pair
  MlaShape mla;
  int64_t experts = 0;
  int64_t sharedExperts = 1; ///< 0: none; several are one wider FFN
  RouteParams route;
  RopeParams rope;
  double eps = 1e-6; ///< norms inside attention use 1e-6 whatever this says
};

/// How results are stored. Gate and up projections, router logits and logits
/// stay float32, as the importer types them.
struct ModelTypes {
  Rounding compute = Rounding::Exact;
  CacheStorage cache;
};

/// A weight by its checkpoint name ("model.norm.weight"), dequantised.
template <typename T>
using WeightSource = std::function<Result<Array<T>>(const std::string &name)>;

/// Called with a named state. Names and meanings are the goldens': "embed",
/// per layer "layers.3." + {input_norm, q, kv_a, kv_b, attn_out, router_logits,
/// topk_ids, topk_weights, mlp_out, out}, "final_norm"; ids as numbers.
template <typename T>
using StateHook = std::function<void(const std::string &name, const Array<T> &value)>;

enum class AttentionForm { Mha, Absorbed };

template <typename T> class Model {
public:
  /// Reads every weight once and checks its shape. Errors: what `source`
  /// returns, or a shape that contradicts `config`, named by the tensor.
  static Result<Model> create(const ModelConfig &config, const WeightSource<T> &source,
                              const ModelTypes &types = {});

  /// A cache for all layers, the MTP layer last.
  Cache<T> makeCache(int64_t pages) const;

  /// One step: ids [T], appended to the cache as `seq` says -> the state after
  /// the final norm [T, hidden].
  Result<Array<T>> forward(const Ids &ids, const SeqMeta &seq, Cache<T> &cache, AttentionForm form,
                           const StateHook<T> &hook = {}) const;

  /// The MTP module: row i takes the id that follows it and the main model's
  /// state after its final norm [T, hidden], and gives the state before the
  /// shared head's norm.
  Result<Array<T>> mtp(const Ids &nextIds, const Array<T> &hidden, const SeqMeta &seq,
                       Cache<T> &cache, AttentionForm form, const StateHook<T> &hook = {}) const;

  /// lm_head of states after the final norm [R, hidden] -> [R, vocab].
  Result<Array<T>> logits(const Array<T> &finalState) const;
  /// The shared head of MTP states, its norm included -> [R, vocab].
  Result<Array<T>> mtpLogits(const Array<T> &mtpState) const;

  /// `count` greedy ids after the prompt: one prefill in MHA form, then decode
  /// steps of one token in absorbed form over the cache. No id stops it.
  Result<std::vector<int32_t>> generate(const std::vector<int32_t> &prompt, int64_t count) const;

  const ModelConfig &config() const { return cfg; }

private:
  struct Ffn {
    Array<T> gate, up, down;
  };
  struct Layer {
    Array<T> inputNorm, postNorm;
    Array<T> qProj, qA, qANorm, qB; ///< qProj, or the other three
    Array<T> kvA, kvANorm, kvB, o;
    AbsorbedWeights<T> absorbed;
    Ffn ffn; ///< dense layers; the shared expert of MoE layers, if any
    Array<T> router, bias, gateUp, down; ///< MoE layers only, experts stacked
  };
  struct Mtp {
    Array<T> embed, eNorm, hNorm, ehProj, norm, head;
    Layer layer;
  };
  class Loader;

  Array<T> attention(Chain &chain, const Layer &layer, int64_t index, const Array<T> &x,
                     const SeqMeta &seq, Cache<T> &cache, AttentionForm form,
                     const StateHook<T> &hook) const;
  Array<T> mixture(Chain &chain, const Layer &layer, int64_t index, const Array<T> &x,
                   const SeqMeta &seq, const StateHook<T> &hook) const;
  Array<T> feedForward(Chain &chain, const Ffn &ffn, const Array<T> &x) const;
  Array<T> decoderLayer(Chain &chain, const Layer &layer, int64_t index, const Array<T> &x,
                        const SeqMeta &seq, Cache<T> &cache, AttentionForm form,
                        const StateHook<T> &hook) const;
  /// Rounds a result to the compute type.
  Array<T> typed(Array<T> value) const { return roundTo(types.compute, std::move(value)); }

  ModelConfig cfg;
  ModelTypes types;
  RopeTable table;
  double scale = 0;
  Array<T> embedding, finalNorm, head;
  std::vector<Layer> layers;
  std::vector<Mtp> mtpModules;
};

} // namespace dsv3::reference
