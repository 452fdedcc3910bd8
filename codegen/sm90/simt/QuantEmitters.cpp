// Rows of codes: making them, and choosing some of them.
#include "codegen/sm90/simt/QuantGroup.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

constexpr int64_t kGroup = QuantGroup::kGroup;

/// kernel.quantize: x, out.
class QuantizeEmitter : public RowsToCodesEmitter {
public:
  QuantizeEmitter() : RowsToCodesEmitter("kernel.quantize", "sm90.quantize") {}
  std::string whyIllegal(Operation *op) const override {
    if (!isa<Float32Type, BFloat16Type>(tensorType(op->getOperand(0)).getElementType()))
      return "x must be f32 or bf16";
    return RowsToCodesEmitter::whyIllegal(op);
  }
  DeviceCost cost(Operation *op) const override {
    RankedTensorType x = tensorType(op->getOperand(0));
    return {double(x.getNumElements() * elemBytes(x.getElementType()) + kernel::getValueBytes(tensorType(op->getOperand(1)))), 0};
  }

protected:
  Source source(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    Rows x = rows(k, refs, op, 0);
    return [=, &k](Value row, Value lane, int64_t width) { return x.load(k, x.at(k, row, lane), width); };
  }
};

/// kernel.gather of quantised rows: x, token_of, out. An item is a vector of codes or one scale.
class GatherQuantizedEmitter : public SimtEmitter {
public:
  GatherQuantizedEmitter() : SimtEmitter("kernel.gather", "sm90.gather_quantized") {}
  std::string whyIllegal(Operation *op) const override {
    if (!QuantGroup::schemeOf(op->getOperand(0)) || op->getOperand(0).getDefiningOp<kernel::ViewOp>())
      return "x must be whole rows of f8E4M3FN or i8 in blocks of 1x128 or 1x?";
    if (lastDim(op->getResult(0)) % 4)
      return "rows of " + std::to_string(lastDim(op->getResult(0))) + " codes do not lie on multiples of 4";
    double all = double(rowCapacity(op->getResult(0))) * double(items(op));
    return all < double(int64_t(1) << 31) ? "" : "rows and vectors must be fewer than 2^31 together";
  }
  LaunchSignature signature(Operation *op) const override { return {{}, {QuantGroup::scaleOffset(op->getOperand(0)), QuantGroup::scaleOffset(op->getOperand(2))}}; }
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
  static int64_t groups(Operation *op) { return QuantGroup::perToken(op->getOperand(0)) ? 1 : llvm::divideCeil(lastDim(op->getResult(0)), kGroup); }
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
