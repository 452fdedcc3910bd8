#include "codegen/sm90/gemm/Int4Weights.h"

using namespace mlir;

namespace dsv3::codegen {

static RankedTensorType tensorOf(Value v) { return cast<RankedTensorType>(v.getType()); }

/// The scheme of a weight, before or after it is packed.
static ir::BlockedAttr blockedOf(RankedTensorType type) {
  Attribute scheme = type.getEncoding();
  if (auto packed = dyn_cast_or_null<kernel::PackedAttr>(scheme))
    scheme = packed.getScheme();
  return dyn_cast_or_null<ir::BlockedAttr>(scheme);
}

/// K of a scale; 0: all.
static int64_t groupOf(ir::BlockedAttr scheme) {
  int64_t block = scheme.getBlock().back();
  return ShapedType::isDynamic(block) ? 0 : block;
}

static std::string text(Type type) {
  std::string s;
  llvm::raw_string_ostream(s) << type;
  return s;
}

bool isInt4(RankedTensorType weight) {
  ir::BlockedAttr scheme = blockedOf(weight);
  return scheme && scheme.getStorage().isInteger(4);
}

std::string whyNotInt4(RankedTensorType weight) {
  ir::BlockedAttr scheme = blockedOf(weight);
  if (scheme.getIndexed())
    return "groups of int4 weights are not in the order of K";
  ArrayRef<int64_t> block = scheme.getBlock();
  if (block.size() >= 2 && block[block.size() - 2] != 1)
    return "int4 weights have a scale per " + std::to_string(block[block.size() - 2]) + " rows, not per row";
  if (groupOf(scheme) % 128)
    return "groups of " + std::to_string(groupOf(scheme)) + " int4 weights are not a multiple of 128, which products are promoted by";
  return {};
}

Int4Problem::Int4Problem(Operation *op) : GemmProblem(op) {
  auto rows = dyn_cast_or_null<ir::BlockedAttr>(tensorOf(op->getOperand(0)).getEncoding());
  ir::BlockedAttr weight = blockedOf(tensorOf(op->getOperand(weights[0])));
  wide = !rows;
  e4m3 = rows && isa<Float8E4M3FNType>(rows.getStorage());
  wGrouped = weight && groupOf(weight) && groupOf(weight) < shape.k;
  xGrouped = rows && groupOf(rows) && groupOf(rows) < shape.k;
  zeros = weight && weight.getZero();
  auto out = dyn_cast_or_null<ir::BlockedAttr>(tensorOf(op->getResult(0)).getEncoding());
  codesOut = bool(tensorOf(op->getResult(0)).getEncoding());
  e4m3Out = out && isa<Float8E4M3FNType>(out.getStorage());
}

/// Rows of x as codes.
static std::string whyNotRows(const Int4Problem &p) {
  RankedTensorType type = tensorOf(p.op->getOperand(0));
  auto rows = dyn_cast<ir::BlockedAttr>(type.getEncoding());
  int64_t group = rows ? groupOf(rows) : 0;
  if (!rows || !(p.e4m3 || rows.getStorage().isInteger(8)) || rows.getZero() || !rows.getScale().isF32() || rows.getBlock().drop_back() != ArrayRef<int64_t>({1}) ||
      (group && group != 128 && group < p.shape.k))
    return "x is quantised, but not to i8 or f8E4M3FN with an f32 scale per row or per row and 128 channels, which int4 weights are multiplied with";
  if (p.op->getOperand(0).getDefiningOp<kernel::ViewOp>())
    return "quantised rows of x are a view";
  if (p.shape.k % 16)
    return "rows of x have K = " + std::to_string(p.shape.k) + " codes, no multiple of 16 bytes";
  return {};
}

std::string Int4Problem::whyIllegal() const {
  if (!isInt4(tensorOf(op->getOperand(weights[0])))) {
    std::string why = GemmProblem::whyIllegal();
    return why.empty() ? "weights are not int4" : why;
  }
  if (batched)
    return "a batched product reads no int4 weights";
  if (gathers() && (xGrouped || x.pitch != shape.k || x.offset))
    return std::string("rows of x are picked by token_of ") + (xGrouped ? "and have a scale per 128 channels" : "from a view") +
           ", and this kernel reads gathered rows (--dsv3-expand-experts gathers them)";
  for (unsigned w : weights) {
    RankedTensorType type = tensorOf(op->getOperand(w)), first = tensorOf(op->getOperand(weights[0]));
    if (type.getShape() != first.getShape() || blockedOf(type) != blockedOf(first))
      return "the weights differ in type";
    if (std::string why = whyNotInt4(type); !why.empty())
      return why;
  }
  if (std::string why = wide ? std::string() : whyNotRows(*this); !why.empty())
    return why;
  if (zeros && !wide)
    return "x is quantised, and int4 weights with zero points are multiplied with plain rows";
  if (wide && !xElem.isBF16())
    return "x is " + text(xElem) + ", and tensor cores multiply bf16 here (compile with --dtype=bf16)";
  if (codesOut) {
    auto codes = dyn_cast<ir::BlockedAttr>(tensorOf(op->getResult(0)).getEncoding());
    if (!codes || !(e4m3Out || codes.getStorage().isInteger(8)) || codes.getZero() || codes.getPow2Scale() || !codes.getScale().isF32() || codes.getBlock() != ArrayRef<int64_t>({1, 128}))
      return "the result is quantised, but not to i8 or f8E4M3FN with an f32 scale per row and 128 columns, which two warpgroups hold";
    if (shape.n % 128)
      return "a row of the result has " + std::to_string(shape.n) + " values, no multiple of the 128 that share a scale";
  }
  if (!outElem.isBF16() && !outElem.isF32())
    return "the result is " + text(outElem) + ", neither bf16 nor f32";
  if (via && !via.isF32() && !via.isBF16())
    return "products are rounded to " + text(via) + ", neither bf16 nor f32";
  if (wide && (x.pitch % 8 || x.offset % 8 || shape.k % 8))
    return "rows of x start at element " + std::to_string(x.offset) + " and are " + std::to_string(x.pitch) + " bf16 values apart, no multiples of 16 bytes";
  RankedTensorType xType = tensorOf(op->getOperand(0));
  if (xType.getRank() == 3 && kernel::getRowAccess(op->getOperand(0)).stride != xType.getDimSize(2))
    return "x is a view of part of each head's lanes, so that a token's row is not contiguous";
  return {};
}

/// Rows of a weight that leave half of the GPU idle where one expert has all tokens: there K is for two blocks, unless a pair of
/// weights is (ColsSchedule::apart). Codes are stored by two warpgroups together, which makes half as many blocks: K is for four.
static constexpr int64_t kFewRows = 64 * 66;

Int4Shape Int4Problem::scheduleShape() const {
  Int4Shape s;
  static_cast<GemmShape &>(s) = shape;
  s.wide = wide, s.e4m3 = e4m3, s.wGrouped = wGrouped, s.xGrouped = xGrouped, s.promoted = promoted(), s.pairs = codesOut;
  s.freeSplit = !wide && !promoted();
  s.fixedSplit = s.freeSplit || grouped || !decode ? 1 : splitOfWeight(s);
  s.parts = s.promoted && (s.pairs || !wGrouped) && grouped && decode && shape.n <= kFewRows && shape.k % 1024 == 0 ? (s.pairs ? 4 : 2) : 1;
  return s;
}

std::string Int4Problem::chain() const {
  const Int4Shape s = scheduleShape();
  int64_t parts = std::max(s.fixedSplit, s.parts);
  std::string text = promoted() ? "k_blocks128" : parts > 1 ? "k" : "k_ascending";
  return parts > 1 ? text + "_split" + std::to_string(parts) : text;
}

kernel::PackedAttr int4Encoding(RankedTensorType weight, const Int4Problem &problem) {
  MLIRContext *ctx = weight.getContext();
  ir::BlockedAttr scheme = blockedOf(weight);
  auto layout = [&](StringRef map) { return kernel::LayoutAttr::get(ctx, map); };
  StringRef bytes = "(n, k) -> [n/64, k/64, n/16%4, n%8, k/4%4, k/16%4, k%4, n/8%2] pad n:64 k:128";
  StringRef look = "(n, k) -> [n/64, k/64, n/16%4, n%8, k/4%4, k/16%4, n/8%2, k%4] pad n:64 k:128";
  StringRef pairs = "(n, k) -> [n/64, k/64, n/16%4, n%8, k/2%4, k/16%4, k%2, k/8%2, n/8%2] pad n:64 k:128";
  bool grouped = groupOf(scheme) && groupOf(scheme) < weight.getShape().back();
  return kernel::PackedAttr::get(ctx, scheme, layout(problem.wide ? pairs : problem.e4m3 ? look : bytes),
                                 layout(grouped ? "(n, k) -> [n/64, k/128, n%64] pad n:64 k:128" : "(n, k) -> [n] pad n:64"));
}

} // namespace dsv3::codegen
