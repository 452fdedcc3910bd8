// Verifiers. Messages name the operand and the dimension: "expected w dim 1 (256) to equal x dim 1 (128)".
#include "dialects/dsv3/Dsv3Dialect.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/FunctionImplementation.h"

using namespace mlir;

namespace dsv3::ir {

/// `custom<F64>`: MLIR itself prints 1.0e-06 as 9.9999999999999995E-7.
static ParseResult parseF64(OpAsmParser &parser, FloatAttr &attr) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  attr = parser.getBuilder().getF64FloatAttr(value);
  return success();
}
static void printF64(OpAsmPrinter &printer, Operation *, FloatAttr attr) { printer << shortest(attr.getValueAsDouble()); }

} // namespace dsv3::ir

#define GET_OP_CLASSES
#include "dialects/dsv3/Dsv3Ops.cpp.inc"

namespace dsv3::ir {

static RankedTensorType tensor(Value v) { return cast<RankedTensorType>(v.getType()); }

static LogicalResult expectRank(Operation *op, StringRef name, RankedTensorType t, int64_t rank) {
  if (t.getRank() != rank)
    return op->emitOpError() << "expected " << name << " of rank " << rank << ", got rank " << t.getRank();
  return success();
}

/// Sizes must be equal; a `?` equals only a `?`, since both mean the same class of rows.
static LogicalResult expectDim(Operation *op, StringRef a, RankedTensorType at, int64_t ad, StringRef b,
                               RankedTensorType bt, int64_t bd) {
  auto show = [](int64_t d) { return ShapedType::isDynamic(d) ? std::string("?") : std::to_string(d); };
  if (at.getDimSize(ad) != bt.getDimSize(bd))
    return op->emitOpError() << "expected " << a << " dim " << ad << " (" << show(at.getDimSize(ad)) << ") to equal " << b
                             << " dim " << bd << " (" << show(bt.getDimSize(bd)) << ")";
  return success();
}

static LogicalResult expectElem(Operation *op, StringRef name, RankedTensorType t, bool ok, StringRef expected) {
  if (!ok)
    return op->emitOpError() << "expected " << name << " of element type " << expected << ", got " << t.getElementType();
  return success();
}

static LogicalResult expectPlain(Operation *op, StringRef name, RankedTensorType t) {
  if (t.getEncoding())
    return op->emitOpError() << "expected " << name << " without encoding, got " << t;
  return success();
}

/// Numbers of a token row must not share a scale with another row: what a row becomes may depend on that row alone.
static LogicalResult expectRowScheme(Operation *op, StringRef name, RankedTensorType t) {
  auto scheme = dyn_cast_or_null<BlockedAttr>(t.getEncoding());
  if (t.getEncoding() && (!scheme || scheme.getBlock().size() < 2 || scheme.getBlock().drop_back().back() != 1))
    return op->emitOpError() << "expected " << name << " plain or with a scheme of blocks inside one row (1xN), got " << t;
  return success();
}

/// Size of all dims but the first: a row of [T, N] or [T, H, D].
static int64_t rowSize(RankedTensorType t) {
  int64_t n = 1;
  for (int64_t d : t.getShape().drop_front())
    n *= d;
  return n;
}

static LogicalResult expectRow(Operation *op, StringRef name, RankedTensorType t, int64_t size, StringRef what) {
  if (t.getRank() < 2 || rowSize(t) != size)
    return op->emitOpError() << "expected rows of " << name << " to have " << size << " values (" << what << "), got "
                             << (t.getRank() < 2 ? 0 : rowSize(t));
  return success();
}

static LogicalResult expectSame(Operation *op, StringRef a, RankedTensorType at, StringRef b, RankedTensorType bt) {
  if (at.getShape() != bt.getShape())
    return op->emitOpError() << "expected " << a << " and " << b << " of equal shape, got " << at << " and " << bt;
  return success();
}

//===-- Programs and weights ----------------------------------------------===//

ParseResult ProgramOp::parse(OpAsmParser &parser, OperationState &result) {
  auto build = [](Builder &b, ArrayRef<Type> in, ArrayRef<Type> out, function_interface_impl::VariadicFlag,
                  std::string &) { return b.getFunctionType(in, out); };
  return function_interface_impl::parseFunctionOp(parser, result, /*allowVariadic=*/false,
                                                  getFunctionTypeAttrName(result.name), build,
                                                  getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}
void ProgramOp::print(OpAsmPrinter &p) {
  function_interface_impl::printFunctionOp(p, *this, /*isVariadic=*/false, getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

StringRef ProgramOp::getArgName(unsigned i) {
  auto name = getArgAttrOfType<StringAttr>(i, "dsv3.name");
  return name ? name.getValue() : StringRef();
}
StringRef ProgramOp::getResultName(unsigned i) {
  auto name = getResultAttrOfType<StringAttr>(i, "dsv3.name");
  return name ? name.getValue() : StringRef();
}

LogicalResult ProgramOp::verify() {
  if (!getPhase())
    return success();
  if (!llvm::is_contained({"prefill", "decode", "score", "mtp"}, *getPhase()))
    return emitOpError() << "expected phase prefill, decode, score or mtp, got '" << *getPhase() << "'";
  if (!getTokens() || !getSeqs() || *getTokens() <= 0 || *getSeqs() <= 0)
    return emitOpError() << "expected positive tokens and seqs with a phase";
  return success();
}

LogicalResult ReturnOp::verify() {
  auto results = cast<ProgramOp>((*this)->getParentOp()).getFunctionType().getResults();
  if (getOperandTypes() != TypeRange(results))
    return emitOpError() << "expected operands of the program's result types " << results << ", got " << getOperandTypes();
  return success();
}

LogicalResult WeightOp::verify() {
  if (!isa<WeightSource>(getSource()))
    return emitOpError() << "expected a weight source, got " << getSource();
  if (!getTensorType().hasStaticShape())
    return emitOpError() << "expected a static shape, got " << getTensorType();
  if (isa<QuantizedSourceAttr>(getSource())) {
    auto scheme = dyn_cast_or_null<BlockedAttr>(getTensorType().getEncoding());
    if (!scheme || scheme.getZero() || scheme.getIndexed() || isa<Float8E5M2Type>(scheme.getStorage()) || scheme.getBlock().size() != 2)
      return emitOpError() << "expected a symmetric scheme of rows and columns to quantise to, got " << getTensorType();
  }
  if (BlockedAttr activation = getActivationAttr())
    if (activation.getBlock().size() != 2 || activation.getBlock()[0] != 1 || activation.getZero() || activation.getIndexed())
      return emitOpError() << "expected activations in blocks inside one row (1xN), without zero points or an index, got " << activation;
  return success();
}

LogicalResult UseOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = symbols.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight)
    return emitOpError() << "expected a dsv3.weight named " << getWeightAttr();
  if (weight.getType() != getType())
    return emitOpError() << "expected type " << weight.getType() << " of weight " << getWeightAttr() << ", got " << getType();
  return success();
}

//===-- Dense ops ---------------------------------------------------------===//

LogicalResult EmbedOp::verify() {
  auto ids = tensor(getIds()), table = tensor(getTable()), y = tensor(getResult());
  return success(succeeded(expectRank(*this, "ids", ids, 1)) && succeeded(expectRank(*this, "table", table, 2)) &&
                 succeeded(expectRank(*this, "result", y, 2)) &&
                 succeeded(expectElem(*this, "ids", ids, ids.getElementType().isInteger(32), "i32")) &&
                 succeeded(expectDim(*this, "result", y, 0, "ids", ids, 0)) &&
                 succeeded(expectDim(*this, "result", y, 1, "table", table, 1)));
}

LogicalResult RmsNormOp::verify() {
  auto x = tensor(getX()), gamma = tensor(getGamma()), y = tensor(getY());
  if (failed(expectRank(*this, "gamma", gamma, 1)) || failed(expectSame(*this, "x", x, "result", y)) ||
      failed(expectDim(*this, "gamma", gamma, 0, "x", x, x.getRank() - 1)))
    return failure();
  if (!(getEps().convertToDouble() > 0))
    return emitOpError() << "expected a positive eps";
  if (bool(getResidual()) != bool(getSum()))
    return emitOpError() << "expected a sum result exactly when there is a residual";
  if (getResidual() && (failed(expectSame(*this, "residual", tensor(getResidual()), "x", x)) ||
                        failed(expectSame(*this, "sum", tensor(getSum()), "x", x))))
    return failure();
  return success();
}

LogicalResult QuantizeOp::verify() {
  auto x = tensor(getX()), y = tensor(getResult());
  if (failed(expectPlain(*this, "x", x)) || failed(expectRank(*this, "result", y, 2)) ||
      failed(expectRow(*this, "x", x, y.getDimSize(1), "those of the result")) || failed(expectDim(*this, "result", y, 0, "x", x, 0)) ||
      failed(expectElem(*this, "result", y, x.getElementType() == y.getElementType(), "of x")))
    return failure();
  if (!y.getEncoding())
    return emitOpError() << "expected a result with a scheme, got " << y;
  return expectRowScheme(*this, "result", y);
}

static LogicalResult verifyLinear(Operation *op, Value xv, Value wv, StringRef wName, Value yv) {
  auto x = tensor(xv), w = tensor(wv), y = tensor(yv);
  if (failed(expectRank(op, wName, w, 2)) || failed(expectRowScheme(op, "x", x)) ||
      failed(expectRow(op, "x", x, w.getDimSize(1), "K of the weight")) ||
      failed(expectRow(op, "result", y, w.getDimSize(0), "N of the weight")))
    return failure();
  return expectDim(op, "result", y, 0, "x", x, 0);
}

LogicalResult LinearOp::verify() { return verifyLinear(*this, getX(), getW(), "w", getY()); }

LogicalResult GatedLinearOp::verify() {
  if (!isa<FloatType>(getVia()))
    return emitOpError() << "expected via to be a float type, got " << getVia();
  return success(succeeded(verifyLinear(*this, getX(), getWGate(), "w_gate", getY())) &&
                 succeeded(verifyLinear(*this, getX(), getWUp(), "w_up", getY())));
}

LogicalResult BatchedLinearOp::verify() {
  auto x = tensor(getX()), w = tensor(getW()), y = tensor(getY());
  return success(succeeded(expectRank(*this, "x", x, 3)) && succeeded(expectRank(*this, "w", w, 3)) &&
                 succeeded(expectRank(*this, "result", y, 3)) && succeeded(expectPlain(*this, "x", x)) &&
                 succeeded(expectDim(*this, "w", w, 0, "x", x, 1)) && succeeded(expectDim(*this, "w", w, 2, "x", x, 2)) &&
                 succeeded(expectDim(*this, "result", y, 0, "x", x, 0)) &&
                 succeeded(expectDim(*this, "result", y, 1, "x", x, 1)) &&
                 succeeded(expectDim(*this, "result", y, 2, "w", w, 1)));
}

LogicalResult SwigluOp::verify() {
  return success(succeeded(expectSame(*this, "gate", tensor(getGate()), "up", tensor(getUp()))) &&
                 succeeded(expectSame(*this, "gate", tensor(getGate()), "result", tensor(getY()))));
}

LogicalResult AddOp::verify() {
  return success(succeeded(expectSame(*this, "x", tensor(getX()), "y", tensor(getY()))) &&
                 succeeded(expectSame(*this, "x", tensor(getX()), "result", tensor(getResult()))));
}

/// Parts must have x's leading dims, and last dims that add up to x's.
static LogicalResult verifyParts(Operation *op, RankedTensorType whole, ValueRange parts) {
  int64_t sum = 0;
  if (parts.empty())
    return op->emitOpError() << "expected at least one part";
  for (Value part : parts) {
    auto t = tensor(part);
    if (t.getRank() != whole.getRank() || t.getShape().drop_back() != whole.getShape().drop_back() ||
        t.getElementType() != whole.getElementType())
      return op->emitOpError() << "expected parts that differ from " << whole << " in the last dim only, got " << t;
    sum += t.getShape().back();
  }
  if (sum != whole.getShape().back())
    return op->emitOpError() << "expected parts of " << whole.getShape().back() << " values in all, got " << sum;
  return success();
}

LogicalResult SplitOp::verify() { return verifyParts(*this, tensor(getX()), getParts()); }
LogicalResult ConcatOp::verify() { return verifyParts(*this, tensor(getResult()), getParts()); }

LogicalResult SelectRowsOp::verify() {
  auto x = tensor(getX()), y = tensor(getY());
  if (failed(expectRank(*this, "x", x, 2)) || failed(expectRank(*this, "result", y, 2)))
    return failure();
  return expectDim(*this, "result", y, 1, "x", x, 1);
}

//===-- Attention ---------------------------------------------------------===//

LogicalResult RopeOp::verify() {
  auto x = tensor(getX());
  int64_t last = x.getShape().back(), at = getAt(), dims = getRope().getDims();
  if (at < 0 || at + dims > last)
    return emitOpError() << "expected lanes [" << at << ", " << at + dims << ") inside x dim " << x.getRank() - 1 << " ("
                         << last << ")";
  return expectSame(*this, "x", x, "result", tensor(getResult()));
}

static LogicalResult verifyLayer(Operation *op, KvType kv, int64_t layer) {
  if (layer < 0 || layer >= kv.getLayers())
    return op->emitOpError() << "expected a layer below " << kv.getLayers() << ", got " << layer;
  return success();
}

LogicalResult KvAppendOp::verify() {
  KvType kv = getKv().getType();
  return success(succeeded(verifyLayer(*this, kv, getLayer())) &&
                 succeeded(expectRow(*this, "latent", tensor(getLatent()), kv.getLatent(), "latent of the cache")) &&
                 succeeded(expectRow(*this, "rope", tensor(getRope()), kv.getRope(), "rope of the cache")) &&
                 succeeded(expectDim(*this, "latent", tensor(getLatent()), 0, "rope", tensor(getRope()), 0)));
}

LogicalResult MlaAttentionOp::verify() {
  auto q = tensor(getQ()), w = tensor(getWKvb()), y = tensor(getY());
  KvType kv = getKv().getType();
  if (failed(verifyLayer(*this, kv, getLayer())) || failed(expectRank(*this, "q", q, 3)) ||
      failed(expectRank(*this, "w_kvb", w, 2)) || failed(expectRank(*this, "result", y, 3)) ||
      failed(expectDim(*this, "result", y, 0, "q", q, 0)) || failed(expectDim(*this, "result", y, 1, "q", q, 1)))
    return failure();
  int64_t nope = q.getDimSize(2) - kv.getRope(), rows = q.getDimSize(1) * (nope + y.getDimSize(2));
  if (nope <= 0)
    return emitOpError() << "expected q dim 2 (" << q.getDimSize(2) << ") above the cache's rope (" << kv.getRope() << ")";
  if (w.getDimSize(1) != kv.getLatent())
    return emitOpError() << "expected w_kvb dim 1 (" << w.getDimSize(1) << ") to equal the cache's latent (" << kv.getLatent() << ")";
  if (w.getDimSize(0) != rows)
    return emitOpError() << "expected w_kvb dim 0 (" << w.getDimSize(0) << ") to be heads * (nope + v) (" << rows << ")";
  return success();
}

LogicalResult LatentAttentionOp::verify() {
  auto ql = tensor(getQLatent()), qr = tensor(getQRope()), y = tensor(getY());
  KvType kv = getKv().getType();
  if (failed(verifyLayer(*this, kv, getLayer())) || failed(expectRank(*this, "q_latent", ql, 3)) ||
      failed(expectRank(*this, "q_rope", qr, 3)) || failed(expectSame(*this, "q_latent", ql, "result", y)) ||
      failed(expectDim(*this, "q_rope", qr, 0, "q_latent", ql, 0)) || failed(expectDim(*this, "q_rope", qr, 1, "q_latent", ql, 1)))
    return failure();
  if (ql.getDimSize(2) != kv.getLatent() || qr.getDimSize(2) != kv.getRope())
    return emitOpError() << "expected queries of " << kv.getLatent() << " and " << kv.getRope() << " lanes (the cache's row), got "
                         << ql.getDimSize(2) << " and " << qr.getDimSize(2);
  return success();
}

//===-- Mixture of experts ------------------------------------------------===//

/// The refusals of the router: every group must be able to have two best, and the kept groups enough experts.
static LogicalResult verifyRouting(Operation *op, RankedTensorType logits, RankedTensorType bias, int64_t groups, int64_t keep,
                                   int64_t top) {
  if (failed(expectRank(op, "logits", logits, 2)) || failed(expectRank(op, "bias", bias, 1)) ||
      failed(expectDim(op, "bias", bias, 0, "logits", logits, 1)) ||
      failed(expectElem(op, "logits", logits, logits.getElementType().isF32(), "f32")))
    return failure();
  int64_t experts = logits.getDimSize(1);
  if (groups <= 0 || experts % groups)
    return op->emitOpError() << "expected groups (" << groups << ") to divide the " << experts << " experts";
  if (experts / groups < 2)
    return op->emitOpError() << "expected groups of two experts or more, got groups of " << experts / groups;
  if (keep <= 0 || keep > groups)
    return op->emitOpError() << "expected keep between 1 and " << groups << " groups, got " << keep;
  if (top <= 0 || keep * (experts / groups) < top)
    return op->emitOpError() << "expected top (" << top << ") of at most the " << keep * (experts / groups) << " experts kept";
  return success();
}

LogicalResult RouteOp::verify() {
  auto ids = tensor(getIds()), weights = tensor(getWeights());
  if (failed(verifyRouting(*this, tensor(getLogits()), tensor(getBias()), getGroups(), getKeep(), getTop())) ||
      failed(expectRank(*this, "ids", ids, 2)) || failed(expectSame(*this, "ids", ids, "weights", weights)) ||
      failed(expectElem(*this, "ids", ids, ids.getElementType().isInteger(32), "i32")) ||
      failed(expectElem(*this, "weights", weights, weights.getElementType().isF32(), "f32")))
    return failure();
  if (ids.getDimSize(1) != int64_t(getTop()))
    return emitOpError() << "expected ids dim 1 (" << ids.getDimSize(1) << ") to equal top (" << getTop() << ")";
  return success();
}

LogicalResult DispatchOp::verify() {
  auto x = tensor(getX()), rows = tensor(getRows()), offsets = tensor(getOffsets());
  if (failed(expectRank(*this, "x", x, 2)) || failed(expectRank(*this, "rows", rows, 2)) || failed(expectRowScheme(*this, "x", x)) ||
      failed(expectRank(*this, "offsets", offsets, 1)) || failed(expectDim(*this, "rows", rows, 1, "x", x, 1)) ||
      failed(expectSame(*this, "row_of", tensor(getRowOf()), "ids", tensor(getIds()))))
    return failure();
  if (rows.getEncoding() != x.getEncoding())
    return emitOpError() << "expected rows in the scheme of x, got " << rows << " and " << x;
  if (offsets.getDimSize(0) != int64_t(getExperts()) + 1)
    return emitOpError() << "expected offsets of " << getExperts() + 1 << " entries, got " << offsets.getDimSize(0);
  return success();
}

LogicalResult GroupedLinearOp::verify() {
  auto x = tensor(getX()), w = tensor(getW()), y = tensor(getY()), offsets = tensor(getOffsets());
  if (failed(expectRank(*this, "x", x, 2)) || failed(expectRowScheme(*this, "x", x)) || failed(expectRank(*this, "w", w, 3)) ||
      failed(expectRank(*this, "result", y, 2)) || failed(expectDim(*this, "w", w, 2, "x", x, 1)) || failed(expectDim(*this, "result", y, 1, "w", w, 1)) ||
      failed(expectDim(*this, "result", y, 0, "x", x, 0)))
    return failure();
  if (offsets.getDimSize(0) != w.getDimSize(0) + 1)
    return emitOpError() << "expected offsets of " << w.getDimSize(0) + 1 << " entries, got " << offsets.getDimSize(0);
  return success();
}

LogicalResult CombineOp::verify() {
  auto rows = tensor(getRows()), y = tensor(getY()), weights = tensor(getWeights());
  if (failed(expectRank(*this, "rows", rows, 2)) || failed(expectRank(*this, "result", y, 2)) ||
      failed(expectDim(*this, "result", y, 1, "rows", rows, 1)) ||
      failed(expectSame(*this, "row_of", tensor(getRowOf()), "weights", weights)) ||
      failed(expectDim(*this, "result", y, 0, "weights", weights, 0)))
    return failure();
  return getPlus() ? expectSame(*this, "plus", tensor(getPlus()), "result", y) : success();
}

LogicalResult RoutedExpertsOp::verify() {
  auto x = tensor(getX()), gate = tensor(getWGate()), up = tensor(getWUp()), down = tensor(getWDown());
  if (failed(verifyRouting(*this, tensor(getLogits()), tensor(getBias()), getGroups(), getKeep(), getTop())) ||
      failed(expectRank(*this, "x", x, 2)) || failed(expectRowScheme(*this, "x", x)) || failed(expectRank(*this, "w_gate", gate, 3)) ||
      failed(expectRank(*this, "w_down", down, 3)) || failed(expectSame(*this, "w_gate", gate, "w_up", up)) ||
      failed(expectDim(*this, "w_gate", gate, 0, "logits", tensor(getLogits()), 1)) ||
      failed(expectDim(*this, "w_gate", gate, 2, "x", x, 1)) || failed(expectDim(*this, "w_down", down, 0, "w_gate", gate, 0)) ||
      failed(expectDim(*this, "w_down", down, 2, "w_gate", gate, 1)) || failed(expectDim(*this, "w_down", down, 1, "x", x, 1)) ||
      failed(expectSame(*this, "x", x, "result", tensor(getY()))))
    return failure();
  return getPlus() ? expectSame(*this, "plus", tensor(getPlus()), "result", tensor(getY())) : success();
}

} // namespace dsv3::ir
