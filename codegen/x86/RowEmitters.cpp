// Kernels that walk over rows: embedding, norms, rotations, elementwise ops, row selection.
#include "codegen/targets/RowClass.h"
#include "codegen/x86/QuantRows.h"
#include "codegen/x86/RowOps.h"

using namespace mlir;

namespace dsv3::codegen {

namespace {

/// A launch whose tile is one row of T.
class RowEmitter : public X86Emitter {
public:
  using X86Emitter::X86Emitter;
  TileCount tiles(Operation *op) const override { return {rowScalar(op->getResult(0)), 1, rowFactor(op->getResult(0))}; }

protected:
  static int64_t lastDim(Value v) { return tensorType(v).getShape().back(); }
  static std::string floatsOnly(Operation *op) { return floatsOnly(op->getOperands()); }
  static std::string floatsOnly(ValueRange operands) {
    for (Value v : operands)
      if (auto t = dyn_cast<RankedTensorType>(v.getType())) {
        if (isa<FloatType>(t.getElementType()) && !isa<Float32Type, BFloat16Type>(t.getElementType()))
          return "operands must be f32 or bf16";
        if (ir::getScheme(t))
          return "operands must be plain";
      }
    return {};
  }
};

/// A launch whose last destination may be rows in codes: what is rounded to its element type, as kernel.quantize stores it.
class QuantizingEmitter : public RowEmitter {
public:
  using RowEmitter::RowEmitter;
  std::string whyIllegal(Operation *op) const override {
    if (!inCodes(op))
      return floatsOnly(op);
    if (innerRows(tensorType(op->getOperand(0))) > 1)
      return "rows of heads are not quantised where they are made";
    std::string why = floatsOnly(op->getOperands().drop_back());
    return why.empty() ? RowScheme::why(tensorType(last(op))) : why;
  }
  LaunchSignature signature(Operation *op) const override {
    if (!inCodes(op))
      return {};
    return {{}, {QuantOperand::offset(last(op))}};
  }

protected:
  static Value last(Operation *op) { return op->getOperand(op->getNumOperands() - 1); }
  static bool inCodes(Operation *op) { return bool(ir::getScheme(last(op).getType())); }
  static std::optional<QuantOperand> codes(Operation *op, KernelBuilder &k, const RefMap &refs) {
    if (!inCodes(op))
      return std::nullopt;
    return QuantOperand(k, tensorType(last(op)), k.buf(refs.of(op->getNumOperands() - 1)), k.scalar(DSV3_SCALAR_COUNT));
  }
};

/// kernel.embed: copies rows of the table, converting if the types differ.
class EmbedEmitter : public RowEmitter {
public:
  EmbedEmitter() : RowEmitter("kernel.embed", "x86.embed") {}
  std::string whyIllegal(Operation *op) const override {
    Type elem = tensorType(op->getOperand(1)).getElementType();
    bool plain = !ir::getScheme(op->getOperand(1).getType());
    return plain && isa<Float32Type, BFloat16Type>(elem) ? "" : "the table must be plain f32 or bf16";
  }
  TileCount tiles(Operation *op) const override { return {DSV3_SCALAR_TOKENS, 1, 1}; }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    Value ids = k.buf(refs.of(0));
    RowOperand table = rows(k, refs, op, 1), y = rows(k, refs, op, 2);
    k.loop(k.begin, k.end, 1, [&](Value t) {
      Value src = table.row(k, k.loadI32(ids, t)), dst = y.row(k, t);
      forLanes(k, lastDim(op->getResult(0)), [&](Value lane, int64_t n) {
        k.storeF32(y.elem, k.loadF32(table.elem, lanesAt(k, src, table.elem, lane), kLanes, n), lanesAt(k, dst, y.elem, lane), n);
      });
    });
    return success();
  }
};

/// kernel.norm, kernel.add_norm and kernel.add_norm_quantize: sum of squares in 16 interleaved chains, then a fixed tree.
class NormEmitter : public QuantizingEmitter {
public:
  NormEmitter(llvm::StringRef op, llvm::StringRef name, bool residual) : QuantizingEmitter(op, name), residual(residual) {}
  kernel::NumericsAttr numerics(Operation *op) const override {
    Type f32 = Float32Type::get(op->getContext());
    return kernel::NumericsAttr::get(op->getContext(), f32, f32, "lanes16", 0);
  }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    unsigned gammaAt = residual ? 2 : 1, outs = gammaAt + 1, yAt = residual ? outs + 1 : outs;
    RowOperand x = rows(k, refs, op, 0), gamma = rows(k, refs, op, gammaAt), y = rows(k, refs, op, yAt);
    RowOperand r = residual ? rows(k, refs, op, 1) : x, sum = residual ? rows(k, refs, op, outs) : x;
    std::optional<QuantOperand> quantised = codes(op, k, refs);
    bool plain = !quantised || yAt + 1 < op->getNumOperands();
    RankedTensorType type = tensorType(op->getOperand(0));
    int64_t n = lastDim(op->getOperand(0)), inner = innerRows(type);
    double eps = op->getAttrOfType<FloatAttr>("eps").getValueAsDouble();
    k.loop(k.begin, k.end, 1, [&](Value t) {
      k.loop(0, inner, 1, [&](Value h) {
        Value xr = x.row(k, t, h), rr = r.row(k, t, h), sr = sum.row(k, t, h), yr = y.row(k, t, h);
        auto normalised = normRow(k, {xr, x.elem}, residual ? Row{rr, r.elem} : Row{}, residual ? Row{sr, sum.elem} : Row{}, gamma, n, eps);
        if (plain)
          forLanes(k, n, [&](Value lane, int64_t count) { k.storeF32(y.elem, normalised(lane, count), lanesAt(k, yr, y.elem, lane), count); });
        if (quantised)
          quantizeRow(k, *quantised, t, [&](Value lane, int64_t count) {
            return plain ? k.loadF32(y.elem, lanesAt(k, yr, y.elem, lane), kLanes, count) : k.roundTo(y.elem, normalised(lane, count));
          });
      });
    });
    return success();
  }

private:
  struct Row {
    Value address;
    Type elem;
  };

