// Layouts and fragments as tables, evaluated once per type.
#pragma once

#include "dialects/tile/TileDialect.h"

#include "llvm/ADT/DenseMap.h"

#include <map>

namespace dsv3::tile::sim {

/// Which warps of a warpgroup touch a granule (16 bytes), as a bit mask.
struct GranuleUse {
  int64_t granule = 0; ///< relative to the buffer
  unsigned warps = 0;
};

class Tables {
public:
  /// Bit of every element of a buffer, row-major.
  const std::vector<int64_t> &bits(BufType type);
  /// Warps (bit mask) that hold each element of a fragment, row-major.
  const std::vector<uint8_t> &holders(mlir::RankedTensorType type);
  /// All granules of a buffer, which starts `phase` bytes behind a multiple of 16.
  const std::vector<int64_t> &granules(BufType type, int64_t phase);
  /// Granules that a load or store of a whole fragment touches. `once`: of several holders the first one stores.
  const std::vector<GranuleUse> &uses(BufType buf, mlir::RankedTensorType fragment, bool trans, bool once, int64_t phase);

private:
  llvm::DenseMap<mlir::Type, std::vector<int64_t>> bitTables;
  llvm::DenseMap<mlir::Type, std::vector<uint8_t>> holderTables;
  std::map<std::pair<const void *, int64_t>, std::vector<int64_t>> granuleTables;
  std::map<std::tuple<const void *, const void *, bool, bool, int64_t>, std::vector<GranuleUse>> useTables;
};

/// The next coordinate of a row-major walk over `shape`; false after the last.
bool step(std::vector<int64_t> &coord, llvm::ArrayRef<int64_t> shape);
int64_t product(llvm::ArrayRef<int64_t> shape);
/// Row-major index of the transposed place of `index` in a [rows, cols] array.
inline int64_t transposed(int64_t index, int64_t rows, int64_t cols) { return (index % cols) * rows + index / cols; }

} // namespace dsv3::tile::sim
