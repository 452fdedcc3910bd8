#include "runtime/reference/Model.h"
#include "runtime/reference/Linear.h"
#include "runtime/reference/Norm.h"
#include "runtime/reference/Sampling.h"

namespace dsv3::reference {

namespace {

constexpr double kAttentionEps = 1e-6;

/// Views [T, H * D] as [T, H, D] or back; the numbers stay where they are.
template <typename T> Array<T> reshaped(Array<T> x, Shape shape) {
  if (numElements(shape) == x.size())
    x.shape = std::move(shape);
  return x;
}

template <typename T>
void tell(const StateHook<T> &hook, int64_t layer, const char *name, const Array<T> &value) {
  if (hook)
    hook("layers." + std::to_string(layer) + "." + name, value);
}

} // namespace

template <typename T> Cache<T> Model<T>::makeCache(int64_t pages) const {
  return Cache<T>(cfg.layers + cfg.mtpLayers, pages, {cfg.mla.kvRank, cfg.mla.rope}, types.cache);
}

template <typename T>
Array<T> Model<T>::attention(Chain &chain, const Layer &l, int64_t index, const Array<T> &x,
                             const SeqMeta &seq, Cache<T> &cache, AttentionForm form,
                             const StateHook<T> &hook) const {
  const MlaShape &m = cfg.mla;
  Array<T> q;
  if (cfg.qRank) {
    Array<T> low = typed(chain(linear(x, l.qA)));
    low = typed(chain(rmsNorm(low, l.qANorm, kAttentionEps)));
    q = typed(chain(linear(low, l.qB)));
  } else {
    q = typed(chain(linear(x, l.qProj)));
  }
  tell(hook, index, "q", q);
  q = reshaped(std::move(q), {seq.tokens(), m.heads, m.nope + m.rope});
  bool pairs = cfg.rope.interleaved;
  q = typed(chain(rope(q, seq.positions(), table, m.nope, pairs)));

  Array<T> kvA = typed(chain(linear(x, l.kvA)));
  tell(hook, index, "kv_a", kvA);
  std::vector<Array<T>> parts = chain(split(kvA, {m.kvRank, m.rope}));
  if (chain.failed())
    return {};
  Array<T> latent = typed(chain(rmsNorm(parts[0], l.kvANorm, kAttentionEps)));
  Array<T> ropeKey = typed(chain(rope(parts[1], seq.positions(), table, 0, pairs)));
  if (hook)
    tell(hook, index, "kv_b", typed(chain(linear(latent, l.kvB))));
  chain(kvAppend(cache, index, {latent, ropeKey}, seq));

  Array<T> o;
  if (form == AttentionForm::Mha) {
    o = typed(chain(mlaAttention(q, cache, index, l.kvB, seq, scale, m, types.compute)));
  } else {
    std::vector<Array<T>> qParts = chain(split(q, {m.nope, m.rope}));
    if (chain.failed())
      return {};
    Array<T> qLat = typed(chain(batchedLinear(qParts[0], l.absorbed.k)));
    o = typed(chain(latentAttention(qLat, qParts[1], cache, index, seq, scale)));
    o = typed(chain(batchedLinear(o, l.absorbed.v)));
  }
  o = typed(chain(linear(reshaped(std::move(o), {seq.tokens(), m.heads * m.v}), l.o)));
  tell(hook, index, "attn_out", o);
  return o;
}

template <typename T>
Array<T> Model<T>::feedForward(Chain &chain, const Ffn &ffn, const Array<T> &x) const {
  Array<T> gate = chain(linear(x, ffn.gate)), up = chain(linear(x, ffn.up));
  return typed(chain(linear(typed(chain(swiglu(gate, up))), ffn.down)));
}

template <typename T>
Array<T> Model<T>::mixture(Chain &chain, const Layer &l, int64_t index, const Array<T> &x,
                           const SeqMeta &seq, const StateHook<T> &hook) const {
  Array<T> routerLogits = chain(linear(x, l.router));
  tell(hook, index, "router_logits", routerLogits);
  if (hook) {
    Routing<T> r = chain(route(routerLogits, l.bias, cfg.route, seq.qStart.back()));
    tell(hook, index, "topk_ids",
         Array<T>(r.ids.shape, std::vector<T>(r.ids.data.begin(), r.ids.data.end())));
    tell(hook, index, "topk_weights", r.weights);
  }
  Array<T> shared;
  if (cfg.sharedExperts)
    shared = feedForward(chain, l.ffn, x);
  RoutedVia via{Rounding::Exact, types.compute, types.compute, {}};
  return typed(chain(routedExperts(x, routerLogits, l.bias, l.gateUp, l.down, shared, cfg.route,
                                   via, seq.qStart.back())));
}

template <typename T>
Array<T> Model<T>::decoderLayer(Chain &chain, const Layer &l, int64_t index, const Array<T> &x,
                                const SeqMeta &seq, Cache<T> &cache, AttentionForm form,
                                const StateHook<T> &hook) const {
  Array<T> normed = typed(chain(rmsNorm(x, l.inputNorm, cfg.eps)));
  tell(hook, index, "input_norm", normed);
  Array<T> attended =
      typed(chain(add(x, attention(chain, l, index, normed, seq, cache, form, hook))));
  normed = typed(chain(rmsNorm(attended, l.postNorm, cfg.eps)));
  bool dense = !l.router.present();
  Array<T> mlp =
      dense ? feedForward(chain, l.ffn, normed) : mixture(chain, l, index, normed, seq, hook);
  tell(hook, index, "mlp_out", mlp);
  Array<T> out = typed(chain(add(attended, mlp)));
  tell(hook, index, "out", out);
  return out;
}

template <typename T>
Result<Array<T>> Model<T>::forward(const Ids &ids, const SeqMeta &seq, Cache<T> &cache,
                                   AttentionForm form, const StateHook<T> &hook) const {
  if (Status s = seq.verify(cache.pages()); !s)
    return s.error();
  Chain chain;
  Array<T> x = typed(chain(embed(ids, embedding)));
  if (hook)
    hook("embed", x);
  for (size_t i = 0; i < layers.size() && !chain.failed(); ++i)
    x = decoderLayer(chain, layers[i], int64_t(i), x, seq, cache, form, hook);
  x = typed(chain(rmsNorm(x, finalNorm, cfg.eps)));
  if (chain.failed())
    return chain.error();
  if (hook)
    hook("final_norm", x);
  return x;
}

template <typename T>
Result<Array<T>> Model<T>::mtp(const Ids &nextIds, const Array<T> &hidden, const SeqMeta &seq,
                               Cache<T> &cache, AttentionForm form,
                               const StateHook<T> &hook) const {
  if (mtpModules.empty())
    return usageError("model: expected an mtp module, got a model without one");
  if (Status s = seq.verify(cache.pages()); !s)
    return s.error();
  const Mtp &m = mtpModules[0];
  Chain chain;
  Array<T> e = typed(chain(embed(nextIds, m.embed)));
  e = typed(chain(rmsNorm(e, m.eNorm, cfg.eps)));
  Array<T> h = typed(chain(rmsNorm(hidden, m.hNorm, cfg.eps)));
  Array<T> x = typed(chain(linear(chain(concat<T>({e, h})), m.ehProj)));
  x = decoderLayer(chain, m.layer, cfg.layers, x, seq, cache, form, hook);
  if (chain.failed())
    return chain.error();
  return x;
}

template <typename T> Result<Array<T>> Model<T>::logits(const Array<T> &finalState) const {
  return linear(finalState, head);
}

template <typename T> Result<Array<T>> Model<T>::mtpLogits(const Array<T> &mtpState) const {
  if (mtpModules.empty())
    return usageError("model: expected an mtp module, got a model without one");
  Chain chain;
  Array<T> x = typed(chain(rmsNorm(mtpState, mtpModules[0].norm, cfg.eps)));
  x = chain(linear(x, mtpModules[0].head));
  if (chain.failed())
    return chain.error();
  return x;
}

template <typename T>
Result<std::vector<int32_t>> Model<T>::generate(const std::vector<int32_t> &prompt,
                                                int64_t count) const {
  int64_t pages = (int64_t(prompt.size()) + count + kPageTokens - 1) / kPageTokens;
  Cache<T> cache = makeCache(pages);
  std::vector<int32_t> table(pages), step = prompt, generated;
  std::iota(table.begin(), table.end(), 0);
  int64_t past = 0;
  for (int64_t i = 0; i < count; ++i) {
    SeqMeta seq;
    int64_t tokens = int64_t(step.size());
    seq.addSequence(past, tokens, table);
    Chain chain;
    Array<T> x = chain(forward(Ids({tokens}, step), seq, cache,
                               i == 0 ? AttentionForm::Mha : AttentionForm::Absorbed));
    Array<T> last = chain(logits(chain(selectRows(x, Ids({1}, {int32_t(tokens - 1)})))));
    int32_t next = chain(greedy(reshaped(std::move(last), {cfg.vocab})));
    if (chain.failed())
      return chain.error();
    generated.push_back(next);
    past += tokens;
    step = {next};
  }
  return generated;
}

template class Model<float>;
template class Model<double>;

} // namespace dsv3::reference
