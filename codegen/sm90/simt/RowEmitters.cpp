// Kernels that walk over rows: embedding, norms, elementwise ops, concatenation, copies of chosen rows.
#include "codegen/sm90/simt/QuantGroup.h"
#include "codegen/sm90/simt/RowNorm.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// Copies `n` lanes, converting if the types differ.
void copyLanes(SimtBuilder &k, const Rows &from, Value source, const Rows &to, Value destination, int64_t n) {
  k.storeF32(to.elem, from.load(k, source, n), destination);
}

/// A launch that copies whole rows: row r of the result is row `index[r]` of a source.
class CopyRowsEmitter : public FlatEmitter {
public:
  CopyRowsEmitter(StringRef op, StringRef name, unsigned source, unsigned index) : FlatEmitter(op, name), source(source), index(index) {}
  DeviceCost cost(Operation *op) const override {
    double rows = double(rowCapacity(op->getResult(0)));
    double from = elemBytes(tensorType(op->getOperand(source)).getElementType()), to = elemBytes(tensorType(op->getResult(0)).getElementType());
    return {rows * (4 + double(lastDim(op->getResult(0))) * (from + to)), 0};
  }

protected:
  int64_t width(Operation *op) const { return vectorWidth(op, {source, 2}, {lastDim(op->getResult(0))}); }
  /// Vectors of a thread, half a row apart: two loads in flight are what the memory needs when a thread does nothing else.
  int64_t vectors(Operation *op) const { return lastDim(op->getResult(0)) / width(op) % 2 ? 1 : 2; }
  int64_t items(Operation *op) const override { return lastDim(op->getResult(0)) / width(op) / vectors(op); }
  void item(Operation *op, SimtBuilder &k, const RefMap &refs, Value row, Value item) const override {
    int64_t n = width(op), apart = items(op) * n;
    Rows x = rows(k, refs, op, source), out = rows(k, refs, op, 2);
    Value from = k.loadScalar(k.i32, k.element(k.param(refs.of(index)), row, 4), /*readOnly=*/true), lane = k.mul(item, n);
    SmallVector<Lanes> values;
    for (int64_t v = 0; v < vectors(op); ++v)
      values.push_back(x.load(k, x.at(k, from, k.add(lane, v * apart)), n));
    for (int64_t v = 0; v < vectors(op); ++v)
      k.storeF32(out.elem, values[size_t(v)], out.at(k, row, k.add(lane, v * apart)));
  }

private:
  unsigned source, index;
};

/// kernel.embed: ids, table, out.
class EmbedEmitter : public CopyRowsEmitter {
public:
  EmbedEmitter() : CopyRowsEmitter("kernel.embed", "sm90.embed", 1, 0) {}
};

/// kernel.gather: x, token_of, out.
class GatherEmitter : public CopyRowsEmitter {
public:
  GatherEmitter() : CopyRowsEmitter("kernel.gather", "sm90.gather", 0, 1) {}
};

/// kernel.select_rows: x, seq, out.
class SelectRowsEmitter : public CopyRowsEmitter {
public:
  SelectRowsEmitter() : CopyRowsEmitter("kernel.select_rows", "sm90.select_rows", 0, 1) {}
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_LOGIT_ROW}, {}}; }
};

/// kernel.add and kernel.swiglu: x, y, out.
class ElementwiseEmitter : public FlatEmitter {
public:
  using Fn = Value (*)(SimtBuilder &, Value, Value);
  ElementwiseEmitter(StringRef op, StringRef name, Fn fn) : FlatEmitter(op, name), fn(fn) {}

protected:
  int64_t width(Operation *op) const { return vectorWidth(op, {0, 1, 2}, {lastDim(op->getResult(0))}); }
  int64_t items(Operation *op) const override { return lastDim(op->getResult(0)) / width(op); }
  void item(Operation *op, SimtBuilder &k, const RefMap &refs, Value row, Value item) const override {
    int64_t n = width(op);
    Rows x = rows(k, refs, op, 0), y = rows(k, refs, op, 1), out = rows(k, refs, op, 2);
    Value lane = k.mul(item, n);
    Lanes a = x.load(k, x.at(k, row, lane), n), c = y.load(k, y.at(k, row, lane), n);
    for (int64_t i = 0; i < n; ++i)
      a[i] = fn(k, a[i], c[i]);
    k.storeF32(out.elem, a, out.at(k, row, lane));
  }

private:
  Fn fn;
};

