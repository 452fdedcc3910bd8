// Writes one sm_90a kernel at the level of threads: an llvm.func with `nvvm.kernel`.
//
// Vectors of a row are `Lanes`, one SSA value per element: memory is accessed 4, 8 or 16 bytes at a time, arithmetic
// is scalar. Instructions that have no operation in arith, scf or llvm are calls of LLVM's NVVM intrinsics, so that
// neither the header of the NVVM dialect nor the dialect itself is needed here.
#pragma once

#include "codegen/targets/BodyBuilder.h"

namespace dsv3::codegen {

/// Consecutive elements of a row as float32 scalars.
using Lanes = SmallVector<Value>;

class SimtBuilder : public BodyBuilder {
public:
  static constexpr int64_t kWarp = 32;

  /// Opens kernel `symbol` at the builder's insertion point, inside a gpu.module. Its parameters are the address of
  /// the step's scalars, then `params`: `!llvm.ptr<1>` or i64. `finish` adds the return.
  SimtBuilder(mlir::OpBuilder &module, mlir::Location loc, llvm::StringRef symbol, ArrayRef<Type> params, int64_t threads, int64_t cluster = 1);
  void finish();
  /// Lets a block have all registers of a multiprocessor: else ptxas leaves some for other blocks, and may spill.
  void takeRegisters();

  //===-- Arguments -------------------------------------------------------===//
  const int64_t threads;       ///< of a block
  const int64_t cluster;       ///< blocks that are launched together
  Value param(unsigned i);     ///< DeviceLaunch::params[i]
  Value scalar(int i);         ///< DSV3_SCALAR_* i, i64
  Value scalarI32(int i);      ///< the same, i32

  //===-- Place -----------------------------------------------------------===//
  Type globalPtr, sharedPtr;
  Value thread(); ///< index in the block, i32
  Value block();  ///< index in the grid, i32
  Value clusterRank(); ///< index in the cluster, i32
  Value lane();   ///< thread % 32
  Value warp();   ///< thread / 32

  //===-- Global and shared memory ----------------------------------------===//
  /// Bytes of shared memory of the block, 16-byte aligned, uninitialised.
  Value shared(int64_t bytes);
  /// The address of block `rank`'s buffer at the same place as this block's `buffer`, to be read.
  Value remote(Value buffer, Value rank);
  /// base + index * bytes; index i32 or i64, the product in 64 bits (32 for shared memory).
  Value element(Value base, Value index, int64_t bytes);
  /// One value of any type. `readOnly`: nobody writes it while the kernel runs.
  Value loadScalar(Type type, Value address, bool readOnly = false);
  /// `n` elements of f32 or bf16 as float32, 16 bytes at a time; the address is aligned to min(16, n elements).
  Lanes loadF32(Type elem, Value address, int64_t n, bool readOnly = false);
  /// Rounds to `elem` (to nearest, ties to even) and stores.
  void storeF32(Type elem, ArrayRef<Value> lanes, Value address);
  /// Rounds to f8E4M3FN, at most 448 in magnitude, and stores a multiple of four.
  void storeE4M3(ArrayRef<Value> lanes, Value address);
  /// Rounds to f8E4M3FN or f8E5M2 (`codes`), at most its largest finite value in magnitude, and stores.
  void storeF8(Type codes, ArrayRef<Value> lanes, Value address);
  /// `n` codes, a multiple of four at an address aligned to min(16, n), as float32: exactly, NaN stays.
  Lanes loadF8(Type codes, Value address, int64_t n, bool readOnly = false);
  /// The same of one value, as i8.
  Value toE4M3(Value v);
  /// Rounds to integers (to nearest, ties to even), at most 127 in magnitude, and stores a multiple of four as bytes.
  void storeI8(ArrayRef<Value> lanes, Value address);
  /// Consecutive 32-bit integers, as loadF32.
  SmallVector<Value> loadI32(Value address, int64_t n, bool readOnly = false);
  /// Adds an i32 to one in shared memory, atomically: for counts, which do not depend on the order.
  void addShared(Value address, Value v);
  /// The same; what was there before. Who gets which depends on the order: only sets may be made of it.
  Value fetchAddShared(Value address, Value v);
  /// Stores words of one 32-bit type, 16 bytes at a time.
  void storeWords(ArrayRef<Value> words, Value address);

