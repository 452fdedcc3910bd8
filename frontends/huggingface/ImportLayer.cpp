// One decoder layer: multi-head latent attention, then a dense FFN or a mixture of experts (DeepSeek-V3 technical
// report, section 2.1; order of operations and roundings as in the public release).
#include "frontends/huggingface/ImportProgram.h"

using namespace mlir;

namespace dsv3 {

namespace {

/// The release builds the two norms inside attention with the class's default, not with rms_norm_eps.
constexpr double innerNormEps = 1e-6;

class Layer {
public:
  Layer(ProgramBuilder &p, int64_t layer)
      : p(p), config(p.context.config), compute(p.context.compute), f32(p.b.getF32Type()), layer(layer),
        prefix("l" + std::to_string(layer) + ".") {}

  Value attention(Value x);
  Value dense(Value x) { return ffn(x, "", "mlp", compute); }
  Value experts(Value x);
  Value norm(Value x, const char *name) { return p.norm(x, at(name), config.rmsNormEps, at(name)); }
  Value add(Value x, Value y, const char *name) { return p.add(x, y, at(name)); }

private:
  /// Of a site, or of a weight.
  std::string at(StringRef name) const { return prefix + name.str(); }
  /// Where weight and site have the same name, as nearly all have.
  Value linear(Value x, StringRef name, Type elem, ArrayRef<int64_t> row = {}) {
    return p.linear(x, at(name), at(name), elem, row);
  }
  Value grouped(Value x, Value offsets, StringRef name) {
    return p.groupedLinear(x, at(name), offsets, at(name), f32);
  }

  Value query(Value x);
  void append(Value x);
  Value ffn(Value x, const std::string &part, StringRef result, Type elem);
  ir::RouteOp route(Value x);

  ProgramBuilder &p;
  const hf::ModelConfig &config;
  const Type compute, f32;
  const int64_t layer;
  const std::string prefix;
};

/// [?, H, nope + rope] with rotated rope lanes.
Value Layer::query(Value x) {
  int64_t row[] = {config.heads, config.qkDim()};
  Value q;
  if (config.qLoraRank) {
    Value latent = p.norm(linear(x, "q_a", compute), at("q_a_norm"), innerNormEps, at("q_a_norm"));
    q = linear(latent, "q_b", compute, row);
  } else {
    q = p.linear(x, at("q"), at("q_b"), compute, row);
  }
  return p.rope(q, config.nopeDim, at("q_rope"));
}

/// The step's rows of this layer go to the cache.
void Layer::append(Value x) {
  Value both = linear(x, "kv_a", compute);
  Type parts[] = {p.rows(config.kvLoraRank, compute), p.rows(config.ropeDim, compute)};
  auto split = ir::SplitOp::create(p.b, p.loc(at("kv_a")), parts, both);
  Value latent = p.norm(split.getParts()[0], at("kv_a_norm"), innerNormEps, at("kv_a_norm"));
  Value key = p.rope(split.getParts()[1], 0, at("k_rope"));
  p.kv = ir::KvAppendOp::create(p.b, p.loc(at("append")), p.kv.getType(), p.kv, layer, latent, key, p.seq, at("append"));
}

Value Layer::attention(Value x) {
  Value q = query(x);
  append(x);
  Value kvB = p.use(at("kv_b"));
  Type type = p.rows({config.heads, config.valueDim}, compute);
  Value y = ir::MlaAttentionOp::create(p.b, p.loc(at("attn")), type, q, p.kv, p.b.getI64IntegerAttr(layer), kvB, p.seq,
                                       p.b.getF64FloatAttr(config.softmaxScale()), p.b.getStringAttr(at("attn")));
  return linear(y, "o", compute);
}

/// SwiGLU FFN of the weights `part` + gate, up and down. Its last op has the site `part` + result.
Value Layer::ffn(Value x, const std::string &part, StringRef result, Type elem) {
  Value gate = linear(x, part + "gate", f32), up = linear(x, part + "up", f32);
  Value act = p.swiglu(gate, up, at(part + "act"));
  return p.linear(act, at(part + "down"), at(part + result.str()), elem);
}

ir::RouteOp Layer::route(Value x) {
  const hf::MoeConfig &moe = config.moe;
  OpBuilder &b = p.b;
  Value logits = linear(x, "router", f32);
  Value bias = p.use(at("router_bias"));
  return ir::RouteOp::create(b, p.loc(at("route")), p.rows(moe.perToken, b.getI32Type()), p.rows(moe.perToken, f32), logits,
                             bias, b.getI64IntegerAttr(moe.groups), b.getI64IntegerAttr(moe.keptGroups),
                             b.getI64IntegerAttr(moe.perToken), b.getBoolAttr(moe.normalise),
                             b.getF64FloatAttr(moe.scaling), b.getStringAttr(at("route")));
}

/// Expert and shared results stay in float32 up to the weighted sum, which rounds once.
Value Layer::experts(Value x) {
  const hf::MoeConfig &moe = config.moe;
  OpBuilder &b = p.b;
  ir::RouteOp routed = route(x);
  auto dispatch = ir::DispatchOp::create(b, p.loc(at("dispatch")), x.getType(),
                                         RankedTensorType::get({moe.experts + 1}, b.getI32Type()), routed.getIds().getType(),
                                         x, routed.getIds(), moe.experts, at("dispatch"));
  Value gate = grouped(dispatch.getRows(), dispatch.getOffsets(), "gate");
  Value up = grouped(dispatch.getRows(), dispatch.getOffsets(), "up");
  Value down = grouped(p.swiglu(gate, up, at("act")), dispatch.getOffsets(), "down");
  Value shared = moe.sharedExperts ? ffn(x, "shared.", "down", f32) : Value();
  return ir::CombineOp::create(b, p.loc(at("mlp")), x.getType(), down, dispatch.getRowOf(), routed.getWeights(), shared,
                               at("mlp"));
}

} // namespace

Value decoderLayer(ProgramBuilder &p, int64_t index, bool moe, Value x) {
  Layer layer(p, index);
  Value mid = layer.add(x, layer.attention(layer.norm(x, "input_norm")), "attn_out_add");
  Value n = layer.norm(mid, "post_norm");
  return layer.add(mid, moe ? layer.experts(n) : layer.dense(n), "out");
}

} // namespace dsv3
