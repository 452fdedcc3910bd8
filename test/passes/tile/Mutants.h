// Kernels with one synchronisation op dropped or moved.
#pragma once

#include "dialects/tile/TileDialect.h"

#include <functional>
#include <string>
#include <vector>

namespace dsv3::tile {

struct Mutant {
  std::string name; ///< "drop release 2": the third one of the kernel's text
  std::function<void(KernelOp)> apply; ///< to a clone of the kernel
};

/// Drops each release, sync, signal, meet and token await; makes a `peek` of each wait; moves what arrives one op up and
/// what waits one op down, where operands allow it and the other op has to do with memory or barriers.
std::vector<Mutant> mutantsOf(KernelOp kernel);

} // namespace dsv3::tile
