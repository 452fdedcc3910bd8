// Kernels that walk over rows: embedding, norms, elementwise ops, concatenation, copies of chosen rows.
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

/// kernel.norm (x, gamma, out) and kernel.add_norm (x, residual, gamma, sum, out): one block a row.
class NormEmitter : public SimtEmitter {
public:
  NormEmitter(StringRef op, StringRef name, bool residual) : SimtEmitter(op, name), residual(residual) {}
  std::string whyIllegal(Operation *op) const override {
    std::string why = floatsOnly(op);
    return why.empty() ? RowNorm::whyIllegal(lastDim(op->getOperand(0))) : why;
  }
  kernel::NumericsAttr numerics(Operation *op) const override { return plan(op).numerics(op->getContext()); }

protected:
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
    unsigned last = op->getNumOperands() - 1;
    Rows x = rows(k, refs, op, 0), gamma = rows(k, refs, op, residual ? 2 : 1), y = rows(k, refs, op, last);
    Value row = k.block();
    k.when(k.lt(row, rowCount(k, op->getOperand(0))), [&] {
      SmallVector<Lanes> values = norm.load(k, x, x.at(k, row)), g = norm.load(k, gamma, gamma.base);
      if (residual)
        addResidual(k, norm, rows(k, refs, op, 1), rows(k, refs, op, 3), row, values);
      norm.store(k, values, norm.scale(k, values), g, y.elem, y.at(k, row));
    });
  }

private:
  /// values = x + residual, rounded to the sum's type and stored: what the norm reads is what the sum holds.
  static void addResidual(SimtBuilder &k, const RowNorm &norm, const Rows &residual, const Rows &sum, Value row, SmallVector<Lanes> &values) {
    SmallVector<Lanes> other = norm.load(k, residual, residual.at(k, row));
    for (auto [v, r] : llvm::zip(values, other)) {
      for (auto [a, c] : llvm::zip(v, r))
        a = k.fadd(a, c);
      v = k.roundTo(sum.elem, v);
    }
    norm.forVectors(k, [&](int64_t i, Value lane) { k.storeF32(sum.elem, values[i], sum.at(k, row, lane)); });
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
  r.add(std::make_unique<ElementwiseEmitter>("kernel.add", "sm90.add", [](SimtBuilder &k, Value a, Value c) { return k.fadd(a, c); }));
  r.add(std::make_unique<ElementwiseEmitter>("kernel.swiglu", "sm90.swiglu",
                                             [](SimtBuilder &k, Value gate, Value up) { return k.fmul(k.siluFast(gate), up); }));
  r.add(std::make_unique<ConcatEmitter>());
}

} // namespace dsv3::codegen
