// Rows in codes: making them.
#include "codegen/targets/RowClass.h"
#include "codegen/x86/QuantRows.h"
#include "codegen/x86/RowOps.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// kernel.quantize: tile = one row.
class QuantizeEmitter : public X86Emitter {
public:
  QuantizeEmitter() : X86Emitter("kernel.quantize", "x86.quantize") {}
  std::string whyIllegal(Operation *op) const override {
    RankedTensorType x = tensorType(op->getOperand(0));
    if (!isa<Float32Type, BFloat16Type>(x.getElementType()))
      return "x must be f32 or bf16";
    if (op->getOperand(0).getDefiningOp<kernel::ViewOp>() && x.getRank() > 2)
      return "x is a view of some lanes of each head";
    return RowScheme::why(tensorType(op->getOperand(1)));
  }
  TileCount tiles(Operation *op) const override { return {rowScalar(op->getResult(0)), 1, rowFactor(op->getResult(0))}; }
  LaunchSignature signature(Operation *op) const override { return {{}, {QuantOperand::offset(op->getOperand(1))}}; }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    RowOperand x = rows(k, refs, op, 0);
    QuantOperand out(k, tensorType(op->getOperand(1)), k.buf(refs.of(1)), k.scalar(DSV3_SCALAR_COUNT));
    k.loop(k.begin, k.end, 1, [&](Value t) {
      Value row = x.row(k, t);
      quantizeRow(k, out, t, [&](Value lane, int64_t n) { return k.loadF32(x.elem, lanesAt(k, row, x.elem, lane), kLanes, n); });
    });
    return success();
  }
};

} // namespace

void addQuantEmitters(KernelRegistry &r) { r.add(std::make_unique<QuantizeEmitter>()); }

} // namespace dsv3::codegen
