#include "codegen/sm90/simt/CodeRows.h"

using namespace mlir;

namespace dsv3::codegen {

Value codeScale(SimtBuilder &k, Type codes, Value most) {
  Value scale = k.fdiv(most, k.cf(k.f32, isa<Float8E5M2Type>(codes) ? 57344.0 : 448.0));
  return k.select(k.gt(scale, k.cf(k.f32, 0)), scale, k.cf(k.f32, 1));
}

namespace {

/// kernel.quantize of x [.., K] to f8E4M3FN or f8E5M2 with a scale per row: a warp a row.
class QuantizeRowsEmitter : public SimtEmitter {
public:
  QuantizeRowsEmitter() : SimtEmitter("kernel.quantize", "sm90.quantize_rows") {}
  std::string whyIllegal(Operation *op) const override {
    if (!isa<Float32Type, BFloat16Type>(tensorType(op->getOperand(0)).getElementType()))
      return "x must be f32 or bf16";
    if (!codesOf(op))
      return "out must be stored as f8E4M3FN or f8E5M2 with a f32 scale per row";
    int64_t n = lastDim(op->getOperand(0));
    if (width(op) < 4 || n > kMost)
      return "rows of " + std::to_string(n) + " values, expected a multiple of 4 up to " + std::to_string(kMost);
    return {};
  }
  LaunchSignature signature(Operation *op) const override {
    return {{}, {kernel::getValueParts(tensorType(op->getOperand(1)))[1].offset}};
  }
  DeviceCost cost(Operation *op) const override {
    double values = double(tensorType(op->getOperand(0)).getNumElements());
    return {values * double(elemBytes(tensorType(op->getOperand(0)).getElementType()) + 1), 0};
  }

protected:
  static constexpr int64_t kThreads = 128, kRows = kThreads / SimtBuilder::kWarp, kMost = 2048;
  static Type codesOf(Operation *op) {
    auto scheme = dyn_cast_or_null<ir::BlockedAttr>(tensorType(op->getOperand(1)).getEncoding());
    bool fits = scheme && isa<Float8E4M3FNType, Float8E5M2Type>(scheme.getStorage()) && scheme.getScale().isF32() && !scheme.getPow2Scale() &&
                scheme.getBlock() == ArrayRef<int64_t>({1, ShapedType::kDynamic});
    return fits ? scheme.getStorage() : Type();
  }
  static int64_t width(Operation *op) { return vectorWidth(op, {0}, {lastDim(op->getOperand(0))}); }
  int64_t threads(Operation *) const override { return kThreads; }
  int64_t blocks(Operation *op) const override { return llvm::divideCeil(rowCapacity(op->getOperand(0)), kRows); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    Rows x = rows(k, refs, op, 0);
    const int64_t n = lastDim(op->getOperand(0)), w = width(op), vectors = n / w, passes = llvm::divideCeil(vectors, SimtBuilder::kWarp);
    Value row = k.add(k.mul(k.block(), kRows), k.warp()), codes = k.param(refs.of(1));
    Value scales = k.at(codes, k.param(refs.size()));
    k.when(k.lt(row, rowCount(k, op->getOperand(0))), [&] { // the same in all lanes of a warp
      SmallVector<Lanes> values;
      Value most = k.cf(k.f32, 0);
      for (int64_t i = 0; i < passes; ++i) { // lanes past the end read the last vector again
        Value vector = k.minI(k.add(k.lane(), i * SimtBuilder::kWarp), k.idx(vectors - 1));
        values.push_back(x.load(k, x.at(k, row, k.mul(vector, w)), w));
        for (Value v : values.back())
          most = k.fmax(most, k.magnitude(v));
      }
      most = k.reduceWarp(most, [&](Value a, Value c) { return k.fmax(a, c); });
      Value scale = codeScale(k, codesOf(op), most);
      k.when(k.eq(k.lane(), k.idx(0)), [&] { k.store(scale, k.element(scales, row, 4)); });
      for (int64_t i = 0; i < passes; ++i) {
        Value vector = k.add(k.lane(), i * SimtBuilder::kWarp);
        auto store = [&] {
          Lanes numbers;
          for (Value v : values[size_t(i)])
            numbers.push_back(k.fdiv(v, scale));
          k.storeF8(codesOf(op), numbers, k.element(k.element(codes, row, n), vector, w));
        };
        if ((i + 1) * SimtBuilder::kWarp <= vectors)
          store();
        else
          k.when(k.lt(vector, k.idx(vectors)), store);
      }
    });
  }
};

} // namespace

void addCodeEmitters90(KernelRegistry &r) { r.add(std::make_unique<QuantizeRowsEmitter>()); }

} // namespace dsv3::codegen
