// Verifiers of launches: messages name the operand and the dimension.
#include "dialects/kernel/KernelDialect.h"

#include "runtime/core/Abi.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

#include "dialects/kernel/KernelInterfaces.cpp.inc"

using namespace mlir;

namespace dsv3::kernel {

/// `custom<F64>`, as in the dsv3 dialect: 1.0e-06, not 9.9999999999999995E-7.
static ParseResult parseF64(OpAsmParser &parser, FloatAttr &attr) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  attr = parser.getBuilder().getF64FloatAttr(value);
  return success();
}
static void printF64(OpAsmPrinter &printer, Operation *, FloatAttr attr) { printer << ir::shortest(attr.getValueAsDouble()); }

} // namespace dsv3::kernel

#define GET_OP_CLASSES
#include "dialects/kernel/KernelOps.cpp.inc"

namespace dsv3::kernel {

RowAccess getRowAccess(Value value) {
  int64_t offset = 0, joined = 0;
  while (auto view = value.getDefiningOp<ViewOp>()) {
    offset += view.getOffset();
    if (view.joinsHeads())
      joined = view.getType().getShape().back();
    value = view.getSource();
  }
  return {value, joined ? joined : cast<RankedTensorType>(value.getType()).getShape().back(), offset};
}

bool ViewOp::joinsHeads() { return cast<RankedTensorType>(getSource().getType()).getRank() != getType().getRank(); }

static RankedTensorType tensor(Value v) { return cast<RankedTensorType>(v.getType()); }

static LogicalResult expectRank(Operation *op, StringRef name, Value v, int64_t rank) {
  if (tensor(v).getRank() != rank)
    return op->emitOpError() << "expected " << name << " of rank " << rank << ", got rank " << tensor(v).getRank();
  return success();
}

static LogicalResult expectDim(Operation *op, StringRef a, Value av, int64_t ad, StringRef b, Value bv, int64_t bd) {
  if (tensor(av).getDimSize(ad) != tensor(bv).getDimSize(bd))
    return op->emitOpError() << "expected " << a << " dim " << ad << " (" << tensor(av).getDimSize(ad) << ") to equal " << b
                             << " dim " << bd << " (" << tensor(bv).getDimSize(bd) << ")";
  return success();
}

static LogicalResult expectSame(Operation *op, StringRef a, Value av, StringRef b, Value bv) {
  if (tensor(av).getShape() != tensor(bv).getShape())
    return op->emitOpError() << "expected " << a << " and " << b << " of equal shape, got " << tensor(av) << " and " << tensor(bv);
  return success();
}

/// Rows of [T, N] or [T, H, D] have `size` values.
static LogicalResult expectRow(Operation *op, StringRef name, Value v, int64_t size, StringRef what) {
  int64_t n = 1;
  for (int64_t d : tensor(v).getShape().drop_front())
    n *= d;
  if (tensor(v).getRank() < 2 || n != size)
    return op->emitOpError() << "expected rows of " << name << " to have " << size << " values (" << what << "), got " << n;
  return success();
}

//===-- Values ------------------------------------------------------------===//

LogicalResult ViewOp::verify() {
  auto s = tensor(getSource()), r = tensor(getResult());
  if (s.getRank() == 3 && r.getRank() == 2) {
    bool whole = !getSource().getDefiningOp<ViewOp>() && getOffset() == 0 && s.getElementType() == r.getElementType() &&
                 s.getDimSize(0) == r.getDimSize(0) && s.getDimSize(1) * s.getDimSize(2) == r.getDimSize(1);
    return whole ? success() : LogicalResult(emitOpError() << "expected all heads of whole rows to be joined, got " << s << " and " << r);
  }
  if (s.getRank() != r.getRank() || s.getShape().drop_back() != r.getShape().drop_back() || s.getElementType() != r.getElementType())
    return emitOpError() << "expected a result that differs from " << s << " in the last dim only, got " << r;
  int64_t begin = getOffset(), end = begin + r.getShape().back();
  if (begin < 0 || end > s.getShape().back())
    return emitOpError() << "expected lanes [" << begin << ", " << end << ") inside " << s.getShape().back();
  return success();
}

LogicalResult WeightOp::verify() {
  if (int64_t(getOffset()) % 4096)
    return emitOpError() << "expected an offset that is a multiple of 4096, got " << getOffset();
  if (!isa_and_nonnull<PackedAttr>(getTensorType().getEncoding()))
    return emitOpError() << "expected a packed type, got " << getTensorType();
  if (int64_t(getBytes()) != getPackedBytes(getTensorType()))
    return emitOpError() << "expected " << getPackedBytes(getTensorType()) << " bytes for " << getTensorType() << ", got " << getBytes();
  return success();
}

LogicalResult UseOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto weight = symbols.lookupNearestSymbolFrom<WeightOp>(*this, getWeightAttr());
  if (!weight)
    return emitOpError() << "expected a kernel.weight named " << getWeightAttr();
  if (weight.getType() != getType())
    return emitOpError() << "expected type " << weight.getType() << " of weight " << getWeightAttr() << ", got " << getType();
  return success();
}

