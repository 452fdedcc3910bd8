// Simulated shared memory: bytes, and who touched each 16 of them last.
#pragma once

#include "passes/tile/sim/Clock.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace dsv3::tile::sim {

/// One access, as remembered: event `tick` on line `line`.
struct Touch {
  ClockId line = 0;
  uint32_t tick = 0; ///< 0: nobody yet
  mlir::Operation *op = nullptr;
};

/// Two accesses of the same bytes, one of them a write, that nothing orders.
struct Hazard {
  Touch earlier; ///< in this schedule; another one may turn them around
  bool earlierWrote = false;
  int64_t byte = 0;
};

/// Granules of 16 bytes: no swizzle takes one apart, and no two warps write into one (fragments are 8 columns wide).
class SharedMemory {
public:
  static constexpr int64_t kGranule = 16;

  explicit SharedMemory(int64_t size);

  uint8_t *data() { return bytes.data(); }
  const uint8_t *data() const { return bytes.data(); }
  int64_t size() const { return int64_t(bytes.size()); }
  /// Makes [byte, byte + n) unmistakably wrong: NaN as bf16, f32 and e4m3.
  void poison(int64_t byte, int64_t n);

  /// Notes a read or write of one granule by an event whose past is `past`; reports the access that it races with.
  std::optional<Hazard> read(int64_t granule, const Touch &touch, const VectorClock &past);
  std::optional<Hazard> write(int64_t granule, const Touch &touch, const VectorClock &past);

private:
  struct Cell {
    Touch written;
    std::vector<Touch> reads; ///< the last one of each line since the write
  };
  std::vector<uint8_t> bytes;
  std::vector<Cell> cells;
};

} // namespace dsv3::tile::sim