  /// The value that is normalised: x, or x + residual rounded to the sum's type.
  static Value input(KernelBuilder &k, Row x, Row r, Row sum, Value lane, int64_t count) {
    Value v = k.loadF32(x.elem, lanesAt(k, x.address, x.elem, lane), kLanes, count);
    if (!r.address)
      return v;
    v = k.fadd(v, k.loadF32(r.elem, lanesAt(k, r.address, r.elem, lane), kLanes, count));
    return k.roundTo(sum.elem, v);
  }

  /// Sums the squares, and the residual into `sum`; returns what gives 16 values of the normalised row.
  static std::function<Value(Value lane, int64_t count)> normRow(KernelBuilder &k, Row x, Row r, Row sum, const RowOperand &gamma, int64_t n, double eps) {
    // Partial vectors are zero beyond the row's end, so they add nothing.
    Value squares = sumLanes(k, n, [&](Value lane, int64_t count, Value acc) {
      Value v = input(k, x, r, sum, lane, count);
      if (r.address)
        k.storeF32(sum.elem, v, lanesAt(k, sum.address, sum.elem, lane), count);
      return k.fma(v, v, acc);
    });
    Value scale = rmsScale(k, squares, n, eps);
    Row in = r.address ? sum : x;
    return [&k, in, scale, gamma](Value lane, int64_t count) {
      Value v = k.loadF32(in.elem, lanesAt(k, in.address, in.elem, lane), kLanes, count);
      Value g = k.loadF32(gamma.elem, lanesAt(k, gamma.base, gamma.elem, lane), kLanes, count);
      return k.fmul(k.fmul(v, scale), g);
    };
  }

  bool residual;
};

/// kernel.add and kernel.swiglu.
class ElementwiseEmitter : public QuantizingEmitter {
public:
  using Fn = Value (*)(KernelBuilder &, Value, Value);
  ElementwiseEmitter(llvm::StringRef op, llvm::StringRef name, Fn fn) : QuantizingEmitter(op, name), fn(fn) {}

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    RowOperand x = rows(k, refs, op, 0), y = rows(k, refs, op, 1), out = rows(k, refs, op, 2);
    std::optional<QuantOperand> quantised = codes(op, k, refs);
    int64_t inner = innerRows(tensorType(op->getOperand(0)));
    k.loop(k.begin, k.end, 1, [&](Value t) {
      k.loop(0, inner, 1, [&](Value h) {
        Value xr = x.row(k, t, h), yr = y.row(k, t, h), o = out.row(k, t, h);
        auto value = [&](Value lane, int64_t n) {
          Value a = k.loadF32(x.elem, lanesAt(k, xr, x.elem, lane), kLanes, n);
          return fn(k, a, k.loadF32(y.elem, lanesAt(k, yr, y.elem, lane), kLanes, n));
        };
        if (quantised)
          quantizeRow(k, *quantised, t, [&](Value lane, int64_t n) { return k.roundTo(out.elem, value(lane, n)); });
        else
          forLanes(k, lastDim(op->getResult(0)), [&](Value lane, int64_t n) { k.storeF32(out.elem, value(lane, n), lanesAt(k, o, out.elem, lane), n); });
      });
    });
    return success();
  }