//===-- Dense launches ----------------------------------------------------===//

LogicalResult EmbedOp::verify() {
  return success(succeeded(expectRank(*this, "ids", getIds(), 1)) && succeeded(expectRank(*this, "table", getTable(), 2)) &&
                 succeeded(expectRank(*this, "out", getOut(), 2)) && succeeded(expectDim(*this, "out", getOut(), 0, "ids", getIds(), 0)) &&
                 succeeded(expectDim(*this, "out", getOut(), 1, "table", getTable(), 1)));
}

LogicalResult NormOp::verify() {
  return success(succeeded(expectSame(*this, "x", getX(), "out", getOut())) && succeeded(expectRank(*this, "gamma", getGamma(), 1)) &&
                 succeeded(expectDim(*this, "gamma", getGamma(), 0, "x", getX(), tensor(getX()).getRank() - 1)));
}

LogicalResult AddNormOp::verify() {
  if (getSumOut().getType() != getSum().getType() || getOut().getType() != getResult().getType())
    return emitOpError() << "expected results of the destinations' types";
  return success(succeeded(expectSame(*this, "x", getX(), "residual", getResidual())) &&
                 succeeded(expectSame(*this, "x", getX(), "sum_out", getSumOut())) &&
                 succeeded(expectSame(*this, "x", getX(), "out", getOut())) && succeeded(expectRank(*this, "gamma", getGamma(), 1)) &&
                 succeeded(expectDim(*this, "gamma", getGamma(), 0, "x", getX(), tensor(getX()).getRank() - 1)));
}

LogicalResult AddNormQuantizeOp::verify() {
  if (getSumOut().getType() != getSum().getType() || getOut().getType() != getResult().getType() || getCodesOut().getType() != getCodes().getType())
    return emitOpError() << "expected results of the destinations' types";
  auto out = tensor(getOut()), codes = tensor(getCodesOut());
  if (out.getEncoding() || !isa_and_nonnull<ir::QuantScheme>(codes.getEncoding()))
    return emitOpError() << "expected a plain out and a codes_out with a scheme, got " << out << " and " << codes;
  return success(succeeded(expectSame(*this, "x", getX(), "residual", getResidual())) &&
                 succeeded(expectSame(*this, "x", getX(), "sum_out", getSumOut())) &&
                 succeeded(expectSame(*this, "x", getX(), "out", getOut())) && succeeded(expectSame(*this, "x", getX(), "codes_out", getCodesOut())) &&
                 succeeded(expectRank(*this, "gamma", getGamma(), 1)) &&
                 succeeded(expectDim(*this, "gamma", getGamma(), 0, "x", getX(), tensor(getX()).getRank() - 1)));
}

