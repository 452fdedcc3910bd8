// Dense, batched and grouped GEMMs over packed panels.
#include "codegen/x86/CodeGemm.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// Rows of a tile: enough to pay for dequantising the panels, few enough to share work among threads.
constexpr int64_t kRowBlock = 64;

/// Most columns that share a scale of a result in codes.
constexpr int64_t kMostGroup = 128;

/// Panels per tile: two when they pair up, so that a broadcast of x feeds two multiplications.
int64_t panelsPerTile(const WeightShape &w) { return w.panels() % 2 == 0 ? 2 : 1; }

/// What the five GEMM ops have in common: which operands are weights, and their packing.
class GemmEmitterBase : public X86Emitter {
public:
  GemmEmitterBase(llvm::StringRef op, llvm::StringRef name, std::initializer_list<unsigned> weightOperands)
      : X86Emitter(op, name), weightOperands(weightOperands) {}

  std::string whyIllegal(Operation *op) const override {
    RankedTensorType x = tensorType(op->getOperand(0)), y = tensorType(op->getResult(0));
    if (!isa<Float32Type, BFloat16Type>(x.getElementType()) || !isa<Float32Type, BFloat16Type>(y.getElementType()))
      return "x and y must be f32 or bf16";
    if (std::string why = y.getEncoding() ? whyNotQuantised(op) : std::string(); !why.empty())
      return why;
    for (unsigned w : weightOperands)
      if (std::string why = whyNotPanels(tensorType(op->getOperand(w))); !why.empty())
        return why;
    for (unsigned w : weightOperands)
      if (op->getOperand(w).getType() != op->getOperand(weightOperands[0]).getType())
        return "the weights differ in type";
    return x.getEncoding() ? whyNotCodes(op) : std::string();
  }
  LaunchSignature signature(Operation *op) const override {
    LaunchSignature s;
    if (inCodes(op))
      s.consts.push_back(QuantOperand::offset(op->getOperand(0)));
    if (outInCodes(op))
      s.consts.push_back(QuantOperand::offset(op->getResult(0)));
    return s;
  }
  kernel::NumericsAttr numerics(Operation *op) const override {
    MLIRContext *ctx = op->getContext();
    if (inCodes(op)) {
      WeightShape w = shape(op);
      RowScheme x(tensorType(op->getOperand(0)));
      int64_t piece = CodeGemm::piece(x, w);
      std::string chain = piece == w.k ? "k_ascending" : "k_blocks" + std::to_string(piece);
      bool exact = piece == w.k && x.storage.isInteger(8);
      return kernel::NumericsAttr::get(ctx, exact ? Type(IntegerType::get(ctx, 32)) : Float32Type::get(ctx), x.storage, chain, 0);
    }
    Type mul = multiplyType(tensorType(op->getOperand(0)).getElementType(), tensorType(op->getOperand(weightOperands[0])));
    return kernel::NumericsAttr::get(ctx, Float32Type::get(ctx), mul, "k_ascending", 0);
  }
  kernel::PackedAttr weightEncoding(Operation *, unsigned index, RankedTensorType type) const override {
    return llvm::is_contained(weightOperands, index) ? panelEncoding(type) : kernel::PackedAttr();
  }
  int64_t scratchBytes(Operation *op) const override {
    if (inCodes(op))
      return finishedAt(op) + (outInCodes(op) ? kRowBlock * param(op, "panels") * kLanes * 4 : 0);
    return PanelGemm::scratchBytes(kRowBlock, int64_t(weightOperands.size()) * param(op, "panels"));
  }

protected:
  DictionaryAttr config(Operation *op) const override {
    WeightShape w(tensorType(op->getOperand(weightOperands[0])));
    Builder b(op->getContext());
    // A gated op brings two panels per output panel already.
    int64_t panels = weightOperands.size() > 1 ? 1 : panelsPerTile(w);
    if (outInCodes(op)) // a tile has all columns that share a scale
      panels = RowScheme(tensorType(op->getResult(0))).group / kLanes;
    return b.getDictionaryAttr({b.getNamedAttr("panels", b.getI64IntegerAttr(panels)), b.getNamedAttr("rows", b.getI64IntegerAttr(kRowBlock))});
  }
  WeightShape shape(Operation *op) const { return WeightShape(tensorType(op->getOperand(weightOperands[0]))); }
  int64_t groups(Operation *op) const { return llvm::divideCeil(shape(op).panels(), param(op, "panels")); }

