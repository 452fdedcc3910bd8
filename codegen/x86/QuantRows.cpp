#include "codegen/x86/QuantRows.h"
#include "codegen/x86/RowOps.h"

using namespace mlir;

namespace dsv3::codegen {

/// Values that share a scale: blocks are right-aligned, and dims from the left of the last may share only as whole.
static int64_t groupOf(ir::BlockedAttr scheme, ArrayRef<int64_t> shape) {
  int64_t group = 1;
  for (size_t d = shape.size(); d-- > 1;) {
    size_t lead = shape.size() - scheme.getBlock().size();
    int64_t block = d < lead ? 1 : scheme.getBlock()[d - lead];
    bool whole = ShapedType::isDynamic(block) || block == shape[d];
    group *= whole ? shape[d] : block;
    if (!whole)
      return group;
  }
  return group;
}

RowScheme::RowScheme(RankedTensorType type) {
  auto scheme = cast<ir::BlockedAttr>(type.getEncoding());
  storage = scheme.getStorage();
  row = 1;
  for (int64_t d : type.getShape().drop_front())
    row *= d;
  group = std::min(groupOf(scheme, type.getShape()), row);
  pow2 = scheme.getPow2Scale();
}

std::string RowScheme::why(RankedTensorType type) {
  auto scheme = dyn_cast_or_null<ir::BlockedAttr>(type.getEncoding());
  if (!scheme || !(scheme.getStorage().isInteger(8) || isa<Float8E4M3FNType>(scheme.getStorage())))
    return "rows are stored as i8 or f8E4M3FN only, with a scale per block";
  if (!scheme.getScale().isF32() || scheme.getZero() || scheme.getIndexed())
    return "rows are stored with f32 scales and without zero points only";
  ArrayRef<int64_t> block = scheme.getBlock(), shape = type.getShape();
  if (block.size() >= shape.size() && block[block.size() - shape.size()] != 1)
    return "tokens share a scale";
  int64_t last = shape.back(), along = ShapedType::isDynamic(block.back()) ? last : std::min(block.back(), last);
  // A group must not straddle heads, and heads that share one must do so in whole.
  if (shape.size() > 2 && last % along)
    return "a row of " + std::to_string(last) + " values is no whole number of groups of " + std::to_string(along);
  for (size_t d = 1; d + 1 < shape.size(); ++d) {
    size_t lead = shape.size() - std::min(block.size(), shape.size());
    int64_t b = d < lead ? 1 : block[d - lead];
    if (b != 1 && (along != last || (!ShapedType::isDynamic(b) && b != shape[d])))
      return "some heads share a scale, and not all of them";
  }
  return {};
}

QuantOperand::QuantOperand(KernelBuilder &k, RankedTensorType type, Value buffer, Value scaleOffset)
    : scheme(type), codes(buffer), scales(k.at(buffer, scaleOffset)) {}

//===-- Scales ------------------------------------------------------------===//

static Value magnitude(KernelBuilder &k, Value v) {
  Value bits = arith::AndIOp::create(k.b, arith::BitcastOp::create(k.b, k.vi32, v), k.cint(k.vi32, 0x7fffffff));
  return arith::BitcastOp::create(k.b, k.vf32, bits);
}

static Value scaleOf(KernelBuilder &k, const RowScheme &scheme, Value most) {
  Value scale = k.fdiv(most, k.cf(k.f32, scheme.storage.isInteger(8) ? 127 : 448));
  if (scheme.pow2) { // up to the next one, tiny ones where they are normal numbers
    Value tiny = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OLT, scale, k.cf(k.f32, 0x1p-60));
    Value normal = k.fmul(scale, k.select(tiny, k.cf(k.f32, 0x1p64), k.cf(k.f32, 1)));
    Value bits = k.add(arith::BitcastOp::create(k.b, k.i32, normal), 0x7fffff);
    Value power = arith::BitcastOp::create(k.b, k.f32, arith::AndIOp::create(k.b, bits, k.cint(k.i32, int32_t(0xff800000))).getResult());
    scale = k.fmul(power, k.select(tiny, k.cf(k.f32, 0x1p-64), k.cf(k.f32, 1)));
  }
  Value none = arith::CmpFOp::create(k.b, arith::CmpFPredicate::OEQ, scale, k.cf(k.f32, 0));
  return k.select(none, k.cf(k.f32, 1), scale); // nothing but zeros, or numbers too small for a scale
}

//===-- Codes -------------------------------------------------------------===//

