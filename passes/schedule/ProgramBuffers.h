// Which buffer each value of a program of kernel ops lives in, and for how long.
#pragma once

#include "dialects/kernel/KernelDialect.h"
#include "passes/schedule/PlanMemory.h"

namespace dsv3 {

/// One buffer: the destination of a launch that was given a `kernel.empty`, and all launches that
/// work on it in place afterwards.
struct ProgramBuffer {
  mlir::RankedTensorType type;
  int64_t bytes = 0;
  int64_t first = 0, last = 0; ///< operations of the program's block, counted from 0
  std::string output;          ///< name of the result it becomes, or empty: an intermediate value
};

struct ProgramBuffers {
  llvm::SmallVector<ProgramBuffer> buffers;
  /// Buffer of each result of a launch and of each view of one.
  llvm::DenseMap<mlir::Value, unsigned> of;
  /// Buffer of destination `operand` of a launch.
  llvm::DenseMap<mlir::OpOperand *, unsigned> destinations;

  /// Indices of intermediate buffers, with their lifetimes.
  std::vector<Lifetime> intermediate(llvm::SmallVectorImpl<unsigned> &indices) const;

  /// Two users of one `kernel.empty` (CSE may merge them) have two buffers. Fails with a diagnostic when a value is
  /// read after it was overwritten in place, when a launch would overwrite a weight or an argument, and when an
  /// uninitialised value is read.
  static mlir::FailureOr<ProgramBuffers> analyse(ir::ProgramOp program);
};

/// Bytes of a value in memory: see kernel::getValueParts.
int64_t tensorBytes(mlir::RankedTensorType type);

} // namespace dsv3