static LogicalResult verifyGemm(Operation *op, Value x, StringRef wName, Value w, Value out) {
  return success(succeeded(expectRank(op, wName, w, 2)) &&
                 succeeded(expectRow(op, "x", x, tensor(w).getDimSize(1), "K of the weight")) &&
                 succeeded(expectRow(op, "out", out, tensor(w).getDimSize(0), "N of the weight")) &&
                 succeeded(expectDim(op, "out", out, 0, "x", x, 0)));
}
LogicalResult GemmOp::verify() { return verifyGemm(*this, getX(), "w", getW(), getOut()); }
LogicalResult GatedGemmOp::verify() {
  return success(succeeded(verifyGemm(*this, getX(), "w_gate", getWGate(), getOut())) &&
                 succeeded(verifyGemm(*this, getX(), "w_up", getWUp(), getOut())));
}

LogicalResult BatchedGemmOp::verify() {
  return success(succeeded(expectRank(*this, "x", getX(), 3)) && succeeded(expectRank(*this, "w", getW(), 3)) &&
                 succeeded(expectRank(*this, "out", getOut(), 3)) && succeeded(expectDim(*this, "w", getW(), 0, "x", getX(), 1)) &&
                 succeeded(expectDim(*this, "w", getW(), 2, "x", getX(), 2)) &&
                 succeeded(expectDim(*this, "out", getOut(), 0, "x", getX(), 0)) &&
                 succeeded(expectDim(*this, "out", getOut(), 1, "x", getX(), 1)) &&
                 succeeded(expectDim(*this, "out", getOut(), 2, "w", getW(), 1)));
}

LogicalResult QuantizeOp::verify() {
  auto x = tensor(getX()), out = tensor(getOut());
  if (failed(expectSame(*this, "x", getX(), "out", getOut())))
    return failure();
  if (x.getEncoding() || !isa_and_nonnull<ir::QuantScheme>(out.getEncoding()))
    return emitOpError() << "expected a plain x and an out with a scheme, got " << x << " and " << out;
  return success();
}

LogicalResult AddOp::verify() {
  return success(succeeded(expectSame(*this, "x", getX(), "y", getY())) && succeeded(expectSame(*this, "x", getX(), "out", getOut())));
}
LogicalResult SwigluOp::verify() {
  return success(succeeded(expectSame(*this, "gate", getGate(), "up", getUp())) &&
                 succeeded(expectSame(*this, "gate", getGate(), "out", getOut())));
}

LogicalResult ConcatOp::verify() {
  if (failed(expectRank(*this, "x", getX(), 2)) || failed(expectRank(*this, "y", getY(), 2)) || failed(expectRank(*this, "out", getOut(), 2)) ||
      failed(expectDim(*this, "y", getY(), 0, "x", getX(), 0)) || failed(expectDim(*this, "out", getOut(), 0, "x", getX(), 0)))
    return failure();
  int64_t sum = tensor(getX()).getDimSize(1) + tensor(getY()).getDimSize(1);
  if (tensor(getOut()).getDimSize(1) != sum)
    return emitOpError() << "expected out dim 1 (" << tensor(getOut()).getDimSize(1) << ") to be the sum of x and y (" << sum << ")";
  return success();
}

LogicalResult SelectRowsOp::verify() {
  return success(succeeded(expectRank(*this, "x", getX(), 2)) && succeeded(expectRank(*this, "out", getOut(), 2)) &&
                 succeeded(expectDim(*this, "out", getOut(), 1, "x", getX(), 1)));
}

LogicalResult SampleOp::verify() {
  if (failed(expectRank(*this, "logits", getLogits(), 2)) || failed(expectRank(*this, "out", getOut(), 2)) ||
      failed(expectDim(*this, "out", getOut(), 0, "logits", getLogits(), 0)))
    return failure();
  if (!tensor(getOut()).getElementType().isInteger(32) || tensor(getOut()).getDimSize(1) != DSV3_SAMPLED_WORDS)
    return emitOpError() << "expected out of " << int(DSV3_SAMPLED_WORDS) << " i32 a row, got " << tensor(getOut());
  return success();
}

//===-- Attention ---------------------------------------------------------===//

