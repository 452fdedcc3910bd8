// What an SSA value of a kernel is while it runs.
#pragma once

#include "dialects/tile/TileDialect.h"
#include "passes/tile/sim/Clock.h"

#include <memory>
#include <variant>

namespace dsv3::tile::sim {

using mlir::Block;
using mlir::Operation;
using mlir::OpFoldResult;
using mlir::Type;
using mlir::Value;

/// A fragment by logical coordinate, row-major: who holds what is asked of the encoding where it matters.
struct FragValue {
  std::vector<int64_t> shape;
  std::shared_ptr<const std::vector<double>> data;
};

/// One stage of a ring in one turn. `turn` counts fills of the ring from 0: what the parity only hints at.
struct Slot {
  unsigned ring = 0, lane = 0;
  uint64_t turn = 0;
};

/// A place in shared memory.
struct Buffer {
  int64_t byte = 0;
  BufType type;
  int ring = -1;        ///< of which it is a stage, or -1
  uint64_t turn = 0;    ///< of that ring
  bool peeked = false;  ///< came from `peek`: nobody waited for it here
  /// Set for the buffer of a `fill` of a group: the columns of the whole stage (whose type this is) that it stands for.
  std::vector<std::pair<int64_t, int64_t>> columns;
};

/// A matrix product in flight. In order per warpgroup.
struct MmaJob;
/// A bulk store in flight. In order per warpgroup.
struct PutJob;

struct Accumulator { std::shared_ptr<MmaJob> job; };
struct Token {
  std::shared_ptr<MmaJob> mma;
  std::shared_ptr<PutJob> put;
};

struct RingRef { unsigned index = 0; };
struct GateRef { unsigned index = 0; };
struct WorkRef { unsigned index = 0; };
struct ArgumentRef { unsigned index = 0; }; ///< a tensor map or a pointer
struct NotYet {};                           ///< `none`

using SimValue = std::variant<NotYet, double, FragValue, Slot, Buffer, Accumulator, Token, RingRef, GateRef, WorkRef, ArgumentRef>;

} // namespace dsv3::tile::sim
