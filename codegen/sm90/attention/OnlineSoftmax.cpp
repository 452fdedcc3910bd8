#include "codegen/sm90/attention/OnlineSoftmax.h"

#include <cmath>
#include <limits>

using namespace mlir;

namespace dsv3::codegen {

namespace {
/// log2 of how far probabilities may exceed 1: 2^8 is far from overflow, in sums of 2^20 keys too.
constexpr double kSlack = 8;
} // namespace

OnlineSoftmax::OnlineSoftmax(TileBuilder &t, double scale) : t(t), c(scale * std::log2(std::exp(1.0))) {}
OnlineSoftmax OnlineSoftmax::ofExponents(TileBuilder &t) { return {t, std::log(2.0)}; }

Value OnlineSoftmax::moved(Value maximum, Value blockMax) const {
  Value limit = t.add(maximum, t.constant(maximum.getType(), kSlack / c));
  return t.select(t.lt(limit, blockMax), blockMax, maximum);
}

Value OnlineSoftmax::factor(Value before, Value after) const {
  // The difference of the references, not of their products with c: only that is exactly 0 where nothing moved.
  return t.exp2(t.mul(t.sub(before, after), t.constant(before.getType(), c)));
}

OnlineSoftmax::Probabilities OnlineSoftmax::probabilities(Value scores, Value maximum) const {
  Value minus = t.bcast(t.neg(t.mul(maximum, t.constant(maximum.getType(), c))), scores.getType());
  Value p = t.exp2(t.fma(scores, t.constant(scores.getType(), c), minus));
  return {p, t.reduce(tile::Combine::Add, p, t.quad(t.f32))};
}

Values OnlineSoftmax::rescaled(ArrayRef<Value> parts, Value factor) const {
  SmallVector<Type> types = llvm::to_vector(llvm::map_range(parts, [](Value v) { return v.getType(); }));
  Value any = t.any(t.lt(factor, 1));
  return t.choose(
      any, types,
      [&] {
        Values scaled;
        for (Value part : parts)
          scaled.push_back(t.mul(part, t.bcast(factor, part.getType())));
        return scaled;
      },
      [&] { return Values(parts.begin(), parts.end()); });
}

Value OnlineSoftmax::normalised(Value part, Value total) const {
  Value inverse = t.divide(t.constant(total.getType(), 1), total);
  return t.mul(part, t.bcast(inverse, part.getType()));
}

Value OnlineSoftmax::logSum(Value maximum, Value total) const {
  return t.fma(maximum, t.constant(maximum.getType(), c), t.log2(total));
}

Value OnlineSoftmax::masked(Value mask, Value scores) const {
  return t.select(mask, scores, t.constant(scores.getType(), -std::numeric_limits<double>::infinity()));
}

} // namespace dsv3::codegen
