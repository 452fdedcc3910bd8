#include "codegen/sm90/simt/RowNorm.h"

using namespace mlir;

namespace dsv3::codegen {

RowNorm::RowNorm(int64_t n, int64_t width, double eps) : n(n), width(width), eps(eps) {
  // As few vectors a thread as a block's size allows: a decode step waits for one row's latency, not for bandwidth.
  int64_t vectors = n / width;
  passes = llvm::divideCeil(vectors, kMaxThreads);
  threads = llvm::alignTo(llvm::divideCeil(vectors, passes), SimtBuilder::kWarp);
}

std::string RowNorm::whyIllegal(int64_t n) {
  return n <= kMaxThreads * kMaxLanes ? "" : "rows of more than " + std::to_string(kMaxThreads * kMaxLanes) + " values";
}

kernel::NumericsAttr RowNorm::numerics(MLIRContext *ctx) const {
  Type f32 = Float32Type::get(ctx);
  return kernel::NumericsAttr::get(ctx, f32, f32, "lanes" + std::to_string(threads * width), 0);
}

void RowNorm::forVectors(SimtBuilder &k, llvm::function_ref<void(int64_t i, Value lane)> body) const {
  for (int64_t i = 0; i < passes; ++i) {
    Value vector = k.add(k.thread(), i * threads), lane = k.mul(vector, width);
    if ((i + 1) * threads * width <= n)
      body(i, lane);
    else
      k.when(k.lt(vector, k.idx(n / width)), [&] { body(i, lane); });
  }
}

SmallVector<Lanes> RowNorm::load(SimtBuilder &k, const Rows &x, Value address) const {
  SmallVector<Lanes> values;
  for (int64_t i = 0; i < passes; ++i) {
    Value vector = k.add(k.thread(), i * threads);
    bool partial = (i + 1) * threads * width > n;
    // Threads past the end read the last vector again: no branch, and the loads of all vectors fly together.
    Value inside = partial ? k.lt(vector, k.idx(n / width)) : Value();
    Value at = partial ? k.minI(vector, k.idx(n / width - 1)) : vector;
    Lanes lanes = x.load(k, k.element(address, k.mul(at, width), elemBytes(x.elem)), width);
    for (Value &v : lanes)
      v = partial ? k.select(inside, v, k.cf(k.f32, 0)) : v;
    values.push_back(lanes);
  }
  return values;
}

Value RowNorm::scale(SimtBuilder &k, ArrayRef<Lanes> values) const {
  Lanes chains(width, k.cf(k.f32, 0));
  for (const Lanes &lanes : values)
    for (int64_t j = 0; j < width; ++j)
      chains[j] = k.fma(lanes[j], lanes[j], chains[j]);
  for (int64_t half = width / 2; half; half /= 2)
    for (int64_t j = 0; j < half; ++j)
      chains[j] = k.fadd(chains[j], chains[j + half]);
  Value sum = k.sumBlock(chains[0], threads > SimtBuilder::kWarp ? k.shared(threads / SimtBuilder::kWarp * 4) : Value());
  return k.rsqrt(k.fadd(k.fmul(sum, k.cf(k.f32, 1.0 / double(n))), k.cf(k.f32, eps)));
}

void RowNorm::apply(SimtBuilder &k, SmallVector<Lanes> &values, Value scale, ArrayRef<Lanes> gamma) const {
  for (auto [lanes, g] : llvm::zip(values, gamma))
    for (auto [v, factor] : llvm::zip(lanes, g))
      v = k.fmul(k.fmul(v, scale), factor);
}

void RowNorm::store(SimtBuilder &k, ArrayRef<Lanes> values, Type elem, Value destination) const {
  forVectors(k, [&](int64_t i, Value lane) { k.storeF32(elem, values[size_t(i)], k.element(destination, lane, elemBytes(elem))); });
}

} // namespace dsv3::codegen
