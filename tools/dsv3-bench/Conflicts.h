// Bank conflicts on the device against the model (passes/tile/BankConflicts.h): `dsv3-bench conflicts`.
//
// A probe is one shared memory instruction with an address per lane. Every warp of a full block repeats it; cycles per
// instruction are then the passes that shared memory needs for it, as nothing else is as slow.
#pragma once

#include "passes/tile/SharedAccess.h"
#include "tools/dsv3-bench/Device.h"

#include <string>
#include <vector>

namespace dsv3::bench {

struct Probe {
  std::string name; ///< "f32 column, pad<4>"
  tile::WarpAccess access;
  bool store = false;
};

/// The accesses whose answers the tests hold, and some under layouts that no test lists.
std::vector<Probe> conflictProbes();

/// A kernel per instruction, loads and stores; names are those of `probeSymbol`.
std::string probePtx();
std::string probeSymbol(tile::SmemInstruction instruction, bool store);

struct ProbeRow {
  std::string name, instruction;
  unsigned degree = 1;
  double predicted = 0; ///< passes per instruction: phases and what conflicts add
  double measured = 0;  ///< cycles per instruction
  double ratio = 0;     ///< measured over predicted, each over the one of the same instruction without conflicts
  bool agrees() const { return ratio > 0.85 && ratio < 1.15; }
};

Result<std::vector<ProbeRow>> measureConflicts(const Device &device);
std::string conflictTable(const std::vector<ProbeRow> &rows);

} // namespace dsv3::bench
