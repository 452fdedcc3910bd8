// Dense, batched and grouped GEMMs over packed panels.
#include "codegen/x86/EmitterBase.h"
#include "codegen/x86/PanelGemm.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// Rows of a tile: enough to pay for dequantising the panels, few enough to share work among threads.
constexpr int64_t kRowBlock = 64;

/// Panels per tile: two when they pair up, so that a broadcast of x feeds two multiplications.
int64_t panelsPerTile(const WeightShape &w) { return w.panels() % 2 == 0 ? 2 : 1; }

/// What the five GEMM ops have in common: which operands are weights, and their packing.
class GemmEmitterBase : public X86Emitter {
public:
  GemmEmitterBase(llvm::StringRef op, llvm::StringRef name, std::initializer_list<unsigned> weightOperands)
      : X86Emitter(op, name), weightOperands(weightOperands) {}

  std::string whyIllegal(Operation *op) const override {
    Type x = tensorType(op->getOperand(0)).getElementType(), y = tensorType(op->getResult(0)).getElementType();
    if (tensorType(op->getOperand(0)).getEncoding())
      return "x is quantised, which no kernel of x86-64 reads yet";
    if (!isa<Float32Type, BFloat16Type>(x) || !isa<Float32Type, BFloat16Type>(y))
      return "x and y must be f32 or bf16";
    for (unsigned w : weightOperands)
      if (std::string why = whyNotPanels(tensorType(op->getOperand(w))); !why.empty())
        return why;
    for (unsigned w : weightOperands)
      if (op->getOperand(w).getType() != op->getOperand(weightOperands[0]).getType())
        return "the weights differ in type";
    return {};
  }
  kernel::NumericsAttr numerics(Operation *op) const override {
    Type mul = multiplyType(tensorType(op->getOperand(0)).getElementType(), tensorType(op->getOperand(weightOperands[0])));
    return kernel::NumericsAttr::get(op->getContext(), Float32Type::get(op->getContext()), mul, "k_ascending", 0);
  }
  kernel::PackedAttr weightEncoding(Operation *, unsigned index, RankedTensorType type) const override {
    return llvm::is_contained(weightOperands, index) ? panelEncoding(type) : kernel::PackedAttr();
  }
  int64_t scratchBytes(Operation *op) const override {
    return PanelGemm::scratchBytes(kRowBlock, int64_t(weightOperands.size()) * param(op, "panels"));
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    WeightShape w(tensorType(op->getOperand(weightOperands[0])));
    Builder b(op->getContext());
    // A gated op brings two panels per output panel already.
    int64_t panels = weightOperands.size() > 1 ? 1 : panelsPerTile(w);
    return b.getDictionaryAttr({b.getNamedAttr("panels", b.getI64IntegerAttr(panels)), b.getNamedAttr("rows", b.getI64IntegerAttr(kRowBlock))});
  }
  WeightShape shape(Operation *op) const { return WeightShape(tensorType(op->getOperand(weightOperands[0]))); }
  int64_t groups(Operation *op) const { return llvm::divideCeil(shape(op).panels(), param(op, "panels")); }

  /// The panels of `group` of every weight; `matrix` selects one of stacked matrices.
  SmallVector<WeightPanels> panelsOf(Operation *op, KernelBuilder &k, const RefMap &refs, Value group, Value matrix) const {
    SmallVector<WeightPanels> panels;
    for (unsigned w : weightOperands) {
      auto parts = kernel::getPackedParts(tensorType(op->getOperand(w)));
      auto base = [&](size_t part) {
        Value address = k.buf(refs.of(w) + unsigned(part));
        return parts[part].outerStride ? k.at(address, k.mul(matrix, parts[part].outerStride)) : address;
      };
      panels.push_back({tensorType(op->getOperand(w)), base(0), parts.size() > 1 ? base(1) : Value(), k.mul(group, param(op, "panels"))});
    }
    return panels;
  }

  /// Stores a finished vector: plain, or silu(gate) * up when there are two weights.
  void storeResult(Operation *op, KernelBuilder &k, ArrayRef<Value> acc, Value rowAddress, Type elem, Value panel) const {
    Value v = acc[0];
    if (acc.size() == 2) {
      Type via = cast<TypeAttr>(op->getAttr("via")).getValue();
      v = k.fmul(k.silu(k.roundTo(via, acc[0])), k.roundTo(via, acc[1]));
    }
    WeightShape w = shape(op);
    Value address = k.at(rowAddress, k.mul(panel, kLanes * elemBytes(elem)));
    int64_t tail = w.n % kLanes;
    if (!tail)
      return k.storeF32(elem, v, address);
    k.when(k.lt(panel, k.idx(w.panels() - 1)), [&] { k.storeF32(elem, v, address); }, [&] { k.storeF32(elem, v, address, tail); });
  }

private:
  SmallVector<unsigned> weightOperands;
};

