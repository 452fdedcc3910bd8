// Rows in FP8 blocks: making them, and choosing some of them.
#include "codegen/sm90/simt/SimtEmitter.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr int64_t kGroup = 128; // channels that share a scale

/// `#dsv3.blocked<f8E4M3FN, 1x128, f32>`, or null: the only scheme of activations there is.
ir::BlockedAttr groupScheme(Value v) {
  auto scheme = dyn_cast_or_null<ir::BlockedAttr>(cast<RankedTensorType>(v.getType()).getEncoding());
  bool fits = scheme && isa<Float8E4M3FNType>(scheme.getStorage()) && scheme.getScale().isF32() &&
              scheme.getBlock() == ArrayRef<int64_t>({1, kGroup});
  return fits ? scheme : ir::BlockedAttr();
}

/// Where the scales of a quantised value begin: after the codes, so it depends on the capacity of rows.
int64_t scaleOffset(Value v) { return kernel::getValueParts(cast<RankedTensorType>(v.getType()))[1].offset; }

/// kernel.quantize: x, out; a group is 16 or 32 neighbouring lanes of a warp. Codes and scales are those of
/// runtime/reference/Quantize.h, but for groups whose largest value is below 2^-90: those become zeros.
class QuantizeEmitter : public SimtEmitter {
public:
  QuantizeEmitter() : SimtEmitter("kernel.quantize", "sm90.quantize") {}
  std::string whyIllegal(Operation *op) const override {
    if (!groupScheme(op->getOperand(1)))
      return "out must be stored as f8E4M3FN in blocks of 1x128 with f32 scales";
    if (!isa<Float32Type, BFloat16Type>(tensorType(op->getOperand(0)).getElementType()))
      return "x must be f32 or bf16";
    if (width(op) < kGroup / SimtBuilder::kWarp)
      return "rows of " + std::to_string(lastDim(op->getOperand(0))) + " values do not lie on multiples of 4";
    double all = double(rowCapacity(op->getOperand(0))) * double(items(op));
    return all < double(int64_t(1) << 31) ? "" : "rows and vectors must be fewer than 2^31 together";
  }
  LaunchSignature signature(Operation *op) const override { return {{}, {scaleOffset(op->getOperand(1))}}; }
  DeviceCost cost(Operation *op) const override {
    double values = double(tensorType(op->getOperand(0)).getNumElements());
    return {values * (double(elemBytes(tensorType(op->getOperand(0)).getElementType())) + 1 + 4.0 / kGroup), 0};
  }

protected:
  static constexpr int64_t kThreads = 128;
  static int64_t width(Operation *op) { return vectorWidth(op, {0}, {lastDim(op->getOperand(0))}); }
  static int64_t groups(Operation *op) { return llvm::divideCeil(lastDim(op->getOperand(0)), kGroup); }
  /// Threads of a row: whole groups, so that a warp holds no part of one.
  static int64_t items(Operation *op) { return groups(op) * (kGroup / width(op)); }
  int64_t threads(Operation *) const override { return kThreads; }
  int64_t blocks(Operation *op) const override { return llvm::divideCeil(rowCapacity(op->getOperand(0)) * items(op), kThreads); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    int64_t n = width(op), perRow = items(op), lanes = kGroup / n, columns = lastDim(op->getOperand(0));
    Rows x = rows(k, refs, op, 0);
    Value index = k.add(k.mul(k.block(), kThreads), k.thread()), count = k.mul(rowCount(k, op->getOperand(0)), perRow);
    // Lanes past the end take part in the exchange with the values of the last vector, and store nothing.
    Value at = k.minI(index, k.maxI(k.sub(count, k.idx(1)), k.idx(0))), row = k.div(at, perRow), item = k.rem(at, perRow);
    Value lane = k.mul(item, n), inside = k.lt(lane, k.idx(columns));
    Lanes values = x.load(k, x.at(k, row, columns % kGroup ? k.minI(lane, k.idx(columns - n)) : lane), n);
    Value most = k.cf(k.f32, 0);
    for (Value &v : values) {
      v = columns % kGroup ? k.select(inside, v, k.cf(k.f32, 0)) : v;
      most = k.fmax(most, k.magnitude(v));
    }
    for (int64_t mask = lanes / 2; mask; mask /= 2)
      most = k.fmax(most, k.shuffleXor(most, mask));
    Value tiny = k.gt(k.cf(k.f32, 0x1p-90), most), scale = k.quotient(most, k.cf(k.f32, 448), k.cf(k.f32, 1.0 / 448));
    if (groupScheme(op->getOperand(1)).getPow2Scale())
      scale = roundUpToPowerOfTwo(k, scale);
    scale = k.select(tiny, k.cf(k.f32, 1), scale);
    Value inverse = k.reciprocal(scale);
    for (Value &v : values)
      v = k.select(tiny, k.cf(k.f32, 0), k.quotient(v, scale, inverse));
    k.when(k.bitAnd(k.lt(index, count), inside), [&] {
      Value codes = k.param(refs.of(1)), scales = k.at(codes, k.param(refs.size()));
      k.storeE4M3(values, k.element(k.element(codes, row, columns), lane, 1));
      k.when(k.eq(k.rem(item, lanes), k.idx(0)), [&] {
        k.store(scale, k.element(k.element(scales, row, groups(op) * 4), k.div(item, lanes), 4));
      });
    });
  }

private:
  static Value roundUpToPowerOfTwo(SimtBuilder &k, Value scale) {
    Value bits = k.add(k.bitcast(k.i32, scale), 0x7fffff);
    return k.bitcast(k.f32, k.bitAnd(bits, k.idx(int32_t(0xff800000))));
  }
};

