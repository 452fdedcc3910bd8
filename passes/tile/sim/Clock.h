// Vector clocks: what has certainly happened before what, whatever the schedule.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::tile::sim {

/// One line of time: a warp, the copies that land on one barrier, a warpgroup's tensor core, its bulk stores. The
/// events of one line are in order; what happens on two lines is ordered only through barriers.
using ClockId = unsigned;

class VectorClock {
public:
  uint32_t operator[](ClockId id) const { return id < ticks.size() ? ticks[id] : 0; }
  void set(ClockId id, uint32_t tick) {
    if (id >= ticks.size())
      ticks.resize(id + 1);
    ticks[id] = tick;
  }
  uint32_t advance(ClockId id) {
    set(id, (*this)[id] + 1);
    return ticks[id];
  }
  /// Everything that `other` knows to be over is over for this one too.
  void join(const VectorClock &other) {
    if (other.ticks.size() > ticks.size())
      ticks.resize(other.ticks.size());
    for (size_t i = 0; i < other.ticks.size(); ++i)
      ticks[i] = std::max(ticks[i], other.ticks[i]);
  }
  /// Only what both know to be over.
  void meet(const VectorClock &other) {
    for (ClockId i = 0; i < ticks.size(); ++i)
      ticks[i] = std::min(ticks[i], other[i]);
  }

private:
  std::vector<uint32_t> ticks;
};

} // namespace dsv3::tile::sim
