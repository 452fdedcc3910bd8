#include "passes/quantize/Decisions.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace dsv3 {

using quantize::Code;

static ir::BlockedAttr attrOf(const quantize::Scheme &scheme, MLIRContext *ctx) {
  Builder b(ctx);
  Type storage = scheme.code == Code::F8E4M3 ? Type(b.getType<Float8E4M3FNType>()) : b.getIntegerType(unsigned(scheme.bits()));
  Type scale = scheme.scaleType == DType::F32 ? Type(b.getF32Type()) : scheme.scaleType == DType::BF16 ? Type(b.getBF16Type()) : Type(b.getF16Type());
  auto size = [](int64_t block) { return block ? block : ShapedType::kDynamic; };
  return ir::BlockedAttr::get(ctx, storage, {size(scheme.blockRows), size(scheme.blockCols)}, scale, scheme.powerOfTwo);
}

std::optional<quantize::Scheme> schemeOf(ir::BlockedAttr attr) {
  if (!attr || attr.getZero() || attr.getIndexed() || isa<Float8E5M2Type>(attr.getStorage()) || attr.getBlock().size() != 2)
    return std::nullopt;
  auto size = [](int64_t b) { return ShapedType::isDynamic(b) ? 0 : b; };
  quantize::Scheme scheme;
  scheme.code = isa<Float8E4M3FNType>(attr.getStorage()) ? Code::F8E4M3 : attr.getStorage().isInteger(8) ? Code::I8 : Code::I4;
  scheme.blockRows = size(attr.getBlock()[0]), scheme.blockCols = size(attr.getBlock()[1]);
  scheme.scaleType = attr.getScale().isF32() ? DType::F32 : attr.getScale().isBF16() ? DType::BF16 : DType::F16;
  scheme.powerOfTwo = attr.getPow2Scale();
  return scheme;
}

/// Names of the modules whose tensors a source reads: "model.layers.0.mlp.up_proj" of its ".weight", one per member of a stack.
static std::vector<std::string> modulesOf(Attribute source) {
  int64_t begin = 0, end = 1;
  if (auto stack = dyn_cast<ir::StackSourceAttr>(source))
    begin = stack.getBegin(), end = stack.getEnd(), source = stack.getSource();
  auto file = dyn_cast<ir::FileSourceAttr>(source);
  std::vector<std::string> out;
  for (int64_t i = begin; file && i < end; ++i) {
    std::string name = file.getTensor().getValue().rsplit('.').first.str();
    if (size_t at = name.find("{}"); at != name.npos)
      name.replace(at, 2, std::to_string(i));
    out.push_back(std::move(name));
  }
  return out;
}

static ir::BlockedAttr encodingOf(ir::WeightOp weight) { return dyn_cast_or_null<ir::BlockedAttr>(weight.getTensorType().getEncoding()); }

static std::optional<quantize::Linear> linearOf(ir::WeightOp weight) {
  RankedTensorType type = weight.getTensorType();
  auto place = quantize::Linear::place(weight.getSymName(), type.getRank());
  if (!place || type.getRank() < 2)
    return std::nullopt;
  return quantize::Linear{place->first,
                          place->second,
                          weight.getSymName().str(),
                          modulesOf(weight.getSource()),
                          schemeOf(encodingOf(weight)),
                          /*bits=*/encodingOf(weight) ? int(encodingOf(weight).getStorage().getIntOrFloatBitWidth()) : 0};
}

static ir::BlockedAttr activationOf(ir::WeightOp weight, const quantize::Activation &activation) {
  switch (activation.rule) {
  case quantize::Activation::Rule::Plain: return {};
  case quantize::Activation::Rule::Asked: return weight.getActivationAttr();
  case quantize::Activation::Rule::Scheme: return attrOf(activation.scheme, weight.getContext());
  }
  llvm_unreachable("all rules are listed");
}

/// "int4 in groups of 128 (quant.json: config_groups.a)", activations behind it where they are not plain.
static void describe(llvm::raw_ostream &os, const WeightDecision &d) {
  if (std::optional<quantize::Scheme> scheme = schemeOf(d.scheme))
    os << scheme->text();
  else
    d.scheme ? os << d.scheme : os << "plain";
  if (d.activation)
    os << " for activations in " << d.activation;
  os << " (" << (d.changed || d.activation ? StringRef(d.by) : StringRef("as stored")) << ")";
}

/// Gate and up of experts are one product with two weights.
static Status expectEqualGates(const std::vector<WeightDecision> &all) {
  for (const WeightDecision &gate : all)
    for (const WeightDecision &up : all) {
      StringRef name = ir::WeightOp(gate.weight).getSymName(), other = ir::WeightOp(up.weight).getSymName();
      if (gate.component != quantize::Component::RoutedExperts || !name.ends_with(".gate") || other != (name.drop_back(4) + "up").str() ||
          (gate.scheme == up.scheme && gate.activation == up.activation))
        continue;
      std::string text;
      llvm::raw_string_ostream os(text);
      os << "expected one scheme for " << name << " and " << other << ", which are one product, got ";
      describe(os, gate), os << " and ", describe(os, up);
      const bool asStored = !gate.changed && !up.changed && !gate.activation && !up.activation;
      return asStored ? Status(unsupportedError(text)) : Status(usageError(text));
    }
  return {};
}

Result<std::vector<WeightDecision>> decideWeights(ModuleOp module, const std::string &policyName, const std::string &config) {
  Result<quantize::Policy> policy = config.empty() ? quantize::Policy::builtIn(policyName) : quantize::Policy::read(config);
  if (!policy)
    return policy.error();
  std::vector<WeightDecision> out;
  for (auto weight : module.getOps<ir::WeightOp>()) {
    std::optional<quantize::Linear> linear = linearOf(weight);
    if (!linear)
      continue;
    Result<quantize::Decision> decision = policy->decide(*linear);
    if (!decision)
      return decision.error();
    WeightDecision d{weight, linear->component, encodingOf(weight), activationOf(weight, decision->activation), false, decision->by};
    if (decision->weight && decision->weight != linear->stored)
      d.scheme = attrOf(*decision->weight, module.getContext()), d.changed = true;
    out.push_back(d);
  }
  if (Status s = policy->verifyAllMatched(); !s)
    return s.error();
  if (Status s = expectEqualGates(out); !s)
    return s.error();
  return out;
}

} // namespace dsv3
