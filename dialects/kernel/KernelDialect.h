// The kernel dialect: one op per device kernel call.
#pragma once

#include "dialects/dsv3/Dsv3Dialect.h"

#include "dialects/kernel/KernelDialect.h.inc"
#define GET_ATTRDEF_CLASSES
#include "dialects/kernel/KernelAttrs.h.inc"
#include "dialects/kernel/KernelInterfaces.h.inc"
#define GET_OP_CLASSES
#include "dialects/kernel/KernelOps.h.inc"

namespace dsv3::kernel {

/// Bytes of a packed weight: every part padded by its layout and aligned to 256 bytes.
/// The type must carry a `PackedAttr`.
struct PackedPart {
  llvm::StringRef name; ///< "data", "scale", "zero"
  mlir::Type elem;
  int64_t offset; ///< from the weight's first byte
  int64_t bytes;
  int64_t outerStride; ///< bytes between entries of the leading dim that no layout names; 0 if there is none
};
llvm::SmallVector<PackedPart> getPackedParts(mlir::RankedTensorType type);
int64_t getPackedBytes(mlir::RankedTensorType type);

/// Parts of an intermediate value, as a buffer holds them: a plain tensor is its data, a quantised one its codes and
/// then its scales, each part 256-byte aligned.
llvm::SmallVector<PackedPart> getValueParts(mlir::RankedTensorType type);
int64_t getValueBytes(mlir::RankedTensorType type);

/// Row stride in elements and first lane of a value: of its source if it is a view.
struct RowAccess {
  mlir::Value base;   ///< the value whose buffer is addressed
  int64_t stride;     ///< elements between consecutive rows of the innermost dim
  int64_t offset;     ///< elements before lane 0
};
RowAccess getRowAccess(mlir::Value value);

} // namespace dsv3::kernel
