// Where the references of an operand stand among those of its launch.
#pragma once

#include "codegen/targets/KernelEmitter.h"

namespace dsv3::codegen {

/// References of a launch by operand (see KernelEmitter: the order is a contract).
class RefMap {
public:
  /// `stepFields`: how many references replace an operand of type `!dsv3.seq`.
  RefMap(mlir::Operation *op, size_t stepFields);
  /// First reference of operand `i`; a packed weight's scale follows its data, step fields follow each other.
  unsigned of(unsigned operand) const { return first[operand]; }
  /// Number of references of operand `i`.
  unsigned count(unsigned operand) const { return first[operand + 1] - first[operand]; }
  /// Number of references of the launch.
  unsigned size() const { return first.back(); }

private:
  llvm::SmallVector<unsigned> first; // and, last, their number
};

} // namespace dsv3::codegen
