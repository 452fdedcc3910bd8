#include "passes/tile/sim/Tables.h"

#include "passes/tile/sim/Memory.h"

#include <algorithm>

using namespace mlir;

namespace dsv3::tile::sim {
namespace {

constexpr int64_t kGranule = SharedMemory::kGranule;

int64_t flatten(const std::vector<int64_t> &coord, llvm::ArrayRef<int64_t> shape) {
  int64_t index = 0;
  for (size_t d = 0; d < coord.size(); ++d)
    index = index * shape[d] + coord[d];
  return index;
}

} // namespace

bool step(std::vector<int64_t> &coord, llvm::ArrayRef<int64_t> shape) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++coord[d] < shape[d])
      return true;
    coord[d] = 0;
  }
  return false;
}

int64_t product(llvm::ArrayRef<int64_t> shape) {
  int64_t n = 1;
  for (int64_t d : shape)
    n *= d;
  return n;
}

const std::vector<int64_t> &Tables::bits(BufType type) {
  std::vector<int64_t> &table = bitTables[type];
  if (!table.empty())
    return table;
  const SmemLayout layout = type.getSmem();
  std::vector<int64_t> coord(type.getShape().size());
  do
    table.push_back(layout.bit(coord));
  while (step(coord, type.getShape()));
  return table;
}

const std::vector<uint8_t> &Tables::holders(RankedTensorType type) {
  std::vector<uint8_t> &table = holderTables[type];
  if (!table.empty())
    return table;
  table.resize(product(type.getShape()));
  const Fragment fragment = cast<FragAttr>(type.getEncoding()).fragmentOf(type.getShape());
  for (int64_t warp = 0; warp < 4; ++warp)
    for (int64_t lane = 0; lane < 32; ++lane)
      for (int64_t reg = 0; reg < fragment.registers(); ++reg)
        table[flatten(fragment.coord(reg, lane, warp), type.getShape())] |= uint8_t(1u << warp);
  return table;
}

const std::vector<int64_t> &Tables::granules(BufType type, int64_t phase) {
  std::vector<int64_t> &table = granuleTables[{type.getAsOpaquePointer(), phase}];
  if (!table.empty())
    return table;
  for (int64_t bit : bits(type))
    table.push_back((bit / 8 + phase) / kGranule);
  std::sort(table.begin(), table.end());
  table.erase(std::unique(table.begin(), table.end()), table.end());
  return table;
}

const std::vector<GranuleUse> &Tables::uses(BufType buf, RankedTensorType fragment, bool trans, bool once, int64_t phase) {
  std::vector<GranuleUse> &table =
      useTables[{buf.getAsOpaquePointer(), fragment.getAsOpaquePointer(), trans, once, phase}];
  if (!table.empty())
    return table;
  const std::vector<int64_t> &places = bits(buf);
  const std::vector<uint8_t> &held = holders(fragment);
  const int64_t cols = fragment.getShape().back(), rows = int64_t(held.size()) / cols;
  std::map<int64_t, unsigned> found;
  for (int64_t i = 0; i < int64_t(held.size()); ++i) {
    const unsigned warps = once ? held[i] & -held[i] : held[i];
    found[(places[trans ? transposed(i, rows, cols) : i] / 8 + phase) / kGranule] |= warps;
  }
  for (auto [granule, warps] : found)
    table.push_back({granule, warps});
  return table;
}

} // namespace dsv3::tile::sim
