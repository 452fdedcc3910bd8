// Runs cases in child processes: a kernel that faults or hangs takes its process along, not the run.
#pragma once

#include "runtime/core/Result.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dsv3::bench {

/// Runs in the child. Calls `report` once per item of [first, count) in order, with one line of text and whether the process is
/// still good for the next item; returns when it is not.
using WorkerFn = std::function<void(int64_t first, const std::function<void(const std::string &line)> &report)>;

/// Items 0 .. count - 1 through children that continue where the one before ended. `onLine` gets each item's line; an item whose
/// child ended or was silent for `seconds` gets `onLoss` with what happened, and the next child starts behind it.
Status runWorkers(int64_t count, double seconds, const WorkerFn &work, const std::function<void(int64_t, const std::string &)> &onLine,
                  const std::function<void(int64_t, const std::string &)> &onLoss);

} // namespace dsv3::bench