static LogicalResult expectTable(Operation *op, Value table, ir::RopeAttr rope) {
  if (failed(expectRank(op, "table", table, 2)))
    return failure();
  if (tensor(table).getDimSize(1) != rope.getDims() || !tensor(table).getElementType().isF32())
    return op->emitOpError() << "expected table rows of " << rope.getDims() << " f32 values, got " << tensor(table);
  return success();
}

static LogicalResult expectLayer(Operation *op, ir::KvType kv, int64_t layer) {
  if (layer < 0 || layer >= kv.getLayers())
    return op->emitOpError() << "expected a layer below " << kv.getLayers() << ", got " << layer;
  return success();
}

LogicalResult RopeOp::verify() {
  int64_t at = getAt(), last = tensor(getX()).getShape().back();
  if (at < 0 || at + getRope().getDims() > last)
    return emitOpError() << "expected lanes [" << at << ", " << at + getRope().getDims() << ") inside x (" << last << ")";
  return success(succeeded(expectSame(*this, "x", getX(), "out", getOut())) && succeeded(expectTable(*this, getTable(), getRope())));
}

LogicalResult KvAppendOp::verify() {
  auto kv = getKv().getType();
  if (failed(expectLayer(*this, kv, getLayer())) || failed(expectTable(*this, getTable(), getRope())) ||
      failed(expectRow(*this, "kv_a", getKvA(), kv.getLatent() + kv.getRope(), "latent and rope of the cache")) ||
      failed(expectRank(*this, "gamma", getGamma(), 1)))
    return failure();
  if (tensor(getGamma()).getDimSize(0) != kv.getLatent())
    return emitOpError() << "expected gamma of " << kv.getLatent() << " values (latent of the cache), got " << tensor(getGamma()).getDimSize(0);
  return success();
}

static LogicalResult expectRows(Operation *op, StringRef name, Value rows, ir::KvType kv) {
  RankedTensorType type = tensor(rows);
  int64_t width = kv.getLatent() + kv.getRope();
  if (type.getRank() != 3 || type.getDimSize(1) != kv.getPage() || type.getDimSize(2) != width || type.getElementType() != kv.getElem())
    return op->emitOpError() << "expected " << name << " [KB, " << kv.getPage() << ", " << width << "] of " << kv.getElem() << ", got " << type;
  return success();
}

LogicalResult KvRowsOp::verify() {
  auto kv = getKv().getType();
  if (!kv.getScheme())
    return emitOpError() << "expected a cache whose latent is stored as codes, got " << kv;
  return success(succeeded(expectLayer(*this, kv, getLayer())) && succeeded(expectRows(*this, "out", getOut(), kv)));
}

LogicalResult KvExpandOp::verify() {
  auto kv = getKv().getType();
  if (getKeysOut().getType() != getKeys().getType() || getValuesOut().getType() != getValues().getType())
    return emitOpError() << "expected results of the destinations' types";
  if (failed(expectLayer(*this, kv, getLayer())) || failed(expectRank(*this, "w_k", getWK(), 3)) || failed(expectRank(*this, "w_v", getWV(), 3)) ||
      failed(expectRank(*this, "keys_out", getKeysOut(), 4)) || failed(expectRank(*this, "values_out", getValuesOut(), 4)) ||
      failed(expectDim(*this, "w_v", getWV(), 0, "w_k", getWK(), 0)) || failed(expectDim(*this, "keys_out", getKeysOut(), 1, "w_k", getWK(), 0)) ||
      failed(expectDim(*this, "values_out", getValuesOut(), 1, "w_k", getWK(), 0)) ||
      failed(expectDim(*this, "values_out", getValuesOut(), 3, "w_v", getWV(), 1)) ||
      failed(expectDim(*this, "values_out", getValuesOut(), 0, "keys_out", getKeysOut(), 0)))
    return failure();
  if (getRows() && (failed(expectRows(*this, "rows", getRows(), kv)) || failed(expectDim(*this, "rows", getRows(), 0, "keys_out", getKeysOut(), 0))))
    return failure();
  int64_t lanes = tensor(getWK()).getDimSize(1) + kv.getRope(), lane = getKeyRows() ? 3 : 2;
  if (tensor(getKeysOut()).getDimSize(lane) != lanes)
    return emitOpError() << "expected keys_out dim " << lane << " (" << tensor(getKeysOut()).getDimSize(lane) << ") to be nope + rope ("
                         << lanes << ")";
  if (tensor(getKeysOut()).getDimSize(5 - lane) != kv.getPage() || tensor(getValuesOut()).getDimSize(2) != kv.getPage())
    return emitOpError() << "expected key blocks of one page (" << kv.getPage() << " keys)";
  return success();
}

