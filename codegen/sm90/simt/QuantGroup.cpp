#include "codegen/sm90/simt/QuantGroup.h"

using namespace mlir;

namespace dsv3::codegen {

ir::BlockedAttr QuantGroup::schemeOf(Value v) {
  auto scheme = dyn_cast_or_null<ir::BlockedAttr>(cast<RankedTensorType>(v.getType()).getEncoding());
  bool fits = scheme && (isa<Float8E4M3FNType>(scheme.getStorage()) || scheme.getStorage().isInteger(8)) && scheme.getScale().isF32() &&
              !scheme.getZero() && !scheme.getIndexed() &&
              (scheme.getBlock() == ArrayRef<int64_t>({1, kGroup}) || scheme.getBlock() == ArrayRef<int64_t>({1, ShapedType::kDynamic}));
  return fits ? scheme : ir::BlockedAttr();
}

bool QuantGroup::perToken(Value v) { return ShapedType::isDynamic(schemeOf(v).getBlock().back()); }

std::string QuantGroup::whyIllegal(Value out, int64_t width) {
  if (!schemeOf(out))
    return "out must be stored as f8E4M3FN or i8 in blocks of 1x128 or 1x? with f32 scales";
  if (width < kGroup / SimtBuilder::kWarp)
    return "rows of " + std::to_string(cast<RankedTensorType>(out.getType()).getShape().back()) + " values do not lie on multiples of 4";
  return {};
}

int64_t QuantGroup::scaleOffset(Value v) { return kernel::getValueParts(cast<RankedTensorType>(v.getType()))[1].offset; }

QuantGroup::QuantGroup(SimtBuilder &k, Value out, Value codes, Value scaleOffset, int64_t width)
    : k(k), width(width), columns(cast<RankedTensorType>(out.getType()).getShape().back()),
      integer(schemeOf(out).getStorage().isInteger(8)), oneScale(perToken(out)), pow2(schemeOf(out).getPow2Scale()), codes(codes),
      scales(k.at(codes, scaleOffset)) {}

/// `scale`, a quotient of `most` by `largest` with 24 bits, rounded to the multiples of 2^-49 instead: those are the subnormal
/// numbers times 2^100. The remainder tells a tie from what only looks like one after the first rounding.
static Value subnormal(SimtBuilder &k, Value most, Value scale, double largest) {
  auto c = [&](double v) { return k.cf(k.f32, v); };
  Value steps = k.fsub(k.fadd(k.fmul(scale, c(0x1p49)), c(0x1p23)), c(0x1p23)); // below 2^23: to an integer, ties to even
  Value rest = k.fma(steps, c(-largest), k.fmul(most, c(0x1p49)));                  // exact
  steps = k.fadd(steps, k.select(k.gt(rest, c(largest / 2)), c(1), c(0)));
  steps = k.fsub(steps, k.select(k.gt(c(-largest / 2), rest), c(1), c(0)));
  return k.fmul(steps, c(0x1p-49));
}

Value QuantGroup::most(const Lanes &values) const {
  Value most = k.cf(k.f32, 0);
  for (Value v : values)
    most = k.fmax(most, k.magnitude(v));
  return most;
}

QuantGroup::Scale QuantGroup::scaleOf(Value most) const {
  auto c = [&](double v) { return k.cf(k.f32, v); };
  const double largest = integer ? 127 : 448;
  // Divisions by multiplication are exact where nothing leaves the normal numbers: far from 1 numbers are moved there, by a power
  // of two, which rounds nothing.
  Value tiny = k.gt(c(0x1p-90), most), huge = k.gt(most, c(0x1p90));
  Value power = k.select(tiny, c(0x1p100), k.select(huge, c(0x1p-60), c(1)));
  Value back = k.select(tiny, c(0x1p-100), k.select(huge, c(0x1p60), c(1)));
  most = k.fmul(most, power);
  Value scale = k.quotient(most, c(largest), c(1.0 / largest));
  scale = k.select(k.bitAnd(tiny, k.gt(c(0x1p-26), scale)), subnormal(k, most, scale, largest), scale);
  if (pow2)
    scale = k.bitcast(k.f32, k.bitAnd(k.add(k.bitcast(k.i32, scale), 0x7fffff), k.cint(k.i32, int32_t(0xff800000)))); // up
  // Nothing but zeros, or numbers that no scale brings into range: stored as they are.
  scale = k.select(k.gt(scale, c(0)), scale, power);
  return {k.fmul(scale, back), power, scale};
}

void QuantGroup::divide(Lanes &values, const Scale &scale) const {
  Value inverse = k.reciprocal(scale.divisor);
  Value sign = k.cint(k.i32, int32_t(0x80000000)); // the correction of a quotient loses that of zero
  for (Value &v : values) {
    Value number = k.quotient(k.fmul(v, scale.power), scale.divisor, inverse);
    v = integer ? number : k.bitcast(k.f32, k.bitOr(k.bitcast(k.i32, number), k.bitAnd(k.bitcast(k.i32, v), sign)));
  }
}

Value QuantGroup::scale(Lanes &values) const {
  Value all = most(values);
  for (int64_t mask = kGroup / width / 2; mask; mask /= 2)
    all = k.fmax(all, k.shuffleXor(all, mask));
  Scale scale = scaleOf(all);
  divide(values, scale);
  return scale.stored;
}

void QuantGroup::store(const Lanes &values, Value scale, Value row, Value lane) const {
  Value place = k.element(k.element(codes, row, columns), lane, 1);
  integer ? k.storeI8(values, place) : k.storeE4M3(values, place);
  if (oneScale) {
    k.when(k.eq(lane, k.idx(0)), [&] { k.store(scale, k.element(scales, row, 4)); });
    return;
  }
  k.when(k.eq(k.rem(lane, kGroup), k.idx(0)), [&] {
    int64_t groups = llvm::divideCeil(columns, kGroup);
    k.store(scale, k.element(k.element(scales, row, groups * 4), k.div(lane, kGroup), 4));
  });
}

void QuantGroup::storeRow(const RowVectors &vectors, Value row, SmallVector<Lanes> values) const {
  SmallVector<Value> scales;
  if (oneScale) {
    Value all = k.cf(k.f32, 0);
    for (const Lanes &v : values)
      all = k.fmax(all, most(v));
    Scale scale = scaleOf(k.maxBlock(all, vectors.scratch(k)));
    for (Lanes &v : values)
      divide(v, scale);
    scales.assign(values.size(), scale.stored);
  } else {
    for (Lanes &v : values)
      scales.push_back(scale(v));
  }
  vectors.forVectors(k, [&](int64_t i, Value lane) { store(values[size_t(i)], scales[size_t(i)], row, lane); });
}

//===-- A vector a thread -------------------------------------------------===//

std::string GroupWalk::whyIllegal() const {
  return double(rows) * double(items()) < double(int64_t(1) << 31) ? "" : "rows and vectors must be fewer than 2^31 together";
}

void GroupWalk::quantise(SimtBuilder &k, Value count, const QuantGroup &group, llvm::function_ref<Lanes(Value, Value)> values) const {
  Value index = k.add(k.mul(k.block(), kThreads), k.thread()), all = k.mul(count, items());
  Value at = k.minI(index, k.maxI(k.sub(all, k.idx(1)), k.idx(0))), row = k.div(at, items()), lane = k.mul(k.rem(at, items()), width);
  Value inside = k.lt(lane, k.idx(columns));
  bool partial = columns % QuantGroup::kGroup;
  Lanes numbers = values(row, partial ? k.minI(lane, k.idx(columns - width)) : lane);
  if (partial)
    for (Value &v : numbers)
      v = k.select(inside, v, k.cf(k.f32, 0));
  Value scale = group.scale(numbers);
  k.when(k.bitAnd(k.lt(index, all), inside), [&] { group.store(numbers, scale, row, lane); });
}

//===-- Launches ----------------------------------------------------------===//

int64_t RowsToCodesEmitter::width(Operation *op) {
  SmallVector<unsigned> sources = llvm::to_vector(llvm::seq<unsigned>(0, op->getNumOperands() - 1));
  return vectorWidth(op, sources, {lastDim(out(op))});
}
GroupWalk RowsToCodesEmitter::walk(Operation *op) { return {rowCapacity(out(op)), lastDim(out(op)), width(op)}; }
RowVectors RowsToCodesEmitter::vectors(Operation *op) { return RowVectors(lastDim(out(op)), width(op), QuantGroup::kMaxThreads); }

std::string RowsToCodesEmitter::whyIllegal(Operation *op) const {
  if (std::string why = QuantGroup::whyIllegal(out(op), width(op)); !why.empty())
    return why;
  return QuantGroup::perToken(out(op)) ? RowVectors::whyIllegal(lastDim(out(op)), QuantGroup::kMaxThreads) : walk(op).whyIllegal();
}

LaunchSignature RowsToCodesEmitter::signature(Operation *op) const { return {{}, {QuantGroup::scaleOffset(out(op))}}; }
int64_t RowsToCodesEmitter::threads(Operation *op) const { return QuantGroup::perToken(out(op)) ? vectors(op).threads : GroupWalk::kThreads; }
int64_t RowsToCodesEmitter::blocks(Operation *op) const { return QuantGroup::perToken(out(op)) ? rowCapacity(out(op)) : walk(op).blocks(); }

void RowsToCodesEmitter::body(Operation *op, SimtBuilder &k, const RefMap &refs) const {
  QuantGroup group(k, out(op), k.param(refs.of(op->getNumOperands() - 1)), k.param(refs.size()), width(op));
  Source values = source(op, k, refs);
  if (!QuantGroup::perToken(out(op))) {
    walk(op).quantise(k, rowCount(k, out(op)), group, [&](Value row, Value lane) { return values(row, lane, width(op)); });
    return;
  }
  RowVectors row = vectors(op);
  k.when(k.lt(k.block(), rowCount(k, out(op))), [&] {
    group.storeRow(row, k.block(), row.load(k, [&](Value lane) { return values(k.block(), lane, row.width); }));
  });
}

} // namespace dsv3::codegen
