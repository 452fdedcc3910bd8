#include "passes/tile/SharedAccess.h"

#include <algorithm>
#include <functional>

namespace dsv3::tile {
namespace {

constexpr int64_t kThreads = 128;

std::vector<int64_t> inBuffer(std::vector<int64_t> coord, bool trans) {
  if (trans && coord.size() == 1) // along the second last dim
    coord.push_back(0);
  else if (trans)
    std::reverse(coord.begin(), coord.end());
  return coord;
}

/// Whether every 8 elements along a row, from a multiple of 8, are 16 bytes in order at a multiple of 16.
bool rowsOfMatricesAreWhole(const SmemLayout &layout) {
  const std::vector<int64_t> &shape = layout.shape();
  for (int64_t row = 0; row < shape[0]; ++row)
    for (int64_t column = 0; column + 8 <= shape[1]; column += 8) {
      const int64_t first = layout.byte({row, column});
      if (first % 16)
        return false;
      for (int64_t i = 1; i < 8; ++i)
        if (layout.byte({row, column + i}) != first + 2 * i)
          return false;
    }
  return shape[1] % 8 == 0;
}

/// Lane l names row l % 8 of matrix l / 8; matrices: rows 0-7 and 8-15, of columns 0-7 and (x4) 8-15.
/// `at(warp, row, column)` of the fragment, or of its transpose.
std::vector<WarpAccess> matrices(int64_t columns, bool trans, const std::function<int64_t(int64_t, int64_t, int64_t)> &at) {
  std::vector<WarpAccess> out;
  for (int64_t warp = 0; warp < 4; ++warp)
    for (int64_t column = 0; column < columns; column += 16) {
      const bool wide = column + 16 <= columns;
      WarpAccess access{wide ? SmemInstruction::Matrix4 : SmemInstruction::Matrix2, {}};
      for (int64_t lane = 0; lane < 32; ++lane) {
        const int64_t matrix = lane / 8, r = 8 * (matrix % 2), c = column + (wide ? 8 * (matrix / 2) : 0);
        access.address[lane] = trans ? at(warp, c + lane % 8, r) : at(warp, r + lane % 8, c);
      }
      out.push_back(access);
    }
  return out;
}

/// Bytes of the longest run of registers that are neighbours in memory in every thread, at an aligned address.
int64_t runBytes(const Fragment &fragment, int64_t bits, const SmemLayout &layout, bool trans) {
  const int64_t registers = fragment.registers();
  auto bitOf = [&](int64_t reg, int64_t t) { return layout.bit(inBuffer(fragment.coord(reg, t % 32, t / 32), trans)); };
  auto whole = [&](int64_t bytes) {
    const int64_t run = bytes * 8 / bits;
    for (int64_t reg = 0; reg < registers; ++reg)
      for (int64_t t = 0; t < kThreads; ++t) {
        const int64_t first = bitOf(reg - reg % run, t);
        if (first % (8 * bytes) || bitOf(reg, t) != first + (reg % run) * bits)
          return false;
      }
    return registers % run == 0;
  };
  for (int64_t bytes = 16; bytes * 8 > bits; bytes /= 2)
    if (registers % (bytes * 8 / bits) == 0 && whole(bytes))
      return bytes;
  return std::max<int64_t>(1, bits / 8);
}

bool stores(const Fragment &fragment, int64_t lane, int64_t warp) {
  switch (fragment.kind()) {
  case FragKind::Row: return lane % 4 == 0;
  case FragKind::Col: return warp == 0 && lane < 4;
  default: return true;
  }
}

std::vector<WarpAccess> vectors(const Fragment &fragment, int64_t bits, const SmemLayout &layout, bool trans, bool store) {
  const int64_t bytes = runBytes(fragment, bits, layout, trans), run = std::max<int64_t>(1, bytes * 8 / bits);
  const SmemInstruction instruction = bytes == 16  ? SmemInstruction::Access16
                                      : bytes == 8 ? SmemInstruction::Access8
                                                   : SmemInstruction::Access4;
  std::vector<WarpAccess> out;
  for (int64_t warp = 0; warp < 4; ++warp)
    for (int64_t reg = 0; reg < fragment.registers(); reg += run) {
      WarpAccess access{instruction, {}};
      bool any = false;
      for (int64_t lane = 0; lane < 32; ++lane) {
        const bool active = !store || stores(fragment, lane, warp);
        // Bytes of one word are served together.
        access.address[lane] = active ? layout.byte(inBuffer(fragment.coord(reg, lane, warp), trans)) / 4 * 4 : kInactiveLane;
        any |= active;
      }
      if (any)
        out.push_back(access);
    }
  return out;
}

} // namespace

std::vector<WarpAccess> accessesOf(const Fragment &fragment, unsigned elementBits, const SmemLayout &layout, bool trans, bool store) {
  const bool matrix = fragment.kind() == FragKind::Acc && elementBits == 16 && layout.shape().size() == 2 && rowsOfMatricesAreWhole(layout);
  if (!matrix)
    return vectors(fragment, elementBits, layout, trans, store);
  return matrices(fragment.shape()[1], trans, [&](int64_t warp, int64_t row, int64_t column) {
    (trans ? column : row) += 16 * warp;
    return layout.byte({row, column});
  });
}

std::vector<WarpAccess> pairedOf(const SmemLayout &layout, int64_t column) {
  std::vector<WarpAccess> out;
  for (int64_t warp = 0; warp < 4; ++warp)
    for (int64_t row = 0; row < layout.shape()[0]; row += 32) {
      WarpAccess access{SmemInstruction::Matrix4, {}};
      for (int64_t lane = 0; lane < 32; ++lane)
        access.address[lane] = layout.byte({row + lane, column + 16 * warp});
      out.push_back(access);
    }
  return out;
}

std::vector<WarpAccess> restagingOf(int64_t columns, const SmemLayout &layout, bool trans) {
  auto at = [&](int64_t warp, int64_t row, int64_t column) { return layout.byte({warp, row, column}); };
  std::vector<WarpAccess> out = matrices(columns, trans, at);
  const int64_t height = trans ? columns : 16, perRow = (trans ? 16 : columns) / 8, chunks = height * perRow;
  for (int64_t warp = 0; warp < 4; ++warp)
    for (int64_t first = 0; first < chunks; first += 32) {
      WarpAccess access{SmemInstruction::Access16, {}};
      for (int64_t lane = 0; lane < 32; ++lane) {
        const int64_t chunk = (first + lane) % chunks;
        access.address[lane] = at(warp, chunk / perRow, 8 * (chunk % perRow));
      }
      out.push_back(access);
    }
  return out;
}

std::vector<WarpAccess> zeroingOf(const SmemLayout &layout, unsigned elementBits) {
  const int64_t chunks = layout.shape().back() * elementBits / 128; // of a row
  const int64_t perAtom = layout.atomBytes() ? layout.atomBytes() / 16 : chunks;
  std::vector<WarpAccess> out;
  if (chunks == 0)
    return out;
  for (int64_t warp = 0; warp < 4; ++warp) {
    WarpAccess access{SmemInstruction::Access16, {}};
    for (int64_t lane = 0; lane < 32; ++lane) {
      const int64_t t = 32 * warp + lane, chunk = t % chunks;
      access.address[lane] = t / chunks * layout.pitch() + chunk / perAtom * layout.atomStride() + chunk % perAtom * 16;
    }
    out.push_back(access);
  }
  return out;
}

AccessCost costOf(const std::vector<WarpAccess> &accesses) {
  AccessCost cost;
  bool first = true;
  for (const WarpAccess &a : accesses) {
    const BankConflicts c = countBankConflicts(a.instruction, a.address);
    if (first || c.degree > cost.degree) {
      cost.degree = std::max(cost.degree, c.degree);
      cost.instruction = a.instruction;
    }
    first = false;
    cost.excess += c.excess;
  }
  return cost;
}

} // namespace dsv3::tile