LogicalResult AttnPrefillOp::verify() {
  return success(succeeded(expectRank(*this, "q", getQ(), 3)) && succeeded(expectRank(*this, "keys", getKeys(), 4)) &&
                 succeeded(expectRank(*this, "values", getValues(), 4)) && succeeded(expectRank(*this, "out", getOut(), 3)) &&
                 succeeded(expectDim(*this, "keys", getKeys(), 1, "q", getQ(), 1)) && succeeded(expectDim(*this, "keys", getKeys(), getKeyRows() ? 3 : 2, "q", getQ(), 2)) &&
                 succeeded(expectDim(*this, "out", getOut(), 0, "q", getQ(), 0)) && succeeded(expectDim(*this, "out", getOut(), 1, "q", getQ(), 1)) &&
                 succeeded(expectDim(*this, "out", getOut(), 2, "values", getValues(), 3)));
}

LogicalResult AttnDecodeOp::verify() {
  auto kv = getKv().getType();
  if (failed(expectLayer(*this, kv, getLayer())) || failed(expectRank(*this, "q_latent", getQLatent(), 3)) ||
      failed(expectRank(*this, "q_rope", getQRope(), 3)) || failed(expectSame(*this, "q_latent", getQLatent(), "out", getOut())) ||
      failed(expectDim(*this, "q_rope", getQRope(), 1, "q_latent", getQLatent(), 1)))
    return failure();
  if (tensor(getQLatent()).getDimSize(2) != kv.getLatent() || tensor(getQRope()).getDimSize(2) != kv.getRope())
    return emitOpError() << "expected queries of " << kv.getLatent() << " and " << kv.getRope() << " lanes (the cache's row)";
  return success();
}

static LogicalResult expectElem(Operation *op, StringRef name, Value v, bool right, StringRef what) {
  if (!right)
    return op->emitOpError() << "expected " << name << " of " << what << ", got " << tensor(v);
  return success();
}
static LogicalResult expectI32(Operation *op, StringRef name, Value v, int64_t rank) {
  return success(succeeded(expectRank(op, name, v, rank)) &&
                 succeeded(expectElem(op, name, v, tensor(v).getElementType().isInteger(32), "i32")));
}
static LogicalResult expectF32(Operation *op, StringRef name, Value v, int64_t rank) {
  return success(succeeded(expectRank(op, name, v, rank)) && succeeded(expectElem(op, name, v, tensor(v).getElementType().isF32(), "f32")));
}
static LogicalResult expectItems(Operation *op, StringRef name, Value items) {
  if (failed(expectI32(op, name, items, 2)))
    return failure();
  if (tensor(items).getDimSize(1) != 5)
    return op->emitOpError() << "expected " << name << " dim 1 (" << tensor(items).getDimSize(1) << ") to be 5";
  return success();
}