/// kernel.swiglu into quantised rows: gate, up, out.
class SwigluQuantizeEmitter : public RowsToCodesEmitter {
public:
  SwigluQuantizeEmitter() : RowsToCodesEmitter("kernel.swiglu", "sm90.swiglu_quantize") {}
  std::string whyIllegal(Operation *op) const override {
    std::string why = floatsOnly(op, /*quantised=*/2);
    return why.empty() ? RowsToCodesEmitter::whyIllegal(op) : why;
  }

protected:
  Source source(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    Rows gate = rows(k, refs, op, 0), up = rows(k, refs, op, 1);
    Type elem = tensorType(op->getOperand(2)).getElementType();
    return [=, &k](Value row, Value lane, int64_t width) {
      Lanes g = gate.load(k, gate.at(k, row, lane), width), u = up.load(k, up.at(k, row, lane), width);
      for (auto [a, c] : llvm::zip(g, u))
        a = k.fmul(k.siluFast(a), c);
      return k.roundTo(elem, g);
    };
  }
};

/// kernel.concat: x, y, out.
class ConcatEmitter : public FlatEmitter {
public:
  ConcatEmitter() : FlatEmitter("kernel.concat", "sm90.concat") {}

protected:
  int64_t width(Operation *op) const { return vectorWidth(op, {0, 1, 2}, {lastDim(op->getOperand(0)), lastDim(op->getOperand(1))}); }
  int64_t items(Operation *op) const override { return lastDim(op->getResult(0)) / width(op); }
  void item(Operation *op, SimtBuilder &k, const RefMap &refs, Value row, Value item) const override {
    int64_t n = width(op), split = lastDim(op->getOperand(0));
    Rows x = rows(k, refs, op, 0), y = rows(k, refs, op, 1), out = rows(k, refs, op, 2);
    Value lane = k.mul(item, n), to = out.at(k, row, lane);
    k.when(
        k.lt(lane, k.idx(split)), [&] { copyLanes(k, x, x.at(k, row, lane), out, to, n); },
        [&] { copyLanes(k, y, y.at(k, row, k.add(lane, -split)), out, to, n); });
  }
};

/// kernel.norm (x, gamma, out), kernel.add_norm (x, residual, gamma, sum, out) and kernel.add_norm_quantize (and codes): one
/// block a row. The last destination may be quantised.
class NormEmitter : public SimtEmitter {
public:
  NormEmitter(StringRef op, StringRef name, bool residual) : SimtEmitter(op, name), residual(residual) {}
  std::string whyIllegal(Operation *op) const override {
    if (std::string why = floatsOnly(op, /*quantised=*/last(op)); !why.empty())
      return why;
    if (quantises(op))
      if (std::string why = QuantGroup::whyIllegal(op->getOperand(last(op)), plan(op).width); !why.empty())
        return why;
    return RowNorm::whyIllegal(lastDim(op->getOperand(0)));
  }
  kernel::NumericsAttr numerics(Operation *op) const override { return plan(op).numerics(op->getContext()); }
  LaunchSignature signature(Operation *op) const override {
    LaunchSignature s;
    if (quantises(op))
      s.consts.push_back(QuantGroup::scaleOffset(op->getOperand(last(op))));
    return s;
  }

protected:
  static unsigned last(Operation *op) { return op->getNumOperands() - 1; }
  static bool quantises(Operation *op) { return bool(tensorType(op->getOperand(last(op))).getEncoding()); }
  RowNorm plan(Operation *op) const {
    SmallVector<unsigned> operands;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      operands.push_back(i);
    int64_t n = lastDim(op->getOperand(0));
    return RowNorm(n, vectorWidth(op, operands, {n}), op->getAttrOfType<FloatAttr>("eps").getValueAsDouble());
  }
  int64_t threads(Operation *op) const override { return plan(op).threads; }
  int64_t blocks(Operation *op) const override { return rowCapacity(op->getOperand(0)); }