/// gemm, gated_gemm and batched_gemm: tile = (row block, head, panel group), the group fastest.
class DenseGemmEmitter : public GemmEmitterBase {
public:
  using GemmEmitterBase::GemmEmitterBase;

  TileCount tiles(Operation *op) const override {
    return {rowScalar(op->getOperand(0)), kRowBlock, heads(op) * groups(op)};
  }

protected:
  /// Heads of a batched op; a dense one reads whole rows, whatever their shape.
  int64_t heads(Operation *op) const { return isa<kernel::BatchedGemmOp>(op) ? innerRows(tensorType(op->getOperand(0))) : 1; }

  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    unsigned out = op->getNumOperands() - 1;
    RowOperand x = rows(k, refs, op, 0), y = rows(k, refs, op, out);
    Value total = rowCount(k, op->getOperand(0));
    int64_t nGroups = groups(op), nHeads = heads(op);
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value group = k.rem(tile, nGroups), rest = k.div(tile, nGroups);
      Value head = k.rem(rest, nHeads), row0 = k.mul(k.div(rest, nHeads), kRowBlock);
      auto address = [&](const RowOperand &r, Value row) {
        Value index = k.add(row0, row);
        return nHeads > 1 || isa<kernel::BatchedGemmOp>(op) ? r.row(k, index, head) : r.row(k, index);
      };
      PanelGemm gemm(k,
                     x.elem,
                     panelsOf(op, k, refs, group, head),
                     param(op, "panels"),
                     kRowBlock,
                     k.minI(k.sub(total, row0), k.idx(kRowBlock)),
                     [&](Value row) { return address(x, row); },
                     x.stride,
                     [&](Value row, int64_t p, ArrayRef<Value> acc) {
                       storeResult(op, k, acc, address(y, row), y.elem, k.add(k.mul(group, param(op, "panels")), p));
                     });
      gemm.emit();
    });
    return success();
  }
};

/// grouped_gemm and grouped_gated_gemm: tile = (expert, panel group). An expert without rows touches no weight.
class GroupedGemmEmitter : public GemmEmitterBase {
public:
  using GemmEmitterBase::GemmEmitterBase;

  TileCount tiles(Operation *op) const override { return {-1, 1, experts(op) * groups(op)}; }

protected:
  int64_t experts(Operation *op) const { return tensorType(op->getOperand(1)).getDimSize(0); }

  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    auto gated = dyn_cast<kernel::GroupedGatedGemmOp>(op);
    bool gathers = gated && gated.getTokenOf();
    unsigned offsetsAt = gated ? 3 : 2, out = op->getNumOperands() - 1;
    RowOperand x = rows(k, refs, op, 0), y = rows(k, refs, op, out);
    Value offsets = k.buf(refs.of(offsetsAt)), tokenOf = gathers ? k.buf(refs.of(4)) : Value();
    int64_t nGroups = groups(op);
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value group = k.rem(tile, nGroups), expert = k.div(tile, nGroups);
      Value first = k.loadI32(offsets, expert), last = k.loadI32(offsets, k.add(expert, 1));
      k.loop(first, last, kRowBlock, [&](Value row0) {
        auto xRow = [&](Value row) {
          Value index = k.add(row0, row);
          return x.row(k, gathers ? k.loadI32(tokenOf, index) : index);
        };
        PanelGemm gemm(k,
                       x.elem,
                       panelsOf(op, k, refs, group, expert),
                       param(op, "panels"),
                       kRowBlock,
                       k.minI(k.sub(last, row0), k.idx(kRowBlock)),
                       xRow,
                       gathers ? 0 : x.stride,
                       [&](Value row, int64_t p, ArrayRef<Value> acc) {
                         storeResult(op, k, acc, y.row(k, k.add(row0, row)), y.elem, k.add(k.mul(group, param(op, "panels")), p));
                       });
        gemm.emit();
      });
    });
    return success();
  }
};

} // namespace

void addGemmEmitters(KernelRegistry &r) {
  r.add(std::unique_ptr<KernelEmitter>(new DenseGemmEmitter("kernel.gemm", "x86.gemm", {1})));
  r.add(std::unique_ptr<KernelEmitter>(new DenseGemmEmitter("kernel.gated_gemm", "x86.gated_gemm", {1, 2})));
  r.add(std::unique_ptr<KernelEmitter>(new DenseGemmEmitter("kernel.batched_gemm", "x86.batched_gemm", {1})));
  r.add(std::unique_ptr<KernelEmitter>(new GroupedGemmEmitter("kernel.grouped_gemm", "x86.grouped_gemm", {1})));
  r.add(std::unique_ptr<KernelEmitter>(new GroupedGemmEmitter("kernel.grouped_gated_gemm", "x86.grouped_gated_gemm", {1, 2})));
}

} // namespace dsv3::codegen