  /// What a tile multiplies, and where its rows are.
  struct Tile {
    Value group, matrix; ///< of panels, of stacked matrices
    Value rows;          ///< 1 to kRowBlock
    std::function<Value(Value row)> xRow, yRow; ///< of a row of the tile
    Value head;          ///< of x and y; null if rows are whole
    bool gathered;       ///< rows of x do not follow each other
  };

  void multiply(Operation *op, KernelBuilder &k, const RefMap &refs, const Tile &t) const {
    unsigned out = op->getNumOperands() - 1;
    int64_t panels = param(op, "panels");
    RowOperand x = rows(k, refs, op, 0), y = rows(k, refs, op, out);
    auto address = [&k, &t](const RowOperand &r, Value index) { return t.head ? r.row(k, index, t.head) : r.row(k, index); };
    auto store = [&](Value row, int64_t p, ArrayRef<Value> acc) {
      if (outInCodes(op)) // rounded as if it were stored
        return k.store(k.roundTo(y.elem, result(op, k, acc)), finished(op, k, row, p), 4);
      storeResult(op, k, result(op, k, acc), address(y, t.yRow(row)), y.elem, k.add(k.mul(t.group, panels), p));
    };
    SmallVector<WeightPanels> weights = panelsOf(op, k, refs, t.group, t.matrix);
    if (inCodes(op)) {
      QuantOperand codes(k, tensorType(op->getOperand(0)), k.buf(refs.of(0)), k.scalar(DSV3_SCALAR_COUNT));
      CodeGemm(k, codes, weights, panels, t.rows, t.xRow, store).emit();
      if (outInCodes(op))
        quantise(op, k, refs, t);
      return;
    }
    auto xAddress = [&](Value row) { return address(x, t.xRow(row)); };
    PanelGemm(k, x.elem, weights, panels, kRowBlock, t.rows, xAddress, t.gathered ? 0 : x.stride, store).emit();
  }

private:
  static bool inCodes(Operation *op) { return bool(tensorType(op->getOperand(0)).getEncoding()); }
  static bool outInCodes(Operation *op) { return bool(tensorType(op->getResult(0)).getEncoding()); }

  std::string whyNotQuantised(Operation *op) const {
    RankedTensorType y = tensorType(op->getResult(0));
    if (std::string why = RowScheme::why(y); !why.empty())
      return why;
    RowScheme rows(y);
    if (weightOperands.size() < 2 || !inCodes(op))
      return "y is quantised, which only gated products of rows in codes write";
    if (rows.row % rows.group || rows.group % kLanes || rows.group > kMostGroup)
      return "y has a scale per " + std::to_string(rows.group) + " of " + std::to_string(rows.row) + " columns: a tile has all columns of a scale, at most " +
             std::to_string(kMostGroup);
    return {};
  }

  /// Results of a tile that wait for their scales: f32, behind the product's scratch.
  int64_t finishedAt(Operation *op) const {
    return llvm::alignTo(CodeGemm::scratchBytes(tensorType(op->getOperand(0)), tensorType(op->getOperand(weightOperands[0])), kRowBlock), 64);
  }
  Value finished(Operation *op, KernelBuilder &k, Value row, int64_t panel) const {
    return k.at(k.scratch, k.add(k.mul(row, param(op, "panels") * kLanes * 4), finishedAt(op) + panel * kLanes * 4));
  }