/// kernel.gather of quantised rows: x, token_of, out. An item is a vector of codes or one scale.
class GatherQuantizedEmitter : public SimtEmitter {
public:
  GatherQuantizedEmitter() : SimtEmitter("kernel.gather", "sm90.gather_quantized") {}
  std::string whyIllegal(Operation *op) const override {
    if (!groupScheme(op->getOperand(0)) || op->getOperand(0).getDefiningOp<kernel::ViewOp>())
      return "x must be whole rows of f8E4M3FN in blocks of 1x128";
    if (lastDim(op->getResult(0)) % 4)
      return "rows of " + std::to_string(lastDim(op->getResult(0))) + " codes do not lie on multiples of 4";
    double all = double(rowCapacity(op->getResult(0))) * double(items(op));
    return all < double(int64_t(1) << 31) ? "" : "rows and vectors must be fewer than 2^31 together";
  }
  LaunchSignature signature(Operation *op) const override { return {{}, {scaleOffset(op->getOperand(0)), scaleOffset(op->getOperand(2))}}; }
  DeviceCost cost(Operation *op) const override { return {2 * double(kernel::getValueBytes(tensorType(op->getResult(0)))), 0}; }

protected:
  static constexpr int64_t kThreads = 128;
  /// 32-bit words of a vector of codes: up to 16 bytes.
  static int64_t words(Operation *op) {
    int64_t words = 4;
    while (lastDim(op->getResult(0)) % (words * 4))
      words /= 2;
    return words;
  }
  static int64_t vectors(Operation *op) { return lastDim(op->getResult(0)) / (words(op) * 4); }
  static int64_t groups(Operation *op) { return llvm::divideCeil(lastDim(op->getResult(0)), kGroup); }
  static int64_t items(Operation *op) { return vectors(op) + groups(op); }
  int64_t threads(Operation *) const override { return kThreads; }
  int64_t blocks(Operation *op) const override { return llvm::divideCeil(rowCapacity(op->getResult(0)) * items(op), kThreads); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    int64_t perRow = items(op), columns = lastDim(op->getResult(0)), bytes = words(op) * 4, scales = groups(op) * 4;
    Value index = k.add(k.mul(k.block(), kThreads), k.thread());
    k.when(k.lt(index, k.mul(rowCount(k, op->getResult(0)), perRow)), [&] {
      Value row = k.div(index, perRow), item = k.rem(index, perRow), x = k.param(refs.of(0)), out = k.param(refs.of(2));
      Value from = k.loadScalar(k.i32, k.element(k.param(refs.of(1)), row, 4), /*readOnly=*/true);
      k.when(
          k.lt(item, k.idx(vectors(op))),
          [&] {
            SmallVector<Value> codes = k.loadI32(k.element(k.element(x, from, columns), item, bytes), words(op), /*readOnly=*/true);
            k.storeWords(codes, k.element(k.element(out, row, columns), item, bytes));
          },
          [&] {
            Value group = k.add(item, -vectors(op));
            auto place = [&](Value base, unsigned offset, Value r) {
              return k.element(k.element(k.at(base, k.param(refs.size() + offset)), r, scales), group, 4);
            };
            k.store(k.loadScalar(k.i32, place(x, 0, from), /*readOnly=*/true), place(out, 1, row));
          });
    });
  }
};

} // namespace

void addQuantEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<QuantizeEmitter>());
  r.add(std::make_unique<GatherQuantizedEmitter>());
}

} // namespace dsv3::codegen
