// Bank conflicts of one shared-memory instruction of one warp.
//
// 32 banks of 4 bytes. The hardware serves a warp instruction in phases; in a phase, lanes that want different words of
// one bank wait for each other, lanes that want the same word do not. Plain C++: what the lanes' addresses are is the
// caller's business (layouts and fragments of the tile dialect).
#pragma once

#include <array>
#include <cstdint>

namespace dsv3::tile {

enum class SmemInstruction {
  Access4,  ///< ld/st.shared, 4 bytes a lane: one phase of 32 lanes (narrower ones behave the same)
  Access8,  ///< 8 bytes a lane: two phases of 16
  Access16, ///< 16 bytes a lane: four phases of 8
  Matrix1,  ///< ldmatrix/stmatrix .x1: lanes 0-7 give 8 rows of 16 bytes, one phase
  Matrix2,  ///< .x2: lanes 0-15, two phases
  Matrix4,  ///< .x4: all lanes, four phases
};

/// "st.shared.v4", "ldmatrix.x4": as reports and attributes call it.
const char *name(SmemInstruction instruction, bool store);
/// Bytes that a lane's address stands for: 4, 8 or 16. The address must be a multiple of it.
int64_t bytesPerLane(SmemInstruction instruction);
/// Lanes whose address is read: 8, 16 or 32.
unsigned addressLanes(SmemInstruction instruction);

constexpr int64_t kInactiveLane = -1; ///< the address of a lane that is masked off

struct BankConflicts {
  unsigned phases = 0; ///< with at least one active lane
  unsigned degree = 0; ///< of the worst phase; 1 = no conflict
  unsigned excess = 0; ///< cycles more than one per phase: what a cost model adds up
};

/// `address[lane]` in bytes; lanes past addressLanes() are not read.
BankConflicts countBankConflicts(SmemInstruction instruction, const std::array<int64_t, 32> &address);

} // namespace dsv3::tile