  /// The rows of a tile, whose columns share a scale.
  void quantise(Operation *op, KernelBuilder &k, const RefMap &refs, const Tile &t) const {
    QuantOperand y(k, tensorType(op->getResult(0)), k.buf(refs.of(op->getNumOperands() - 1)), k.scalar(DSV3_SCALAR_COUNT + 1));
    int64_t n = y.scheme.group;
    Value first = k.mul(t.group, n);
    k.loop(k.idx(0), t.rows, 1, [&](Value row) {
      Value from = finished(op, k, row, 0), to = t.yRow(row);
      auto load = [&](Value lane, int64_t count) { return k.loadF32(k.f32, k.at(from, k.mul(k.sub(lane, first), 4)), kLanes, count); };
      quantizeGroup(k, y.scheme, first, n, load, y.codesOf(k, to), k.at(y.scalesOf(k, to), k.mul(t.group, 4)));
    });
  }

  std::string whyNotCodes(Operation *op) const {
    if (isa<kernel::BatchedGemmOp>(op))
      return "x of a product per head is quantised";
    if (op->getOperand(0).getDefiningOp<kernel::ViewOp>())
      return "x is quantised and a view";
    return CodeGemm::why(tensorType(op->getOperand(0)), tensorType(op->getOperand(weightOperands[0])));
  }

  /// The panels of `group` of every weight; `matrix` selects one of stacked matrices.
  SmallVector<WeightPanels> panelsOf(Operation *op, KernelBuilder &k, const RefMap &refs, Value group, Value matrix) const {
    SmallVector<WeightPanels> panels;
    for (unsigned w : weightOperands) {
      auto parts = kernel::getPackedParts(tensorType(op->getOperand(w)));
      auto base = [&](size_t part) {
        if (part >= parts.size())
          return Value();
        Value address = k.buf(refs.of(w) + unsigned(part));
        return parts[part].outerStride ? k.at(address, k.mul(matrix, parts[part].outerStride)) : address;
      };
      panels.push_back({tensorType(op->getOperand(w)), base(0), base(1), base(2), k.mul(group, param(op, "panels"))});
    }
    return panels;
  }

  /// A finished vector: the product, or silu(gate) * up when there are two weights.
  static Value result(Operation *op, KernelBuilder &k, ArrayRef<Value> acc) {
    if (acc.size() < 2)
      return acc[0];
    Type via = cast<TypeAttr>(op->getAttr("via")).getValue();
    return k.fmul(k.silu(k.roundTo(via, acc[0])), k.roundTo(via, acc[1]));
  }

  void storeResult(Operation *op, KernelBuilder &k, Value v, Value rowAddress, Type elem, Value panel) const {
    WeightShape w = shape(op);
    Value address = k.at(rowAddress, k.mul(panel, kLanes * elemBytes(elem)));
    int64_t tail = w.n % kLanes;
    if (!tail)
      return k.storeF32(elem, v, address);
    k.when(k.lt(panel, k.idx(w.panels() - 1)), [&] { k.storeF32(elem, v, address); }, [&] { k.storeF32(elem, v, address, tail); });
  }

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
    Value total = rowCount(k, op->getOperand(0));
    int64_t nGroups = groups(op), nHeads = heads(op);
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value rest = k.div(tile, nGroups), head = k.rem(rest, nHeads), row0 = k.mul(k.div(rest, nHeads), kRowBlock);
      auto row = [&](Value r) { return k.add(row0, r); };
      multiply(op, k, refs, {k.rem(tile, nGroups), head, k.minI(k.sub(total, row0), k.idx(kRowBlock)), row, row,
                             isa<kernel::BatchedGemmOp>(op) ? head : Value(), false});
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
    Value offsets = k.buf(refs.of(gated ? 3 : 2)), tokenOf = gathers ? k.buf(refs.of(4)) : Value();
    int64_t nGroups = groups(op);
    k.loop(k.begin, k.end, 1, [&](Value tile) {
      Value expert = k.div(tile, nGroups), first = k.loadI32(offsets, expert), last = k.loadI32(offsets, k.add(expert, 1));
      k.loop(first, last, kRowBlock, [&](Value row0) {
        auto yRow = [&](Value r) { return k.add(row0, r); };
        auto xRow = [&](Value r) { return gathers ? k.loadI32(tokenOf, yRow(r)) : yRow(r); };
        multiply(op, k, refs, {k.rem(tile, nGroups), expert, k.minI(k.sub(last, row0), k.idx(kRowBlock)), xRow, yRow, Value(), gathers});
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
