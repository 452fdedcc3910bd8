#include "frontends/huggingface/ImportProgram.h"

using namespace mlir;

namespace dsv3 {

static SmallVector<Type> typesOf(ArrayRef<Port> ports) {
  return llvm::map_to_vector(ports, [](const Port &port) { return port.type; });
}

ProgramBuilder::ProgramBuilder(OpBuilder &module, const ImportContext &context, StringRef name, ArrayRef<Port> arguments,
                               ArrayRef<Port> results)
    : context(context), b(module) {
  FunctionType type = b.getFunctionType(typesOf(arguments), typesOf(results));
  program = ir::ProgramOp::create(module, loc(name), b.getStringAttr(name), TypeAttr::get(type), StringAttr(),
                                  IntegerAttr(), IntegerAttr(), ArrayAttr(), ArrayAttr());
  for (auto [i, port] : llvm::enumerate(arguments))
    if (!port.name.empty())
      program.setArgAttr(i, "dsv3.name", b.getStringAttr(port.name));
  for (auto [i, port] : llvm::enumerate(results))
    if (!port.name.empty())
      program.setResultAttr(i, "dsv3.name", b.getStringAttr(port.name));

  Block &block = program.getBody().emplaceBlock();
  for (const Port &port : arguments) {
    BlockArgument arg = block.addArgument(port.type, port.name.empty() ? loc(name) : loc(port.name));
    if (isa<ir::SeqType>(port.type))
      seq = arg;
    if (isa<ir::KvType>(port.type))
      kv = arg;
  }
  b.setInsertionPointToEnd(&block);
}

void ProgramBuilder::finish(ValueRange results) { ir::ReturnOp::create(b, program.getLoc(), results); }

RankedTensorType ProgramBuilder::rows(ArrayRef<int64_t> row, Type elem) {
  SmallVector<int64_t> shape = {ShapedType::kDynamic};
  shape.append(row.begin(), row.end());
  return RankedTensorType::get(shape, elem);
}

static RankedTensorType typeOf(Value v) { return cast<RankedTensorType>(v.getType()); }

Value ProgramBuilder::use(StringRef weight) {
  ir::WeightOp op = context.weights.lookup(weight);
  assert(op && "the reader binds every weight of the model");
  return ir::UseOp::create(b, op.getLoc(), op.getTensorType(), op.getSymName());
}

Value ProgramBuilder::embed(Value ids, StringRef weight, StringRef site) {
  Value table = use(weight);
  return ir::EmbedOp::create(b, loc(site), rows(typeOf(table).getDimSize(1), context.compute), ids, table, site);
}

Value ProgramBuilder::norm(Value x, StringRef weight, double eps, StringRef site) {
  Value gamma = use(weight);
  auto type = typeOf(x).clone(context.compute);
  return ir::RmsNormOp::create(b, loc(site), /*sum=*/Type(), type, x, gamma, /*residual=*/Value(), b.getF64FloatAttr(eps),
                               b.getStringAttr(site))
      .getY();
}

Value ProgramBuilder::linear(Value x, StringRef weight, StringRef site, Type elem, ArrayRef<int64_t> row) {
  Value w = use(weight);
  int64_t n = typeOf(w).getDimSize(0);
  return ir::LinearOp::create(b, loc(site), rows(row.empty() ? ArrayRef(n) : row, elem), x, w, site);
}

Value ProgramBuilder::groupedLinear(Value x, StringRef weight, Value offsets, StringRef site, Type elem) {
  Value w = use(weight);
  return ir::GroupedLinearOp::create(b, loc(site), rows(typeOf(w).getDimSize(1), elem), x, w, offsets, site);
}

Value ProgramBuilder::swiglu(Value gate, Value up, StringRef site) {
  return ir::SwigluOp::create(b, loc(site), typeOf(gate).clone(context.compute), gate, up, site);
}

Value ProgramBuilder::add(Value x, Value y, StringRef site) {
  return ir::AddOp::create(b, loc(site), x.getType(), x, y, site);
}

Value ProgramBuilder::concat(ValueRange parts, StringRef site) {
  int64_t last = 0;
  for (Value part : parts)
    last += typeOf(part).getShape().back();
  return ir::ConcatOp::create(b, loc(site), rows(last, context.compute), parts, site);
}

Value ProgramBuilder::rope(Value x, int64_t at, StringRef site) {
  return ir::RopeOp::create(b, loc(site), x.getType(), x, seq, at, context.rope, site);
}

} // namespace dsv3