LogicalResult AttnPlanOp::verify() {
  if (getItemsOut().getType() != getItems().getType() || getPartsOut().getType() != getParts().getType() ||
      getSplitsOut().getType() != getSplits().getType())
    return emitOpError() << "expected results of the destinations' types";
  if (failed(expectItems(*this, "items_out", getItemsOut())) || failed(expectI32(*this, "parts_out", getPartsOut(), 1)) ||
      failed(expectI32(*this, "splits_out", getSplitsOut(), 1)))
    return failure();
  int64_t seqs = tensor(getSplitsOut()).getDimSize(0) - 1, parts = tensor(getPartsOut()).getDimSize(0) - 1;
  if (seqs < 1 || parts < 1)
    return emitOpError() << "expected at least one sequence and one partition, got " << seqs << " and " << parts;
  int64_t least = getSplit().isEven() ? parts + seqs : seqs * getSplit().getMax();
  if (tensor(getItemsOut()).getDimSize(0) < least)
    return emitOpError() << "expected items_out for " << least << " items or more, got " << tensor(getItemsOut()).getDimSize(0);
  return success();
}

LogicalResult AttnSplitOp::verify() {
  auto kv = getKv().getType();
  if (getOut().getType() != getResult().getType() || getPartialOut().getType() != getPartial().getType() ||
      getLseOut().getType() != getLse().getType())
    return emitOpError() << "expected results of the destinations' types";
  if (failed(expectLayer(*this, kv, getLayer())) || failed(expectRank(*this, "q_latent", getQLatent(), 3)) ||
      failed(expectRank(*this, "q_rope", getQRope(), 3)) || failed(expectRank(*this, "out", getOut(), 3)) ||
      failed(expectDim(*this, "q_rope", getQRope(), 1, "q_latent", getQLatent(), 1)) || failed(expectItems(*this, "items", getItems())) ||
      failed(expectI32(*this, "parts", getParts(), 1)) || failed(expectF32(*this, "partial_out", getPartialOut(), 3)) ||
      failed(expectF32(*this, "lse_out", getLseOut(), 2)) ||
      failed(expectDim(*this, "partial_out", getPartialOut(), 1, "q_latent", getQLatent(), 1)) ||
      failed(expectDim(*this, "partial_out", getPartialOut(), 2, "q_latent", getQLatent(), 2)) ||
      failed(expectDim(*this, "lse_out", getLseOut(), 0, "partial_out", getPartialOut(), 0)) ||
      failed(expectDim(*this, "lse_out", getLseOut(), 1, "partial_out", getPartialOut(), 1)))
    return failure();
  RankedTensorType q = tensor(getQLatent()), out = tensor(getOut());
  if (q.getShape() != out.getShape() || q.getElementType() != out.getElementType())
    return emitOpError() << "expected out of q_latent's shape and element type, got " << out << " for " << q;
  if (bool(ir::getScheme(q)) != bool(kv.getScheme()))
    return emitOpError() << "expected q_latent quantised if and only if the cache's latent is, got " << q << " and " << kv;
  if (tensor(getQLatent()).getDimSize(2) != kv.getLatent() || tensor(getQRope()).getDimSize(2) != kv.getRope())
    return emitOpError() << "expected queries of " << kv.getLatent() << " and " << kv.getRope() << " lanes (the cache's row)";
  return success();
}

LogicalResult AttnCombineOp::verify() {
  if (failed(expectF32(*this, "partial", getPartial(), 3)) || failed(expectF32(*this, "lse", getLse(), 2)) ||
      failed(expectI32(*this, "splits", getSplits(), 1)) || failed(expectRank(*this, "out", getOut(), 3)) ||
      failed(expectDim(*this, "lse", getLse(), 0, "partial", getPartial(), 0)) ||
      failed(expectDim(*this, "lse", getLse(), 1, "partial", getPartial(), 1)) ||
      failed(expectDim(*this, "out", getOut(), 1, "partial", getPartial(), 1)) ||
      failed(expectDim(*this, "out", getOut(), 2, "partial", getPartial(), 2)))
    return failure();
  if (tensor(getSplits()).getDimSize(0) != tensor(getOut()).getDimSize(0) + 1)
    return emitOpError() << "expected splits of " << tensor(getOut()).getDimSize(0) + 1 << " entries (one row a sequence), got "
                         << tensor(getSplits()).getDimSize(0);
  return success();
}

//===-- Mixture of experts ------------------------------------------------===//