/// The nearest integers, ties to even: adding 1.5 * 2^23 leaves them in the low bits.
static Value toInt8(KernelBuilder &k, Value v) {
  Value moved = k.fadd(v, k.cf(k.vf32, 12582912.0));
  return arith::TruncIOp::create(k.b, k.vec(k.i8), arith::BitcastOp::create(k.b, k.vi32, moved).getResult());
}

/// The nearest E4M3 codes, ties to even, of values up to 448.
static Value toE4M3(KernelBuilder &k, Value v) {
  auto shr = [&](Value a, int64_t n) -> Value { return arith::ShRUIOp::create(k.b, a, k.cint(k.vi32, n)); };
  auto bitsAnd = [&](Value a, int64_t mask) -> Value { return arith::AndIOp::create(k.b, a, k.cint(k.vi32, mask)); };
  Value bits = arith::BitcastOp::create(k.b, k.vi32, v), sign = bitsAnd(shr(bits, 24), 0x80);
  Value most = bitsAnd(bits, 0x7fffffff);
  Value rounded = shr(k.add(k.add(most, 0x7ffff), bitsAnd(shr(most, 20), 1)), 20);
  Value normal = k.add(rounded, -(120 << 3)); // the exponent's bias is 7, not 127
  // Below 2^-6 codes count 2^-9: so do the low bits of what lies between 2^14 and 2^15.
  Value counted = k.fadd(arith::BitcastOp::create(k.b, k.vf32, most), k.cf(k.vf32, 16384.0));
  Value small = k.add(arith::BitcastOp::create(k.b, k.vi32, counted), -0x46800000);
  Value code = k.select(k.lt(most, k.cint(k.vi32, 0x3c800000)), small, normal);
  return arith::TruncIOp::create(k.b, k.vec(k.i8), arith::OrIOp::create(k.b, code, sign).getResult());
}

/// The first `count` of 16 bytes. LLVM 22 widens masked stores of truncated lanes, so single ones are stored.
static void storeBytes(KernelBuilder &k, Value bytes, Value address, int64_t count) {
  if (count == kLanes)
    return k.store(bytes, address, 1);
  for (int64_t i = 0; i < count; ++i)
    k.store(LLVM::ExtractElementOp::create(k.b, bytes, k.cint(k.i32, i)), k.at(address, i), 1);
}

void quantizeGroup(KernelBuilder &k, const RowScheme &scheme, Value first, int64_t n,
                   llvm::function_ref<Value(Value lane, int64_t count)> load, Value codes, Value scale) {
  int64_t whole = n / kLanes * kLanes;
  auto most = [&](Value lane, int64_t count, Value acc) { return k.fmax(magnitude(k, load(k.add(first, lane), count)), acc); };
  Value acc = k.cf(k.vf32, 0);
  if (whole)
    acc = k.loop(k.idx(0), k.idx(whole), kLanes, acc, [&](Value lane, ValueRange in) { return SmallVector<Value>{most(lane, kLanes, in[0])}; })[0];
  if (n % kLanes)
    acc = most(k.idx(whole), n % kLanes, acc);
  Value one = scaleOf(k, scheme, k.reduceMax(acc)), all = k.splat(one);
  k.store(one, scale);
  bool integer = scheme.storage.isInteger(8);
  Value high = k.cf(k.vf32, integer ? 127 : 448), low = k.cf(k.vf32, integer ? -127 : -448);
  forLanes(k, n, [&](Value lane, int64_t count) {
    Value at = k.add(first, lane), v = k.fdiv(load(at, count), all);
    v = k.fmax(v, low); // a scale that is rounded, or has underflowed, may leave more than the largest code
    v = k.select(arith::CmpFOp::create(k.b, arith::CmpFPredicate::OLT, v, high), v, high);
    storeBytes(k, integer ? toInt8(k, v) : toE4M3(k, v), k.at(codes, at), count);
  });
}

void quantizeRow(KernelBuilder &k, const QuantOperand &out, Value row, llvm::function_ref<Value(Value lane, int64_t count)> load) {
  Value codes = out.codesOf(k, row), scales = out.scalesOf(k, row);
  int64_t group = out.scheme.group, whole = out.scheme.row / group;
  k.loop(0, whole, 1, [&](Value g) { quantizeGroup(k, out.scheme, k.mul(g, group), group, load, codes, k.at(scales, k.mul(g, 4))); });
  if (int64_t rest = out.scheme.row % group)
    quantizeGroup(k, out.scheme, k.idx(whole * group), rest, load, codes, k.at(scales, whole * 4));
}

} // namespace dsv3::codegen
