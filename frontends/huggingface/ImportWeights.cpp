#include "frontends/huggingface/ImportWeights.h"

using namespace mlir;

namespace dsv3 {

/// Of an MTP module that has no program.
static bool isLaterMtp(const hf::Model &model, const hf::WeightSpec &spec) { return spec.layer > model.config.layers; }

/// Gammas and the router decide by small differences, and cost nothing to keep.
static bool keepsPrecision(hf::Role role) {
  switch (role) {
  case hf::Role::FinalNorm:
  case hf::Role::InputNorm:
  case hf::Role::QANorm:
  case hf::Role::KvANorm:
  case hf::Role::PostNorm:
  case hf::Role::MtpEmbedNorm:
  case hf::Role::MtpHiddenNorm:
  case hf::Role::MtpHeadNorm:
  case hf::Role::Router:
    return true;
  default:
    return false;
  }
}

/// What the numbers of a weight mean once read. Bits are lost only where F16 and F32 matrices become bf16.
static Type elementType(Builder &b, const hf::Weight &weight, FloatType compute) {
  if (weight.spec.role == hf::Role::RouterBias) // added to float32 scores
    return b.getF32Type();
  if (weight.dtype == DType::BF16)
    return b.getBF16Type();
  if (!weight.scheme && keepsPrecision(weight.spec.role))
    return b.getF32Type(); // also for float16, which is no type of a plain weight
  return compute;
}

static Attribute encodingOf(Builder &b, const hf::Weight &weight) {
  if (!weight.scheme)
    return {};
  const hf::StoredScheme &scheme = *weight.scheme;
  using Code = hf::StoredScheme::Code;
  Type storage = scheme.code == Code::F8E4M3 ? Type(b.getType<Float8E4M3FNType>()) : b.getIntegerType(unsigned(scheme.bits()));
  Type scale = *weight.scale == DType::BF16 ? Type(b.getBF16Type()) : *weight.scale == DType::F16 ? Type(b.getF16Type()) : Type(b.getF32Type());
  auto size = [](int64_t block) { return block ? block : ShapedType::kDynamic; };
  return ir::BlockedAttr::get(b.getContext(), storage, {size(scheme.blockRows), size(scheme.blockCols)}, scale, scheme.ue8m0,
                              scheme.zeroPoints ? b.getI8Type() : Type(), weight.indexed);
}

/// What the checkpoint asks of activations that meet the weight; null: nothing.
static ir::BlockedAttr activationOf(Builder &b, const hf::Weight &weight) {
  if (!weight.scheme || !weight.scheme->activation)
    return {};
  const hf::ActivationScheme &asked = *weight.scheme->activation;
  Type storage = asked.integer ? Type(b.getIntegerType(8)) : Type(b.getType<Float8E4M3FNType>());
  int64_t block = asked.blockCols ? asked.blockCols : ShapedType::kDynamic;
  return ir::BlockedAttr::get(b.getContext(), storage, {1, block}, b.getF32Type(), asked.ue8m0);
}

static RankedTensorType weightType(Builder &b, const hf::Weight &weight, FloatType compute) {
  return RankedTensorType::get(weight.shape(), elementType(b, weight, compute), encodingOf(b, weight));
}

static ir::Packing packingOf(hf::Packing packing) {
  switch (packing) {
  case hf::Packing::Plain: return ir::Packing::Plain;
  case hf::Packing::Words: return ir::Packing::Words;
  case hf::Packing::Gptq: return ir::Packing::Gptq;
  case hf::Packing::GptqV2: return ir::Packing::GptqV2;
  case hf::Packing::Awq: return ir::Packing::Awq;
  case hf::Packing::HighFirst: return ir::Packing::HighFirst;
  }
  llvm_unreachable("all packings are listed");
}

static ir::FileSourceAttr fileSource(Builder &b, const hf::Weight &weight) {
  const hf::WeightSpec &spec = weight.spec;
  std::string whole = spec.members ? spec.prefix + "{}" + spec.suffix : spec.tensor();
  if (!weight.scheme)
    return ir::FileSourceAttr::get(b.getContext(), b.getStringAttr(whole));
  const hf::PartNames &names = weight.scheme->names;
  std::string module = whole.substr(0, whole.rfind('.') + 1);
  auto part = [&](const std::string &name, bool present) { return present ? b.getStringAttr(module + name) : StringAttr(); };
  return ir::FileSourceAttr::get(b.getContext(), part(names.data, true), part(names.scale, true),
                                 part(names.zero, weight.scheme->zeroPoints), part(names.index, weight.indexed),
                                 packingOf(weight.scheme->packing));
}

/// `file`, or `stack` over the members with `{}` in the place of their number.
static Attribute weightSource(Builder &b, const hf::Weight &weight) {
  ir::FileSourceAttr file = fileSource(b, weight);
  if (!weight.spec.members)
    return file;
  return ir::StackSourceAttr::get(b.getContext(), 0, weight.spec.members, file);
}

/// The checkpoint tensor, in its shard.
static Location tensorLoc(Builder &b, const hf::Model &model, const std::string &name) {
  const hf::CheckpointTensor *tensor = model.checkpoint->find(name);
  std::string file = model.checkpoint->fileName(*tensor);
  return NameLoc::get(b.getStringAttr(name), FileLineColLoc::get(b.getContext(), file, 0, 0));
}

WeightTable declareWeights(OpBuilder &b, const hf::Model &model, FloatType compute) {
  WeightTable table;
  for (const hf::Weight &weight : model.tensors.weights)
    if (!isLaterMtp(model, weight.spec)) {
      auto op = ir::WeightOp::create(b, tensorLoc(b, model, weight.tensor()), weight.spec.site, weightType(b, weight, compute),
                                     weightSource(b, weight));
      if (ir::BlockedAttr activation = activationOf(b, weight))
        op.setActivationAttr(activation);
      table[weight.spec.site] = op;
    }
  // A tied head reads the embedding's numbers, but in another layout: a weight of its own.
  if (ir::WeightOp embed = table.lookup("embed"); embed && !table.count("lm_head"))
    table["lm_head"] = ir::WeightOp::create(b, embed.getLoc(), "lm_head", embed.getTensorType(),
                                            ir::RefSourceAttr::get(b.getContext(), FlatSymbolRefAttr::get(b.getContext(), "embed")));
  return table;
}

/// Why no weight reads the tensor of this row; empty when one does.
static std::string ignoredReason(const hf::Model &model, const hf::LedgerRow &row) {
  if (row.use != hf::LedgerRow::Use::Ignored)
    return isLaterMtp(model, model.tensors.find(row.site)->spec) ? "later_mtp_module" : "";
  std::string reason(hf::keyword(row.reason));
  return row.other.empty() ? reason : reason + " " + row.other;
}

void declareIgnored(OpBuilder &b, const hf::Model &model) {
  for (const hf::LedgerRow &row : model.tensors.ledger.rows())
    if (std::string reason = ignoredReason(model, row); !reason.empty())
      ir::IgnoredOp::create(b, tensorLoc(b, model, row.tensor->name()), row.tensor->name(), reason);
}

} // namespace dsv3
