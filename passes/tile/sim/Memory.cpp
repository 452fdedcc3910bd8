#include "passes/tile/sim/Memory.h"

#include <cstring>

namespace dsv3::tile::sim {

SharedMemory::SharedMemory(int64_t size) : bytes(size, 0xff), cells((size + kGranule - 1) / kGranule) {}

void SharedMemory::poison(int64_t byte, int64_t n) { std::memset(bytes.data() + byte, 0xff, n); }

std::optional<Hazard> SharedMemory::read(int64_t granule, const Touch &touch, const VectorClock &past) {
  Cell &cell = cells[granule];
  std::optional<Hazard> hazard;
  if (cell.written.tick > past[cell.written.line])
    hazard = Hazard{cell.written, true, granule * kGranule};
  for (Touch &t : cell.reads)
    if (t.line == touch.line) {
      t = touch;
      return hazard;
    }
  cell.reads.push_back(touch);
  return hazard;
}

std::optional<Hazard> SharedMemory::write(int64_t granule, const Touch &touch, const VectorClock &past) {
  Cell &cell = cells[granule];
  std::optional<Hazard> hazard;
  if (cell.written.tick > past[cell.written.line])
    hazard = Hazard{cell.written, true, granule * kGranule};
  for (const Touch &t : cell.reads)
    if (t.tick > past[t.line])
      hazard = Hazard{t, false, granule * kGranule};
  cell.written = touch;
  cell.reads.clear();
  return hazard;
}

} // namespace dsv3::tile::sim
