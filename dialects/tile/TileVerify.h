// What the verifiers of several files share.
#pragma once

#include "dialects/tile/TileDialect.h"

namespace dsv3::tile {

/// The list has as many values as dynamic entries, at most `most` entries, no negative number, and `*` only where it
/// may stand: in the last entry if `star`.
mlir::LogicalResult verifyCoords(mlir::Operation *op, mlir::ValueRange values, llvm::ArrayRef<int64_t> place, size_t most, bool star = false);

/// `group` exists in the ring.
mlir::LogicalResult verifyGroup(mlir::Operation *op, RingAttr ring, std::optional<uint64_t> group);

/// The number behind a list's entry, looking through constants; none for `*` and for other values.
std::optional<int64_t> constantOf(mlir::OpFoldResult entry);

/// Kind, shape and element agree with a buffer's: what load and store need.
mlir::LogicalResult verifyAccess(mlir::Operation *op, BufType buf, mlir::Type value, bool trans);

} // namespace dsv3::tile
