// One row in the registers of one block, and its root mean square norm, shared by the kernels that need whole rows.
#pragma once

#include "codegen/sm90/simt/SimtEmitter.h"

namespace dsv3::codegen {

/// A row of `n` values in the registers of a block: thread t holds vectors t, t + threads, ... of `width` elements.
struct RowVectors {
  static constexpr int64_t kMaxLanes = 32; ///< values of a row that a thread keeps in registers

  RowVectors(int64_t n, int64_t width, int64_t maxThreads);
  static std::string whyIllegal(int64_t n, int64_t maxThreads);

  int64_t n, width;
  int64_t passes, threads; ///< vectors of a thread; threads is a multiple of 32

  /// Calls `body(i, lane)` for each vector i of this thread that lies in the row; `lane` is its first element, i32.
  void forVectors(SimtBuilder &k, llvm::function_ref<void(int64_t i, Value lane)> body) const;
  /// This thread's vectors of the row at an address; those past its end are zero.
  SmallVector<Lanes> load(SimtBuilder &k, const Rows &x, Value address) const;
  /// The same of what `vector(lane)` loads or makes.
  SmallVector<Lanes> load(SimtBuilder &k, llvm::function_ref<Lanes(Value lane)> vector) const;
  void store(SimtBuilder &k, ArrayRef<Lanes> values, Type elem, Value destination) const;
  /// Shared memory for a reduction over the block; null where a warp is all of it.
  Value scratch(SimtBuilder &k) const;
};

/// The sum of squares has one chain of additions per thread and element of a vector, threads * width in all, element k
/// in chain k % (threads * width); then a fixed tree. So it depends on the row alone.
struct RowNorm : RowVectors {
  static constexpr int64_t kMaxThreads = 512;

  RowNorm(int64_t n, int64_t width, double eps) : RowVectors(n, width, kMaxThreads), eps(eps) {}
  static std::string whyIllegal(int64_t n) { return RowVectors::whyIllegal(n, kMaxThreads); }
  kernel::NumericsAttr numerics(mlir::MLIRContext *ctx) const;

  double eps;

  /// 1 / sqrt(sum of squares * (1 / n) + eps): relative error of the root 1.3e-7; all threads must come here.
  Value scale(SimtBuilder &k, ArrayRef<Lanes> values) const;
  /// Values become value * scale * gamma (two products). Gamma is loaded before `scale` is known, so that nobody waits for it
  /// behind the barrier.
  void apply(SimtBuilder &k, SmallVector<Lanes> &values, Value scale, ArrayRef<Lanes> gamma) const;
};

} // namespace dsv3::codegen
