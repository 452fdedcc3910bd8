#include "tools/compile-model/kernels/CaseBuilder.h"

using namespace mlir;

namespace dsv3 {

CaseBuilder::CaseBuilder(ModuleOp module, const bench::ShapeEntry &entry, const std::string &symbol)
    : entry(entry), b(module.getContext()), loc(NameLoc::get(StringAttr::get(module.getContext(), entry.name))), T(entry.tokens),
      module(module), symbol(symbol) {
  b.setInsertionPointToEnd(module.getBody());
  program = ir::ProgramOp::create(b, loc, b.getStringAttr(symbol), TypeAttr::get(b.getFunctionType({}, {})), b.getStringAttr(entry.phase),
                                  b.getI64IntegerAttr(entry.tokens), b.getI64IntegerAttr(entry.seqs), ArrayAttr(), ArrayAttr());
  body = &program.getBody().emplaceBlock();
  b.setInsertionPointToEnd(body);
}

void CaseBuilder::fail(const std::string &message) {
  if (status)
    status = usageError(message);
}

int64_t CaseBuilder::size(const char *key) {
  Result<int64_t> n = JsonFields(entry.json, entry.name).integer(key, 1, int64_t(1) << 31);
  if (!n)
    fail(n.error().message);
  return n ? *n : 1;
}

int64_t CaseBuilder::sizeOr(const char *key, int64_t fallback) {
  Result<int64_t> n = JsonFields(entry.json, entry.name).integerOr(key, fallback, 0, int64_t(1) << 31);
  if (!n)
    fail(n.error().message);
  return n ? *n : fallback;
}

double CaseBuilder::numberOr(const char *key, double fallback) {
  Result<double> n = JsonFields(entry.json, entry.name).numberOr(key, fallback);
  if (!n)
    fail(n.error().message);
  return n ? *n : fallback;
}

bool CaseBuilder::flagOr(const char *key, bool fallback) {
  Result<bool> v = JsonFields(entry.json, entry.name).booleanOr(key, fallback);
  if (!v)
    fail(v.error().message);
  return v ? *v : fallback;
}

Type CaseBuilder::elem(const char *key, const char *fallback) {
  Result<std::string> name = JsonFields(entry.json, entry.name).stringOr(key, fallback);
  if (name && *name == "f32")
    return b.getF32Type();
  if (!name || *name != "bf16")
    fail(entry.name + ": " + key + ": expected bf16 or f32, got " + (name ? "'" + printable(*name) + "'" : name.error().message));
  return b.getBF16Type();
}

Value CaseBuilder::input(StringRef name, ArrayRef<int64_t> shape, Type elem) {
  argNames.push_back(name.str());
  return body->addArgument(tensor(shape, elem), loc);
}

Value CaseBuilder::inputView(StringRef name, ArrayRef<int64_t> shape, Type elem, const char *colsKey, const char *atKey) {
  int64_t cols = sizeOr(colsKey, shape.back()), at = sizeOr(atKey, 0);
  if (at + shape.back() > cols) {
    fail(entry.name + ": expected lanes [" + std::to_string(at) + ", " + std::to_string(at + shape.back()) + ") inside " + std::to_string(cols));
    cols = at + shape.back();
  }
  SmallVector<int64_t> whole(shape);
  whole.back() = cols;
  return view(input(name, whole, elem), at, shape);
}

ir::BlockedAttr CaseBuilder::scheme(const char *key, bool weight, const char *fallback) {
  Result<std::string> kind = JsonFields(entry.json, entry.name).stringOr(key, fallback);
  auto blocks = [&](Type storage, int64_t rows, int64_t lanes) {
    return ir::BlockedAttr::get(b.getContext(), storage, {rows, lanes}, b.getF32Type(), false);
  };
  if (kind && *kind == "fp8")
    return blocks(Float8E4M3FNType::get(b.getContext()), weight ? 128 : 1, 128);
  if (kind && *kind == "fp8row")
    return blocks(Float8E4M3FNType::get(b.getContext()), 1, ShapedType::kDynamic);
  if (kind && (*kind == "int8" || *kind == "int8x128"))
    return blocks(b.getI8Type(), 1, *kind == "int8" ? ShapedType::kDynamic : 128);
  if (kind && (*kind == "int4" || *kind == "int4x128"))
    return blocks(b.getIntegerType(4), 1, *kind == "int4" ? ShapedType::kDynamic : 128);
  return {};
}

Value CaseBuilder::inputRows(StringRef name, ArrayRef<int64_t> shape) {
  ir::BlockedAttr codes = scheme("x");
  if (!codes)
    return inputView(name, shape, elem("x"));
  argNames.push_back(name.str());
  return body->addArgument(RankedTensorType::get(shape, b.getBF16Type(), codes), loc);
}

Value CaseBuilder::view(Value source, int64_t at, ArrayRef<int64_t> shape) {
  auto type = tensor(shape, cast<RankedTensorType>(source.getType()).getElementType());
  return type == source.getType() ? source : Value(kernel::ViewOp::create(b, loc, type, source, b.getI64IntegerAttr(at)));
}

Value CaseBuilder::plainWeight(StringRef name, ArrayRef<int64_t> shape, Type elem) {
  std::string full = symbol + "." + name.str();
  OpBuilder outside(b.getContext());
  outside.setInsertionPoint(program);
  // The recipe only has to be different from that of every other weight, so that no two share a place.
  auto type = tensor(shape, elem);
  ir::WeightOp::create(outside, loc, full, type, ir::DummySourceAttr::get(b.getContext(), b.getStringAttr(full), 0.02));
  return ir::UseOp::create(b, loc, type, full);
}

Value CaseBuilder::weight(StringRef name, ArrayRef<int64_t> shape, const char *key) {
  ir::BlockedAttr codes = scheme(key, /*weight=*/true);
  if (!codes)
    return plainWeight(name, shape, elem(key));
  std::string full = symbol + "." + name.str();
  auto type = RankedTensorType::get(shape, b.getBF16Type(), codes);
  OpBuilder outside(b.getContext());
  outside.setInsertionPoint(program);
  ir::WeightOp::create(outside, loc, full, type, ir::DummySourceAttr::get(b.getContext(), b.getStringAttr(full), 0.02));
  return ir::UseOp::create(b, loc, type, full);
}

Value CaseBuilder::output(ArrayRef<int64_t> shape, Type elem) { return kernel::EmptyOp::create(b, loc, tensor(shape, elem)); }

Value CaseBuilder::outputRows(ArrayRef<int64_t> shape) { return scheme("out") ? outputCodes(shape, "out") : output(shape, elem("out")); }
Value CaseBuilder::outputCodes(ArrayRef<int64_t> shape, const char *key) {
  ir::BlockedAttr codes = scheme(key, /*weight=*/false, "fp8");
  if (!codes)
    fail(entry.name + ": " + key + ": expected fp8, fp8row, int8 or int8x128");
  return kernel::EmptyOp::create(b, loc, RankedTensorType::get(shape, b.getBF16Type(), codes));
}

Value CaseBuilder::seq() {
  argNames.push_back("seq");
  return body->addArgument(ir::SeqType::get(b.getContext()), loc);
}

Value CaseBuilder::cache() {
  argNames.push_back("kv");
  Result<std::string> kind = JsonFields(entry.json, entry.name).stringOr("kv", "bf16");
  bool e5m2 = kind && *kind == "fp8_e5m2", coded = e5m2 || (kind && *kind == "fp8_e4m3");
  Type codes = e5m2 ? Type(Float8E5M2Type::get(b.getContext())) : Type(Float8E4M3FNType::get(b.getContext()));
  Attribute scheme = coded ? ir::BlockedAttr::get(b.getContext(), codes, {1, ShapedType::kDynamic}, b.getF32Type(), false) : ir::BlockedAttr();
  return body->addArgument(ir::KvType::get(b.getContext(), sizeOr("layers", 1), 64, sizeOr("latent", 512), sizeOr("rope_dims", 64),
                                           coded ? b.getBF16Type() : elem("kv"), scheme),
                           loc);
}

Status CaseBuilder::finish() {
  if (!status)
    return status;
  auto named = [&](StringRef name) { return b.getDictionaryAttr(b.getNamedAttr("dsv3.name", b.getStringAttr(name))); };
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<Attribute> args, names;
  for (const std::string &name : argNames)
    args.push_back(named(name));
  for (auto &[name, value] : results) {
    values.push_back(value);
    types.push_back(value.getType());
    names.push_back(named(name));
  }
  ir::ReturnOp::create(b, loc, values);
  program.setFunctionType(b.getFunctionType(body->getArgumentTypes(), types));
  program.setArgAttrsAttr(b.getArrayAttr(args));
  program.setResAttrsAttr(b.getArrayAttr(names));
  return {};
}

Status addCase(ModuleOp module, const bench::ShapeEntry &entry, const std::string &symbol) {
  CaseFn build = findCase(entry.op);
  if (!build)
    return usageError(entry.name + ": op: expected one of " + caseNames() + ", got '" + printable(entry.op) + "'");
  CaseBuilder c(module, entry, symbol);
  build(c);
  return c.finish();
}

} // namespace dsv3
