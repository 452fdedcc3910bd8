// Writes the body of one x86 kernel: short names over the arith, scf, vector and LLVM dialects.
//
// Every emitter works on vectors of 16 floats, whatever the variant: LLVM splits them in two on AVX2, so that
// one emitter and one packed layout serve all variants. Indices are i64, addresses are `!llvm.ptr` plus bytes.
#pragma once

#include "codegen/targets/BodyBuilder.h"
#include "codegen/targets/KernelEmitter.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"

namespace dsv3::codegen {

/// Lanes of the vectors every kernel uses.
inline constexpr int64_t kLanes = 16;

class KernelBuilder : public BodyBuilder {
public:
  /// Adds an entry block to the empty function `fn` and stands at its end. `finish` adds the return.
  KernelBuilder(mlir::LLVM::LLVMFuncOp fn, const CpuVariant &variant);
  void finish();

  const CpuVariant &variant;

  //===-- Arguments (dsv3_cpu_fn) -----------------------------------------===//
  Value buf(unsigned i);            ///< address of reference i
  Value scalar(unsigned i);         ///< step scalar or constant i, i64
  Value begin, end, scratch;

  //===-- Types -----------------------------------------------------------===//
  Type ptr;
  mlir::VectorType vf32, vi32, vi16; ///< 16 lanes
  mlir::VectorType vec(Type elem, int64_t lanes = kLanes) { return BodyBuilder::vec(elem, lanes); }
  Value splat(Value scalar, int64_t lanes = kLanes);

  //===-- Memory ----------------------------------------------------------===//
  Value loadI32(Value base, Value index);                   ///< base[index] as i64

  /// `lanes` values of element type `elem` (f32 or bf16), as f32. `count` < 16 loads only the first lanes, zero elsewhere.
  Value loadF32(Type elem, Value address, int64_t lanes = kLanes, int64_t count = -1);
  /// Rounds to `elem` and stores the first `count` lanes.
  void storeF32(Type elem, Value value, Value address, int64_t count = -1);
  Value loadScalarF32(Type elem, Value address);
  void storeScalarF32(Type elem, Value value, Value address);

  //===-- Float arithmetic (scalars or vectors) ---------------------------===//
  /// Rounds f32 values to `elem` and back: a rounding the IR asks for inside a kernel.
  Value roundTo(Type elem, Value v);
  Value toBF16(Value v);      ///< f32 to the bits of the nearest bf16, ties to even, as i16
  Value fromBF16(Value bits); ///< i16 bits of bf16 to f32
  /// Sum of 16 lanes as a fixed tree: (0+8), (0+4), (0+2), (0+1).
  Value reduceAdd(Value v);
  Value reduceMax(Value v);

private:
  Value bufs, scalars;
  Value reduce(Value v, llvm::function_ref<Value(Value, Value)> combine);
};

} // namespace dsv3::codegen