  void body(Operation *op, SimtBuilder &k, const RefMap &refs) const override {
    RowNorm norm = plan(op);
    Rows x = rows(k, refs, op, 0), gamma = rows(k, refs, op, residual ? 2 : 1);
    Value row = k.block();
    k.when(k.lt(row, rowCount(k, op->getOperand(0))), [&] {
      SmallVector<Lanes> values = norm.load(k, x, x.at(k, row)), g = norm.load(k, gamma, gamma.base);
      if (residual)
        addResidual(k, norm, rows(k, refs, op, 1), rows(k, refs, op, 3), row, values);
      norm.apply(k, values, norm.scale(k, values), g);
      for (unsigned out = residual ? 4 : 2; out <= last(op); ++out) {
        if (tensorType(op->getOperand(out)).getEncoding())
          quantise(k, norm, op->getOperand(out), k.param(refs.of(out)), k.param(refs.size()), row, values);
        else
          store(k, norm, values, rows(k, refs, op, out), row);
      }
    });
  }

private:
  static void store(SimtBuilder &k, const RowNorm &norm, ArrayRef<Lanes> values, const Rows &to, Value row) {
    norm.store(k, values, to.elem, to.at(k, row));
  }

  /// values = x + residual, rounded to the sum's type and stored: what the norm reads is what the sum holds.
  static void addResidual(SimtBuilder &k, const RowNorm &norm, const Rows &residual, const Rows &sum, Value row, SmallVector<Lanes> &values) {
    SmallVector<Lanes> other = norm.load(k, residual, residual.at(k, row));
    for (auto [v, r] : llvm::zip(values, other)) {
      for (auto [a, c] : llvm::zip(v, r))
        a = k.fadd(a, c);
      v = k.roundTo(sum.elem, v);
    }
    store(k, norm, values, sum, row);
  }

  /// What is quantised is the result as it would be stored plain. Threads past the end of the row hold zeros, and take part in
  /// the exchange of a group.
  static void quantise(SimtBuilder &k, const RowNorm &norm, Value out, Value codes, Value scaleOffset, Value row, ArrayRef<Lanes> values) {
    SmallVector<Lanes> numbers;
    for (const Lanes &v : values)
      numbers.push_back(k.roundTo(tensorType(out).getElementType(), v));
    QuantGroup(k, out, codes, scaleOffset, norm.width).storeRow(norm, row, std::move(numbers));
  }

  bool residual;
};

} // namespace

void addRowEmitters90(KernelRegistry &r) {
  r.add(std::make_unique<EmbedEmitter>());
  r.add(std::make_unique<GatherEmitter>());
  r.add(std::make_unique<SelectRowsEmitter>());
  r.add(std::make_unique<NormEmitter>("kernel.norm", "sm90.norm", false));
  r.add(std::make_unique<NormEmitter>("kernel.add_norm", "sm90.add_norm", true));
  r.add(std::make_unique<NormEmitter>("kernel.add_norm_quantize", "sm90.add_norm_quantize", true));
  r.add(std::make_unique<ElementwiseEmitter>("kernel.add", "sm90.add", [](SimtBuilder &k, Value a, Value c) { return k.fadd(a, c); }));
  r.add(std::make_unique<SwigluQuantizeEmitter>());
  r.add(std::make_unique<ElementwiseEmitter>("kernel.swiglu", "sm90.swiglu",
                                             [](SimtBuilder &k, Value gate, Value up) { return k.fmul(k.siluFast(gate), up); }));
  r.add(std::make_unique<ConcatEmitter>());
}

} // namespace dsv3::codegen
