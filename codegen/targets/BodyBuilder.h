// Writes the body of a kernel: short names over the arith, scf and LLVM dialects, the same on every target.
//
// Floats are float32 scalars or vectors. No operation is contracted or reordered by later passes: what stands here
// is what is computed, so that bits depend on the kernel alone.
#pragma once

#include "dialects/kernel/KernelDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace dsv3::codegen {

using llvm::ArrayRef;
using llvm::SmallVector;
using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// Bytes of an element type.
int64_t elemBytes(Type type);

class BodyBuilder {
public:
  mlir::ImplicitLocOpBuilder b;

  //===-- Types and constants ---------------------------------------------===//
  Type i1, i8, i16, i32, i64, f32, bf16;
  Type index;                              ///< of loop variables: i64 on CPUs, i32 on devices
  mlir::VectorType vec(Type elem, int64_t lanes) { return mlir::VectorType::get({lanes}, elem); }
  Value idx(int64_t v) { return cint(index, v); }
  Value cint(Type type, int64_t v);        ///< integer or splat constant
  Value cf(Type type, double v);           ///< float or splat constant

  //===-- Integer arithmetic ----------------------------------------------===//
  Value add(Value a, Value c);
  Value add(Value a, int64_t c);
  Value sub(Value a, Value c);
  Value mul(Value a, Value c);
  Value mul(Value a, int64_t c);
  Value div(Value a, int64_t c); ///< of non-negative values
  Value rem(Value a, int64_t c);
  Value divUp(Value a, int64_t c) { return div(add(a, c - 1), c); }
  Value minI(Value a, Value c);
  Value maxI(Value a, Value c);
  Value lt(Value a, Value c); ///< signed a < c
  Value eq(Value a, Value c);
  Value ge(Value a, Value c);
  Value toI64(Value i32Value); ///< sign-extends
  Value select(Value condition, Value a, Value c);

  //===-- Memory ----------------------------------------------------------===//
  Value at(Value base, Value bytes);
  Value at(Value base, int64_t bytes);
  Value load(Type type, Value address, unsigned align = 0); ///< align 0: the element's size
  void store(Value value, Value address, unsigned align = 0);

  //===-- Float arithmetic (scalars or vectors) ---------------------------===//
  Value fadd(Value a, Value c);
  Value fsub(Value a, Value c);
  Value fmul(Value a, Value c);
  Value fdiv(Value a, Value c);           ///< IEEE, one rounding
  Value fma(Value a, Value c, Value acc); ///< a * c + acc, one rounding
  Value fmax(Value a, Value c);           ///< operands are never NaN by contract
  Value fsqrt(Value a);                   ///< IEEE, one rounding
  /// e^x by a degree 6 polynomial after range reduction: relative error below 8e-8 for x in [-87, 88]; 0 below, the
  /// value at 88 above. The same bits on every target.
  Value exp(Value x);
  Value sigmoid(Value x); ///< 1 / (1 + e^-x): relative error below 1.5e-7 for |x| <= 80
  Value silu(Value x);    ///< x * sigmoid(x): the same

  //===-- Control flow ----------------------------------------------------===//
  void loop(Value lb, Value ub, int64_t step, llvm::function_ref<void(Value)> body);
  void loop(int64_t lb, int64_t ub, int64_t step, llvm::function_ref<void(Value)> body);
  /// With carried values: body returns the next ones.
  SmallVector<Value> loop(Value lb, Value ub, int64_t step, ValueRange init,
                          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);
  void when(Value condition, llvm::function_ref<void()> body);
  void when(Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise);
  /// What `body` or `otherwise` returns: values of `types`.
  SmallVector<Value> pick(mlir::TypeRange types, Value condition, llvm::function_ref<SmallVector<Value>()> body, llvm::function_ref<SmallVector<Value>()> otherwise);

protected:
  BodyBuilder(mlir::Location loc, unsigned indexBits);
};

} // namespace dsv3::codegen
