#include "codegen/sm90/simt/QuantGroup.h"

using namespace mlir;

namespace dsv3::codegen {

ir::BlockedAttr QuantGroup::schemeOf(Value v) {
  auto scheme = dyn_cast_or_null<ir::BlockedAttr>(cast<RankedTensorType>(v.getType()).getEncoding());
  bool fits = scheme && isa<Float8E4M3FNType>(scheme.getStorage()) && scheme.getScale().isF32() &&
              scheme.getBlock() == ArrayRef<int64_t>({1, kGroup});
  return fits ? scheme : ir::BlockedAttr();
}

std::string QuantGroup::whyIllegal(Value out, int64_t width) {
  if (!schemeOf(out))
    return "out must be stored as f8E4M3FN in blocks of 1x128 with f32 scales";
  if (width < kGroup / SimtBuilder::kWarp)
    return "rows of " + std::to_string(cast<RankedTensorType>(out.getType()).getShape().back()) + " values do not lie on multiples of 4";
  return {};
}

int64_t QuantGroup::scaleOffset(Value v) { return kernel::getValueParts(cast<RankedTensorType>(v.getType()))[1].offset; }

QuantGroup::QuantGroup(SimtBuilder &k, Value out, Value codes, Value scaleOffset, int64_t width)
    : k(k), width(width), columns(cast<RankedTensorType>(out.getType()).getShape().back()), pow2(schemeOf(out).getPow2Scale()), codes(codes),
      scales(k.at(codes, scaleOffset)) {}

/// `scale`, a quotient of `most` by 448 with 24 bits, rounded to the multiples of 2^-49 instead: those are the subnormal
/// numbers times 2^100. The remainder tells a tie from what only looks like one after the first rounding.
static Value subnormal(SimtBuilder &k, Value most, Value scale) {
  auto c = [&](double v) { return k.cf(k.f32, v); };
  Value steps = k.fsub(k.fadd(k.fmul(scale, c(0x1p49)), c(0x1p23)), c(0x1p23)); // below 2^23: to an integer, ties to even
  Value rest = k.fma(steps, c(-448), k.fmul(most, c(0x1p49)));                  // exact
  steps = k.fadd(steps, k.select(k.gt(rest, c(224)), c(1), c(0)));
  steps = k.fsub(steps, k.select(k.gt(c(-224), rest), c(1), c(0)));
  return k.fmul(steps, c(0x1p-49));
}

Value QuantGroup::scale(Lanes &values) const {
  auto c = [&](double v) { return k.cf(k.f32, v); };
  Value most = c(0);
  for (Value v : values)
    most = k.fmax(most, k.magnitude(v));
  for (int64_t mask = kGroup / width / 2; mask; mask /= 2)
    most = k.fmax(most, k.shuffleXor(most, mask));
  // Divisions by multiplication are exact where nothing leaves the normal numbers: far from 1 a group is moved there, by a power
  // of two, which rounds nothing.
  Value tiny = k.gt(c(0x1p-90), most), huge = k.gt(most, c(0x1p90));
  Value power = k.select(tiny, c(0x1p100), k.select(huge, c(0x1p-60), c(1)));
  Value back = k.select(tiny, c(0x1p-100), k.select(huge, c(0x1p60), c(1)));
  most = k.fmul(most, power);
  Value scale = k.quotient(most, c(448), c(1.0 / 448));
  scale = k.select(k.bitAnd(tiny, k.gt(c(0x1p-26), scale)), subnormal(k, most, scale), scale);
  if (pow2)
    scale = k.bitcast(k.f32, k.bitAnd(k.add(k.bitcast(k.i32, scale), 0x7fffff), k.cint(k.i32, int32_t(0xff800000)))); // up
  // Nothing but zeros, or numbers that no scale brings into range: stored as they are.
  scale = k.select(k.gt(scale, c(0)), scale, power);
  Value inverse = k.reciprocal(scale);
  Value sign = k.cint(k.i32, int32_t(0x80000000)); // the correction of a quotient loses that of zero
  for (Value &v : values) {
    Value number = k.quotient(k.fmul(v, power), scale, inverse);
    v = k.bitcast(k.f32, k.bitOr(k.bitcast(k.i32, number), k.bitAnd(k.bitcast(k.i32, v), sign)));
  }
  return k.fmul(scale, back);
}

void QuantGroup::store(const Lanes &values, Value scale, Value row, Value lane) const {
  k.storeE4M3(values, k.element(k.element(codes, row, columns), lane, 1));
  k.when(k.eq(k.rem(lane, kGroup), k.idx(0)), [&] {
    int64_t groups = llvm::divideCeil(columns, kGroup);
    k.store(scale, k.element(k.element(scales, row, groups * 4), k.div(lane, kGroup), 4));
  });
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

} // namespace dsv3::codegen
