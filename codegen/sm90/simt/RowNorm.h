// The root mean square norm of one row by one block, shared by the kernels that normalise.
#pragma once

#include "codegen/sm90/simt/SimtEmitter.h"

namespace dsv3::codegen {

/// A row of `n` values in the registers of a block: thread t holds vectors t, t + threads, ... of `width` elements.
/// The sum of squares has one chain of additions per thread and element of a vector, threads * width in all, element k
/// in chain k % (threads * width); then a fixed tree. So it depends on the row alone.
struct RowNorm {
  static constexpr int64_t kMaxThreads = 512, kMaxLanes = 32; ///< lanes: values of a row that a thread keeps in registers

  RowNorm(int64_t n, int64_t width, double eps);
  static std::string whyIllegal(int64_t n);
  kernel::NumericsAttr numerics(mlir::MLIRContext *ctx) const;

  int64_t n, width;
  double eps;
  int64_t passes, threads; ///< vectors of a thread; threads is a multiple of 32

  /// Calls `body(i, lane)` for each vector i of this thread that lies in the row; `lane` is its first element, i32.
  void forVectors(SimtBuilder &k, llvm::function_ref<void(int64_t i, Value lane)> body) const;
  /// This thread's vectors of the row at an address; those past its end are zero.
  SmallVector<Lanes> load(SimtBuilder &k, const Rows &x, Value address) const;
  /// 1 / sqrt(sum of squares * (1 / n) + eps): relative error of the root 1.3e-7; all threads must come here.
  Value scale(SimtBuilder &k, ArrayRef<Lanes> values) const;
  /// Values become value * scale * gamma (two products). Gamma is loaded before `scale` is known, so that nobody waits for it
  /// behind the barrier.
  void apply(SimtBuilder &k, SmallVector<Lanes> &values, Value scale, ArrayRef<Lanes> gamma) const;
  void store(SimtBuilder &k, ArrayRef<Lanes> values, Type elem, Value destination) const;
};

} // namespace dsv3::codegen