  //===-- Arithmetic ------------------------------------------------------===//
  Value toI32(Value i64Value);
  Value divide(Value a, Value c); ///< of non-negative integers
  Value bitAnd(Value a, Value c);
  Value bitOr(Value a, Value c);
  Value bitXor(Value a, Value c);
  Value shl(Value a, int64_t bits);
  Value shr(Value a, int64_t bits); ///< logical
  Value popcount(Value a);
  Value ult(Value a, Value c);      ///< unsigned a < c
  Value leadingZeros(Value a);
  /// Upper half of the 128-bit product of unsigned i64; `roundUp`: one more unless the lower half is 0.
  Value mulHigh(Value a, Value c, bool roundUp = false);
  Value gt(Value a, Value c);       ///< of floats, false for NaN
  Value bitcast(Type type, Value v);
  /// Rounds to `elem` and back.
  Lanes roundTo(Type elem, ArrayRef<Value> lanes);
  /// Two floats to bf16, the first in the low half, as i32.
  Value packBF16(Value low, Value high);
  /// 2^x by one instruction: relative error below 2^-22; results below 2^-126 are 0.
  Value exp2Fast(Value x);
  Value log2Fast(Value x);
  /// 1 / sqrt(x) for x in [2^-126, 2^127]: an approximation and one Newton step, relative error below 1.3e-7. Unlike
  /// division and square root it has no slow path, so nothing is spilled around a call.
  Value rsqrt(Value x);
  Value negate(Value x);
  Value magnitude(Value x); ///< |x|
  /// 1 / x for x in [2^-100, 2^100], nearly always the nearest float.
  Value reciprocal(Value x);
  /// a / c without a slow path, from `inverse`, the nearest float to 1 / c: the nearest float to the quotient, as long
  /// as neither it nor a product of it leaves the normal numbers (Markstein's correction, 1990).
  Value quotient(Value a, Value c, Value inverse);
  /// x / (1 + e^-x) with approximate exponential and reciprocal: relative error below 1e-6 for |x| <= 16, growing with
  /// |x| to 6e-6 at 87; below -88 the result is -0.
  Value siluFast(Value x);

  //===-- Warps and blocks ------------------------------------------------===//
  /// The value of lane `lane() ^ mask`; f32 or i32.
  Value shuffleXor(Value v, int64_t mask);
  /// The value of lane `lane() - distance`, or `v` itself in the first lanes; i32.
  Value shuffleUp(Value v, int64_t distance);
  /// Combines the 32 lanes in a fixed tree (distance 16, 8, 4, 2, 1): every lane gets the same bits if `combine`
  /// commutes.
  Value reduceWarp(Value v, llvm::function_ref<Value(Value, Value)> combine);
  /// Sum over all threads of the block: each warp as above, then the warps in the same tree. Uses a barrier, so all
  /// threads must come here; `scratch` holds one f32 per warp and may be used again after a barrier.
  Value sumBlock(Value v, Value scratch);
  Value maxBlock(Value v, Value scratch);
  /// Inclusive sum over the lanes up to this one; i32.
  Value scanWarp(Value v);
  /// Sums of i32 over the threads before this one, and over all. All threads must come here, two barriers.
  struct Scan {
    Value before, total;
  };
  Scan scanBlock(Value v);
  Value sumWarp(Value v);          ///< of i32
  Value sumWarp64(Value v);        ///< of i64; the sum is below 2^63
  Value scanWarp64(Value v);       ///< inclusive sum of i64
  Value maxWarpU32(Value v);       ///< largest unsigned value of the warp
  Value minWarpU32(Value v);
  Value matchWarp(Value i32Value); ///< mask of the lanes with the same value
  Value lanesBelow();              ///< mask of the lanes below this one
  Value ballot(Value condition);   ///< mask of the lanes in which it holds
  void syncBlock();
  void syncCluster(); ///< a barrier for all threads of the cluster; what was written before it is seen behind it
  void syncWarp();

private:
  Value intrinsic(Type result, llvm::StringRef name, ValueRange args);
  Value reduceBlock(Value v, double identity, Value scratch, llvm::function_ref<Value(Value, Value)> combine);
  SmallVector<Value> loadWords(Type type, Value address, int64_t n, bool readOnly);
  Value allLanes() { return cint(i32, -1); }

  mlir::LLVM::LLVMFuncOp fn;
  int sharedBuffers = 0;
  Value threadIndex, blockIndex;
};

} // namespace dsv3::codegen
