#include "codegen/sm90/gemm/GemmProblem.h"

using namespace mlir;

namespace dsv3::codegen {

static RankedTensorType tensorOf(Value v) { return cast<RankedTensorType>(v.getType()); }

/// The scheme of a weight, before or after it is packed.
static Attribute schemeOf(RankedTensorType type) {
  if (auto packed = dyn_cast_or_null<kernel::PackedAttr>(type.getEncoding()))
    return packed.getScheme();
  return type.getEncoding();
}

static RowLayout rowLayout(Value value, bool batched) {
  kernel::RowAccess access = kernel::getRowAccess(value);
  RankedTensorType type = tensorOf(value);
  int64_t inner = type.getRank() == 3 ? type.getDimSize(1) : 1;
  return {access.offset, access.stride * inner, batched ? access.stride : 0};
}

static std::string text(Type type) {
  std::string s;
  llvm::raw_string_ostream(s) << type;
  return s;
}

/// From the scheme of x where it has one: what w must be then, `whyIllegal` says.
static Operands operandsOf(RankedTensorType x, RankedTensorType w) {
  auto rows = dyn_cast_or_null<ir::BlockedAttr>(x.getEncoding());
  if (!rows)
    return schemeOf(w) ? Operands::ExpandedFp8 : Operands::Bf16;
  if (!rows.getStorage().isInteger(8))
    return Operands::Fp8;
  return ShapedType::isDynamic(rows.getBlock().back()) ? Operands::Int8 : Operands::Int8Groups;
}

GemmProblem::GemmProblem(Operation *op) : op(op) {
  batched = isa<kernel::BatchedGemmOp>(op), grouped = isa<kernel::GroupedGemmOp, kernel::GroupedGatedGemmOp>(op);
  weights = {1};
  if (auto gated = dyn_cast<kernel::GatedGemmOp>(op)) {
    weights.push_back(2);
    via = gated.getVia();
  } else if (auto gated = dyn_cast<kernel::GroupedGatedGemmOp>(op)) {
    weights.push_back(2);
    via = gated.getVia();
  }
  RankedTensorType xType = tensorOf(op->getOperand(0)), w = tensorOf(op->getOperand(1)), out = tensorOf(op->getResult(0));
  x = rowLayout(op->getOperand(0), batched);
  y = rowLayout(op->getOperand(outOperand()), batched);
  xElem = xType.getElementType(), weightElem = w.getElementType(), outElem = out.getElementType();
  auto picking = dyn_cast<kernel::GroupedGatedGemmOp>(op);
  shape.gathers = picking && picking.getTokenOf();
  shape.rows = shape.gathers ? tensorOf(picking.getTokenOf()).getDimSize(0) : xType.getDimSize(0);
  shape.n = w.getDimSize(w.getRank() - 2), shape.k = w.getShape().back();
  shape.batch = batched || grouped ? w.getDimSize(0) : 1;
  shape.grouped = grouped;
  shape.weights = int64_t(weights.size());
  shape.operands = operandsOf(xType, w);
  if (auto codes = dyn_cast_or_null<ir::BlockedAttr>(out.getEncoding()))
    shape.outGroup = codes.getBlock().back();
  shape.outBytes = shape.outGroup ? 1 : outElem.getIntOrFloatBitWidth() / 8;

  auto program = op->getParentOfType<ir::ProgramOp>();
  decode = program ? program.getPhase() == "decode" : shape.rows <= 256;
}

int64_t GemmProblem::scalesOfRows() const { return kernel::getValueParts(tensorOf(op->getOperand(0)))[1].offset; }
int64_t GemmProblem::scalesOfOut() const { return kernel::getValueParts(tensorOf(op->getResult(0)))[1].offset; }

bool isScaled(RankedTensorType weight) { return bool(schemeOf(weight)); }

bool isInt8(RankedTensorType weight) {
  auto blocked = dyn_cast_or_null<ir::BlockedAttr>(schemeOf(weight));
  return blocked && blocked.getStorage().isInteger(8) && blocked.getScale().isF32() && !blocked.getZero() && !blocked.getIndexed() &&
         blocked.getBlock() == ArrayRef<int64_t>({1, ShapedType::kDynamic});
}

std::string whyNotStored(RankedTensorType weight) {
  auto blocked = dyn_cast<ir::BlockedAttr>(schemeOf(weight));
  if (isInt8(weight))
    return {};
  if (!blocked || !isa<Float8E4M3FNType>(blocked.getStorage()) || blocked.getBlock().size() < 2 || blocked.getIndexed())
    return "weights are neither bf16, nor f8E4M3FN with a scale per block, nor i8 with a scale per row";
  auto block = [&](size_t fromEnd) {
    int64_t b = blocked.getBlock()[blocked.getBlock().size() - fromEnd];
    return ShapedType::isDynamic(b) ? int64_t(0) : b; // 0: the whole dim
  };
  if (block(1) % 128)
    return "scale blocks of " + std::to_string(block(1)) + " along K are not a multiple of 128, which products are promoted by";
  if (block(2) % 64)
    return "scale blocks of " + std::to_string(block(2)) + " rows are not a multiple of 64, a warpgroup's rows";
  return {};
}

std::string whyNotWeights(Operation *op, ArrayRef<unsigned> operands) {
  RankedTensorType first = tensorOf(op->getOperand(operands[0]));
  for (unsigned w : operands) {
    RankedTensorType type = tensorOf(op->getOperand(w));
    if (type.getShape().back() != first.getShape().back() || type.getElementType() != first.getElementType() || schemeOf(type) != schemeOf(first))
      return "the weights differ in type";
    if (std::string why = isScaled(type) ? whyNotStored(type) : std::string(); !why.empty())
      return why;
    if (!isScaled(type) && !type.getElementType().isBF16())
      return "weights are " + text(type.getElementType()) + ", neither bf16 nor f8E4M3FN with a scale per block";
    // TMA: a pitch that is no multiple of 16 bytes cannot be described.
    if (int64_t k = type.getShape().back(); !isScaled(type) && k % 8)
      return "rows of w have K = " + std::to_string(k) + " bf16 values, no multiple of 16 bytes";
  }
  return {};
}

/// FP8 x FP8 and int8 x int8: row-major codes; of x a scale per token and 128 channels, of int8 maybe one per token.
static std::string whyNotRowScales(const GemmProblem &p) {
  auto scheme = dyn_cast<ir::BlockedAttr>(tensorOf(p.op->getOperand(0)).getEncoding());
  const bool integer = isInteger(p.shape.operands);
  if (!scheme || !scheme.getScale().isF32() || scheme.getZero() || !(integer || isa<Float8E4M3FNType>(scheme.getStorage())) ||
      !(scheme.getBlock().back() == 128 || p.shape.operands == Operands::Int8) || scheme.getBlock().drop_back().back() != 1)
    return "x is quantised, but neither to f8E4M3FN with a scale per 128 channels nor to i8 with one per 128 channels or per token";
  RankedTensorType w = tensorOf(p.op->getOperand(1));
  if (!isScaled(w))
    return "x is quantised and the weights are not";
  if (integer != isInt8(w))
    return std::string("x is ") + (integer ? "i8" : "f8E4M3FN") + " and the weights are not";
  if (p.batched || p.op->getOperand(0).getDefiningOp<kernel::ViewOp>())
    return "quantised rows of x are a view or have heads";
  if (p.shape.k % 16)
    return "rows of w have K = " + std::to_string(p.shape.k) + " codes, no multiple of 16 bytes";
  return {};
}

/// Rows of y as codes: a tile holds all columns that share a scale.
static std::string whyNotCodes(const GemmProblem &p) {
  auto out = dyn_cast<ir::BlockedAttr>(tensorOf(p.op->getResult(0)).getEncoding());
  if (!out || !out.getStorage().isInteger(8) || !out.getScale().isF32() || out.getBlock() != ArrayRef<int64_t>({1, 128}))
    return "the result is quantised, but not to i8 with a scale per 128 channels";
  if (p.shape.operands != Operands::Int8 || p.weights.size() != 2)
    return "the result is quantised, which only a pair of i8 weights on i8 rows with a scale per token does";
  return p.shape.n % 128 ? "the result has " + std::to_string(p.shape.n) + " channels, no multiple of the 128 that share a scale" : "";
}

std::string GemmProblem::whyIllegal() const {
  if (gathers() && (x.pitch != shape.k || x.offset))
    return "rows of x are picked by token_of from a view, and this kernel reads gathered rows (--dsv3-expand-experts gathers them)";
  if (std::string why = rowsScaled() ? whyNotRowScales(*this) : std::string(); !why.empty())
    return why;
  if (shape.operands == Operands::ExpandedFp8 && isInt8(tensorOf(op->getOperand(1))))
    return "weights are i8 and x is not quantised to i8";
  if (std::string why = shape.outGroup ? whyNotCodes(*this) : std::string(); !why.empty())
    return why;
  if (!xElem.isBF16())
    return "x is " + text(xElem) + ", and tensor cores multiply bf16 here (compile with --dtype=bf16)";
  if (!outElem.isBF16() && !outElem.isF32())
    return "the result is " + text(outElem) + ", neither bf16 nor f32";
  if (std::string why = whyNotWeights(op, weights); !why.empty())
    return why;
  if (via && !via.isF32() && !via.isBF16())
    return "products are rounded to " + text(via) + ", neither bf16 nor f32";
  auto bad = [&](int64_t elements) { return elements * shape.xBytes() % 16 != 0; };
  if (bad(x.pitch) || bad(x.headPitch) || bad(x.offset))
    return "rows of x start at element " + std::to_string(x.offset) + " and are " + std::to_string(x.headPitch ? x.headPitch : x.pitch) +
           (rowsScaled() ? " codes" : " bf16 values") + " apart, no multiples of 16 bytes";
  RankedTensorType xType = tensorOf(op->getOperand(0));
  if (!batched && xType.getRank() == 3 && kernel::getRowAccess(op->getOperand(0)).stride != xType.getDimSize(2))
    return "x is a view of part of each head's lanes, so that a token's row is not contiguous";
  return {};
}

int64_t GemmProblem::split() const {
  return shape.operands == Operands::Int8 || (decode && !grouped) ? splitOfWeight(shape) : 1;
}

std::string GemmProblem::chain() const {
  int64_t parts = shape.operands == Operands::Int8 ? 1 : split();
  std::string text = promotes(shape.operands) ? "k_blocks128" : parts > 1 ? "k" : "k_ascending";
  return parts > 1 ? text + "_split" + std::to_string(parts) : text;
}

kernel::PackedAttr gemmWeightEncoding(RankedTensorType type, bool rowsScaled) {
  Attribute scheme = schemeOf(type);
  if (!scheme)
    return {};
  // The data: `frag<acc>` of 64 x 32 blocks, 16 bytes a thread, blocks of a row of blocks one behind the other.
  MLIRContext *ctx = type.getContext();
  auto layout = [&](const Twine &map) { return kernel::LayoutAttr::get(ctx, map.str()); };
  if (isInt8(type))
    return kernel::PackedAttr::get(ctx, scheme, layout("(n, k) -> [n, k]"), layout("(n, k) -> [n] pad n:" + std::to_string(kScalePad)));
  StringRef scales = "(n, k) -> [n/64, k/128] pad n:64 k:128";
  if (rowsScaled) // read by wgmma as it is
    return kernel::PackedAttr::get(ctx, scheme, layout("(n, k) -> [n, k]"), layout(scales));
  return kernel::PackedAttr::get(ctx, scheme, layout("(n, k) -> [n/64, k/32, n/16%4, n%8, k/2%4, k/8%4, n/8%2, k%2] pad n:64 k:128"),
                                 layout(scales));
}

} // namespace dsv3::codegen
