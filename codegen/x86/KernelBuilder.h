// Writes the body of one x86 kernel: short names over the arith, scf, vector and LLVM dialects.
//
// Every emitter works on vectors of 16 floats, whatever the variant: LLVM splits them in two on AVX2, so that
// one emitter and one packed layout serve all variants. Indices are i64, addresses are `!llvm.ptr` plus bytes.
#pragma once

#include "codegen/targets/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

#include <functional>

namespace dsv3::codegen {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;
using llvm::ArrayRef;
using llvm::SmallVector;

/// Lanes of the vectors every kernel uses.
inline constexpr int64_t kLanes = 16;

class KernelBuilder {
public:
  /// Adds an entry block to the empty function `fn` and stands at its end. `finish` adds the return.
  KernelBuilder(mlir::LLVM::LLVMFuncOp fn, const CpuVariant &variant);
  void finish();

  const CpuVariant &variant;
  mlir::ImplicitLocOpBuilder b;

  //===-- Arguments (dsv3_cpu_fn) -----------------------------------------===//
  Value buf(unsigned i);            ///< address of reference i
  Value scalar(unsigned i);         ///< step scalar or constant i, i64
  Value begin, end, scratch;

  //===-- Types and constants ---------------------------------------------===//
  Type i8, i16, i32, i64, f32, bf16, ptr;
  mlir::VectorType vf32, vi32, vi16; ///< 16 lanes
  mlir::VectorType vec(Type elem, int64_t lanes = kLanes) { return mlir::VectorType::get({lanes}, elem); }
  Value idx(int64_t v);                    ///< i64 constant
  Value cint(Type type, int64_t v);        ///< integer or splat constant
  Value cf(Type type, double v);           ///< float or splat constant
  Value splat(Value scalar, int64_t lanes = kLanes);

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

  //===-- Memory ----------------------------------------------------------===//
  Value at(Value base, Value bytes);
  Value at(Value base, int64_t bytes);
  Value load(Type type, Value address, unsigned align = 0); ///< align 0: the element's size
  void store(Value value, Value address, unsigned align = 0);
  Value loadI32(Value base, Value index);                   ///< base[index] as i64

  /// `lanes` values of element type `elem` (f32 or bf16), as f32. `count` < 16 loads only the first lanes, zero elsewhere.
  Value loadF32(Type elem, Value address, int64_t lanes = kLanes, int64_t count = -1);
  /// Rounds to `elem` and stores the first `count` lanes.
  void storeF32(Type elem, Value value, Value address, int64_t count = -1);
  Value loadScalarF32(Type elem, Value address);
  void storeScalarF32(Type elem, Value value, Value address);

  //===-- Float arithmetic (scalars or vectors) ---------------------------===//
  Value fadd(Value a, Value c);
  Value fsub(Value a, Value c);
  Value fmul(Value a, Value c);
  Value fdiv(Value a, Value c);
  Value fma(Value a, Value c, Value acc); ///< a * c + acc, one rounding
  Value fmax(Value a, Value c);           ///< operands are never NaN by contract
  Value fsqrt(Value a);
  /// Rounds f32 values to `elem` and back: a rounding the IR asks for inside a kernel.
  Value roundTo(Type elem, Value v);
  Value toBF16(Value v);      ///< f32 to the bits of the nearest bf16, ties to even, as i16
  Value fromBF16(Value bits); ///< i16 bits of bf16 to f32
  /// e^x by a degree 6 polynomial after range reduction: relative error below 8e-8 for x in [-87, 88]; 0 below, the
  /// value at 88 above.
  Value exp(Value x);
  Value sigmoid(Value x); ///< 1 / (1 + e^-x): relative error below 1.5e-7 for |x| <= 80
  Value silu(Value x);    ///< x * sigmoid(x): the same
  /// Sum of 16 lanes as a fixed tree: (0+8), (0+4), (0+2), (0+1).
  Value reduceAdd(Value v);
  Value reduceMax(Value v);

  //===-- Control flow ----------------------------------------------------===//
  void loop(Value lb, Value ub, int64_t step, llvm::function_ref<void(Value)> body);
  void loop(int64_t lb, int64_t ub, int64_t step, llvm::function_ref<void(Value)> body);
  /// With carried values: body returns the next ones.
  SmallVector<Value> loop(Value lb, Value ub, int64_t step, ValueRange init,
                          llvm::function_ref<SmallVector<Value>(Value, ValueRange)> body);
  void when(Value condition, llvm::function_ref<void()> body);
  void when(Value condition, llvm::function_ref<void()> body, llvm::function_ref<void()> otherwise);

private:
  Value bufs, scalars;
  Value reduce(Value v, llvm::function_ref<Value(Value, Value)> combine);
};

/// Bytes of an element type.
int64_t elemBytes(Type type);

} // namespace dsv3::codegen
