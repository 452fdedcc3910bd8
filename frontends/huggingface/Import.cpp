#include "frontends/huggingface/Import.h"

#include "frontends/huggingface/ImportProgram.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"

using namespace mlir;

namespace dsv3 {

/// Tokens of a cache page; the serving runtime's pages have this size.
static constexpr int64_t pageTokens = 64;

static ir::RopeAttr ropeAttr(MLIRContext &context, const hf::ModelConfig &config) {
  const hf::RopeConfig &rope = config.rope;
  if (!rope.yarn)
    return ir::RopeAttr::get(&context, config.ropeDim, rope.theta, rope.interleaved, 0.0, 0, 0.0, 0.0, 1.0);
  const hf::YarnConfig &yarn = *rope.yarn;
  return ir::RopeAttr::get(&context, config.ropeDim, rope.theta, rope.interleaved, yarn.factor, yarn.original,
                           yarn.betaFast, yarn.betaSlow, rope.cosSinFactor());
}

/// How the cache stores the latent; null: as numbers of the compute type.
static Attribute latentScheme(MLIRContext &context, KvCacheType type) {
  if (type == KvCacheType::Plain)
    return {};
  Type codes = type == KvCacheType::F8E4M3 ? Type(Float8E4M3FNType::get(&context)) : Float8E5M2Type::get(&context);
  return ir::BlockedAttr::get(&context, codes, {1, ShapedType::kDynamic}, Float32Type::get(&context), /*pow2Scale=*/false);
}

namespace {

class Importer {
public:
  Importer(OpBuilder &builder, const hf::Model &model, const ImportContext &context)
      : builder(builder), model(model), context(context), ids(rows(builder.getI32Type())),
        hidden(rows(context.config.hidden, context.compute)), logits(rows(context.config.vocab, builder.getF32Type())),
        seq(ir::SeqType::get(builder.getContext())) {}

  void trunk();
  void head();
  void mtp();

private:
  static RankedTensorType rows(Type elem) { return RankedTensorType::get({ShapedType::kDynamic}, elem); }
  static RankedTensorType rows(int64_t n, Type elem) { return RankedTensorType::get({ShapedType::kDynamic, n}, elem); }

  OpBuilder &builder;
  const hf::Model &model;
  const ImportContext &context;
  const Type ids, hidden, logits, seq;
};

void Importer::trunk() {
  const hf::ModelConfig &config = context.config;
  ProgramBuilder p(builder, context, "trunk", {{ids, "ids"}, {seq, ""}, {context.kv, ""}},
                   {{hidden, "hidden"}, {context.kv, ""}});
  Value x = p.embed(p.argument(0), "embed", "embed");
  for (int64_t i = 0; i < config.layers; ++i)
    x = decoderLayer(p, i, config.isMoe(i), x);
  Value y = p.norm(x, "final_norm", config.rmsNormEps, "final_norm");
  p.finish({y, p.kv});
}

/// Symbol of a weight that is used as a head: a tied one has a symbol of its own.
static StringRef headSymbol(const hf::Weight *weight) { return weight->spec.site == "embed" ? StringRef("lm_head") : StringRef(weight->spec.site); }

void Importer::head() {
  ProgramBuilder p(builder, context, "head", {{hidden, "hidden"}}, {{logits, "logits"}});
  p.finish(p.linear(p.argument(0), headSymbol(model.tensors.lmHead()), "logits", builder.getF32Type()));
}

/// Predicts the token after `next_ids`, which were predicted from `hidden` (DeepSeek-V3 technical report, section 2.2).
void Importer::mtp() {
  const hf::ModelConfig &config = context.config;
  const int64_t layer = config.layers;
  const std::string at = "l" + std::to_string(layer) + ".";
  ProgramBuilder p(builder, context, "mtp", {{ids, "next_ids"}, {hidden, "hidden"}, {seq, ""}, {context.kv, ""}},
                   {{logits, "logits"}, {context.kv, ""}});
  Value e = p.embed(p.argument(0), model.tensors.mtpEmbedding(layer)->spec.site, at + "embed");
  e = p.norm(e, at + "enorm", config.rmsNormEps, at + "enorm");
  Value h = p.norm(p.argument(1), at + "hnorm", config.rmsNormEps, at + "hnorm");
  Value x = p.linear(p.concat({e, h}, at + "concat"), at + "eh_proj", at + "eh_proj", context.compute);
  x = decoderLayer(p, layer, /*moe=*/true, x);
  x = p.norm(x, at + "head_norm", config.rmsNormEps, at + "shared_head_norm");
  Value y = p.linear(x, headSymbol(model.tensors.mtpHead(layer)), "mtp_logits", builder.getF32Type());
  p.finish({y, p.kv});
}

} // namespace

/// Our own fault, told in the verifier's first words.
static Status verified(ModuleOp module) {
  std::string first;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (first.empty())
      first = diagnostic.str();
    return success();
  });
  if (succeeded(verify(module)))
    return {};
  return internalError("the imported module does not verify: " + first);
}

Result<OwningOpRef<ModuleOp>> importModel(MLIRContext &context, const hf::Model &model, const ImportOptions &options) {
  if (options.computeType != DType::F32 && options.computeType != DType::BF16)
    return usageError("expected compute type F32 or BF16, got " + std::string(safetensorsName(options.computeType)));
  context.loadDialect<ir::Dsv3Dialect>();
  OpBuilder builder(&context);
  Location loc = NameLoc::get(builder.getStringAttr(model.checkpoint->dir()));
  OwningOpRef<ModuleOp> module = ModuleOp::create(builder, loc);
  builder.setInsertionPointToEnd(module->getBody());

  const hf::ModelConfig &config = model.config;
  bool hasMtp = model.tensors.mtpModules > 0;
  FloatType compute = options.computeType == DType::BF16 ? FloatType(builder.getBF16Type()) : builder.getF32Type();
  WeightTable weights = declareWeights(builder, model, compute);
  declareIgnored(builder, model);
  if (model.tensors.mtpModules > 1)
    emitWarning(loc) << "the checkpoint has " << model.tensors.mtpModules << " MTP modules, only the first is used";

  ImportContext shared{config, weights, compute,
                       ir::KvType::get(&context, config.layers + hasMtp, pageTokens, config.kvLoraRank, config.ropeDim,
                                       compute, latentScheme(context, options.kvCache)),
                       ropeAttr(context, config)};
  Importer importer(builder, model, shared);
  importer.trunk();
  importer.head();
  if (hasMtp)
    importer.mtp();
  if (Status ok = verified(*module); !ok)
    return ok.error();
  return module;
}

} // namespace dsv3