private:
  Fn fn;
};

/// Copies `n` values of a row to lane `at` of another.
void copyRow(KernelBuilder &k, Value src, Type from, Value dst, Type to, int64_t n) {
  forLanes(k, n, [&](Value lane, int64_t count) {
    k.storeF32(to, k.loadF32(from, lanesAt(k, src, from, lane), kLanes, count), lanesAt(k, dst, to, lane), count);
  });
}

/// kernel.concat.
class ConcatEmitter : public RowEmitter {
public:
  ConcatEmitter() : RowEmitter("kernel.concat", "x86.concat") {}
  std::string whyIllegal(Operation *op) const override { return floatsOnly(op); }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    RowOperand x = rows(k, refs, op, 0), y = rows(k, refs, op, 1), out = rows(k, refs, op, 2);
    int64_t nx = lastDim(op->getOperand(0)), ny = lastDim(op->getOperand(1));
    k.loop(k.begin, k.end, 1, [&](Value t) {
      Value dst = out.row(k, t);
      copyRow(k, x.row(k, t), x.elem, dst, out.elem, nx);
      copyRow(k, y.row(k, t), y.elem, k.at(dst, nx * elemBytes(out.elem)), out.elem, ny);
    });
    return success();
  }
};

/// kernel.gather: tile = one routed row.
class GatherEmitter : public RowEmitter {
public:
  GatherEmitter() : RowEmitter("kernel.gather", "x86.gather") {}
  std::string whyIllegal(Operation *op) const override { return floatsOnly(op); }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    RowOperand x = rows(k, refs, op, 0), out = rows(k, refs, op, 2);
    Value tokenOf = k.buf(refs.of(1));
    k.loop(k.begin, k.end, 1, [&](Value r) {
      copyRow(k, x.row(k, k.loadI32(tokenOf, r)), x.elem, out.row(k, r), out.elem, lastDim(op->getResult(0)));
    });
    return success();
  }
};

/// kernel.select_rows: tile = one sequence.
class SelectRowsEmitter : public RowEmitter {
public:
  SelectRowsEmitter() : RowEmitter("kernel.select_rows", "x86.select_rows") {}
  std::string whyIllegal(Operation *op) const override { return floatsOnly(op); }
  LaunchSignature signature(Operation *) const override { return {{DSV3_FIELD_LOGIT_ROW}, {}}; }
  TileCount tiles(Operation *) const override { return {DSV3_SCALAR_SEQS, 1, 1}; }

protected:
  LogicalResult body(Operation *op, KernelBuilder &k, const RefMap &refs) const override {
    RowOperand x = rows(k, refs, op, 0), out = rows(k, refs, op, 2);
    Value logitRow = k.buf(refs.of(1));
    k.loop(k.begin, k.end, 1, [&](Value s) {
      copyRow(k, x.row(k, k.loadI32(logitRow, s)), x.elem, out.row(k, s), out.elem, lastDim(op->getResult(0)));
    });
    return success();
  }
};

} // namespace

void addRowEmitters(KernelRegistry &r) {
  r.add(std::make_unique<EmbedEmitter>());
  r.add(std::make_unique<NormEmitter>("kernel.norm", "x86.norm", false));
  r.add(std::make_unique<NormEmitter>("kernel.add_norm", "x86.add_norm", true));
  r.add(std::make_unique<NormEmitter>("kernel.add_norm_quantize", "x86.add_norm_quantize", true));
  r.add(std::make_unique<ElementwiseEmitter>("kernel.add", "x86.add", [](KernelBuilder &k, Value a, Value c) { return k.fadd(a, c); }));
  r.add(std::make_unique<ElementwiseEmitter>("kernel.swiglu", "x86.swiglu",
                                             [](KernelBuilder &k, Value gate, Value up) { return k.fmul(k.silu(gate), up); }));
  r.add(std::make_unique<ConcatEmitter>());
  r.add(std::make_unique<GatherEmitter>());
  r.add(std::make_unique<SelectRowsEmitter>());
}

} // namespace dsv3::codegen
