// From a fragment and a layout to warp instructions and their addresses: which instruction moves a fragment between
// registers and a buffer, and what each lane asks for. Plain C++; the lowering follows the same rules.
#pragma once

#include "dialects/tile/Fragment.h"
#include "dialects/tile/SmemLayout.h"
#include "passes/tile/BankConflicts.h"

#include <string>
#include <vector>

namespace dsv3::tile {

/// One instruction of one warp.
struct WarpAccess {
  SmemInstruction instruction = SmemInstruction::Access4;
  std::array<int64_t, 32> address{}; ///< bytes from the buffer's start; kInactiveLane for lanes that are masked off
};

/// All instructions by which the four warps load or store a fragment:
/// - ldmatrix/stmatrix for 16-bit `acc` fragments, where 8 elements along the buffer's rows are 16 aligned bytes (x4 for 16
///   columns, x2 for the last 8);
/// - else 16, 8 or 4 bytes a lane, as many as registers are neighbours in memory; narrower elements one by one.
/// `trans`: the buffer holds the fragment's transpose. Of threads that hold the same value the first one stores.
std::vector<WarpAccess> accessesOf(const Fragment &fragment, unsigned elementBits, const SmemLayout &layout, bool trans, bool store);

/// `load ... paired`: 64 columns of 8 bits from `column` on, by transposing loads of 32 rows.
std::vector<WarpAccess> pairedOf(const SmemLayout &layout, int64_t column);

/// Stores and 16-byte reloads of a `write` that is restaged through a buffer [warps, rows, columns] of 16-bit elements:
/// 16 x columns of the fragment per warp, or its transpose.
std::vector<WarpAccess> restagingOf(int64_t columns, const SmemLayout &layout, bool trans);

/// 16-byte stores of a `zero`, from row 0 (other starts give the same conflicts).
std::vector<WarpAccess> zeroingOf(const SmemLayout &layout, unsigned elementBits);

/// The worst and the sum of a set of accesses.
struct AccessCost {
  SmemInstruction instruction = SmemInstruction::Access4; ///< of the worst one
  unsigned degree = 1;
  uint64_t excess = 0;
};
AccessCost costOf(const std::vector<WarpAccess> &accesses);

} // namespace dsv3::tile
