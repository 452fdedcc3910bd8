// Which thread of a warpgroup holds which element: pure integers, no MLIR.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::tile {

enum class FragKind { Acc, OpA, OpA4, OpA4T, Acc4, Row, Col, Quad, Line, Lin };

/// Keyword of a kind in the IR: "acc", "opA", ...
const char *fragName(FragKind kind);
/// Orders of int4 codes, which lie in memory as registers want them.
inline bool isPacked4(FragKind kind) { return kind == FragKind::OpA4 || kind == FragKind::OpA4T || kind == FragKind::Acc4; }

/// A map (register, lane, warp) -> coordinate over the 128 threads of a warpgroup. A register here is one element,
/// whatever its width: 16-bit registers 2r and 2r + 1 share a machine register.
class Fragment {
public:
  /// `shape` of rank 1 for Row, Col and Line, any rank for Lin, else rank 2. Must have passed `whyIllegal`.
  Fragment(FragKind kind, std::vector<int64_t> shape, int64_t vec = 1, int64_t threads = 128);

  /// What is wrong with a kind for a shape and element width ("expected ..., got ..."), or an empty string.
  static std::string whyIllegal(FragKind kind, const std::vector<int64_t> &shape, unsigned elementBits, int64_t vec, int64_t threads);

  FragKind kind() const { return kindOf; }
  const std::vector<int64_t> &shape() const { return dims; }
  /// Elements that each thread holds.
  int64_t registers() const;
  /// Coordinate of a thread's element. `warp` counts from 0 in the warpgroup (threads / 32 for Lin).
  std::vector<int64_t> coord(int64_t reg, int64_t lane, int64_t warp) const;
  /// Who holds an element: the inverse of `coord`; of several holders the one with the least lane and warp.
  struct Place {
    int64_t reg, lane, warp;
  };
  Place place(const std::vector<int64_t> &coord) const;
  /// Threads that hold the same element: 4 for Row, 32 for Col, 8 for Line (16 of 8 rows), 1 else.
  int64_t copies() const;

private:
  FragKind kindOf;
  std::vector<int64_t> dims;
  int64_t vec, threads;
};

} // namespace dsv3::tile
