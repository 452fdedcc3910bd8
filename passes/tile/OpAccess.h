// What an op of the tile dialect does to a shared memory buffer under a given layout.
#pragma once

#include "dialects/tile/Descriptor.h"
#include "dialects/tile/TileDialect.h"
#include "passes/tile/SharedAccess.h"

namespace dsv3::tile {

/// The buffer operand that an op accesses by warp instructions: of `load`, `store`, `zero`, `write via`, `cluster_sum via`; null
/// for others.
mlir::Value accessedBuffer(mlir::Operation *op);

/// Cost of that access if the buffer had type `buf` (the same shape, another layout).
AccessCost accessCost(mlir::Operation *op, BufType buf);
/// The instruction's name, e.g. "ldmatrix.x4".
const char *accessName(mlir::Operation *op, SmemInstruction instruction);

/// One access of a kernel, for its report.
struct AccessEntry {
  mlir::Operation *op = nullptr;
  const char *instruction = ""; ///< of its worst part
  unsigned degree = 1;
  uint64_t excess = 0; ///< cycles lost each time
};
/// All warp accesses of a kernel whose layouts are chosen, in the order of its text.
std::vector<AccessEntry> accessesOf(KernelOp kernel);

/// Why `buf` could not be this operand of the op: a buffer of an mma (T26), of a copy or put (T17), of a zero or write via (rows
/// of 16 bytes). "" if it could.
std::string whyIllegalBuffer(mlir::OpOperand &use, BufType buf);

/// The descriptor of an operand of an mma, a buffer of type `buf`: a is [m, k]; b is [n, k] for nt and [k, n] for nn.
Result<WgmmaDescriptor> descriptorOf(MmaOp op, bool isA, BufType buf);

} // namespace dsv3::tile