LogicalResult RouteOp::verify() {
  if (getIdsOut().getType() != getIds().getType() || getWeightsOut().getType() != getWeights().getType())
    return emitOpError() << "expected results of the destinations' types";
  int64_t experts = tensor(getLogits()).getDimSize(1), groups = getGroups();
  if (groups <= 0 || experts % groups || experts / groups < 2)
    return emitOpError() << "expected groups (" << groups << ") of two experts or more that divide " << experts;
  return success(succeeded(expectSame(*this, "ids_out", getIdsOut(), "weights_out", getWeightsOut())) &&
                 succeeded(expectDim(*this, "bias", getBias(), 0, "logits", getLogits(), 1)) &&
                 succeeded(expectDim(*this, "ids_out", getIdsOut(), 0, "logits", getLogits(), 0)));
}

LogicalResult DispatchOp::verify() {
  if (getOffsetsOut().getType() != getOffsets().getType() || getTokenOfOut().getType() != getTokenOf().getType() ||
      getRowOfOut().getType() != getRowOf().getType())
    return emitOpError() << "expected results of the destinations' types";
  if (tensor(getTokenOfOut()).getDimSize(0) != tensor(getIds()).getNumElements())
    return emitOpError() << "expected token_of_out of " << tensor(getIds()).getNumElements() << " entries (one per id), got "
                         << tensor(getTokenOfOut()).getDimSize(0);
  return expectSame(*this, "row_of_out", getRowOfOut(), "ids", getIds());
}

LogicalResult GatherOp::verify() {
  return success(succeeded(expectRank(*this, "x", getX(), 2)) && succeeded(expectRank(*this, "token_of", getTokenOf(), 1)) &&
                 succeeded(expectRank(*this, "out", getOut(), 2)) && succeeded(expectDim(*this, "out", getOut(), 0, "token_of", getTokenOf(), 0)) &&
                 succeeded(expectDim(*this, "out", getOut(), 1, "x", getX(), 1)));
}

static LogicalResult verifyGrouped(Operation *op, Value x, StringRef wName, Value w, Value offsets, Value out) {
  if (failed(expectRank(op, "x", x, 2)) || failed(expectRank(op, wName, w, 3)) || failed(expectRank(op, "out", out, 2)) ||
      failed(expectDim(op, wName, w, 2, "x", x, 1)) || failed(expectDim(op, "out", out, 1, wName, w, 1)))
    return failure();
  if (tensor(offsets).getDimSize(0) != tensor(w).getDimSize(0) + 1)
    return op->emitOpError() << "expected offsets of " << tensor(w).getDimSize(0) + 1 << " entries, got " << tensor(offsets).getDimSize(0);
  return success();
}
LogicalResult GroupedGatedGemmOp::verify() {
  return success(succeeded(verifyGrouped(*this, getX(), "w_gate", getWGate(), getOffsets(), getOut())) &&
                 succeeded(expectSame(*this, "w_gate", getWGate(), "w_up", getWUp())) &&
                 succeeded(getTokenOf() ? expectDim(*this, "out", getOut(), 0, "token_of", getTokenOf(), 0)
                                        : expectDim(*this, "out", getOut(), 0, "x", getX(), 0)));
}
LogicalResult GroupedGemmOp::verify() {
  return success(succeeded(verifyGrouped(*this, getX(), "w", getW(), getOffsets(), getOut())) &&
                 succeeded(expectDim(*this, "out", getOut(), 0, "x", getX(), 0)));
}

LogicalResult CombineOp::verify() {
  if (failed(expectSame(*this, "row_of", getRowOf(), "weights", getWeights())) || failed(expectRank(*this, "rows", getRows(), 2)) ||
      failed(expectRank(*this, "out", getOut(), 2)) || failed(expectDim(*this, "out", getOut(), 1, "rows", getRows(), 1)) ||
      failed(expectDim(*this, "out", getOut(), 0, "weights", getWeights(), 0)))
    return failure();
  return getPlus() ? expectSame(*this, "plus", getPlus(), "out", getOut()) : success();
}

} // namespace dsv3::kernel
