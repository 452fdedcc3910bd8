#include "codegen/sm90/simt/RowNorm.h"

using namespace mlir;

namespace dsv3::codegen {

RowVectors::RowVectors(int64_t n, int64_t width, int64_t maxThreads) : n(n), width(width) {
  // As few vectors a thread as a block's size allows: a decode step waits for one row's latency, not for bandwidth.
  int64_t vectors = n / width;
  passes = llvm::divideCeil(vectors, maxThreads);
  threads = llvm::alignTo(llvm::divideCeil(vectors, passes), SimtBuilder::kWarp);
}

std::string RowVectors::whyIllegal(int64_t n, int64_t maxThreads) {
  return n <= maxThreads * kMaxLanes ? "" : "rows of more than " + std::to_string(maxThreads * kMaxLanes) + " values";
}

Value RowVectors::scratch(SimtBuilder &k) const { return threads > SimtBuilder::kWarp ? k.shared(threads / SimtBuilder::kWarp * 4) : Value(); }

kernel::NumericsAttr RowNorm::numerics(MLIRContext *ctx) const {
  Type f32 = Float32Type::get(ctx);
  return kernel::NumericsAttr::get(ctx, f32, f32, "lanes" + std::to_string(threads * width), 0);
}

void RowVectors::forVectors(SimtBuilder &k, llvm::function_ref<void(int64_t i, Value lane)> body) const {
  for (int64_t i = 0; i < passes; ++i) {
    Value vector = k.add(k.thread(), i * threads), lane = k.mul(vector, width);
    if ((i + 1) * threads * width <= n)
      body(i, lane);
    else
      k.when(k.lt(vector, k.idx(n / width)), [&] { body(i, lane); });
  }
}

SmallVector<Lanes> RowVectors::load(SimtBuilder &k, const Rows &x, Value address) const {
  return load(k, [&](Value lane) { return x.load(k, k.element(address, lane, elemBytes(x.elem)), width); });
}

SmallVector<Lanes> RowVectors::load(SimtBuilder &k, llvm::function_ref<Lanes(Value)> vector) const {
  SmallVector<Lanes> values;
  for (int64_t i = 0; i < passes; ++i) {
    Value index = k.add(k.thread(), i * threads);
    bool partial = (i + 1) * threads * width > n;
    // Threads past the end read the last vector again: no branch, and the loads of all vectors fly together.
    Value inside = partial ? k.lt(index, k.idx(n / width)) : Value();
    Value at = partial ? k.minI(index, k.idx(n / width - 1)) : index;
    Lanes lanes = vector(k.mul(at, width));
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
  Value sum = k.sumBlock(chains[0], scratch(k));
  return k.rsqrt(k.fadd(k.fmul(sum, k.cf(k.f32, 1.0 / double(n))), k.cf(k.f32, eps)));
}

void RowNorm::apply(SimtBuilder &k, SmallVector<Lanes> &values, Value scale, ArrayRef<Lanes> gamma) const {
  for (auto [lanes, g] : llvm::zip(values, gamma))
    for (auto [v, factor] : llvm::zip(lanes, g))
      v = k.fmul(k.fmul(v, scale), factor);
}

void RowVectors::store(SimtBuilder &k, ArrayRef<Lanes> values, Type elem, Value destination) const {
  forVectors(k, [&](int64_t i, Value lane) { k.storeF32(elem, values[size_t(i)], k.element(destination, lane, elemBytes(elem))); });
}

} // namespace dsv3::codegen
