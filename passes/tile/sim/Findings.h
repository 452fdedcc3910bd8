// What the simulator has to say: one entry per broken rule and pair of places.
#pragma once

#include "mlir/IR/Location.h"

#include <optional>
#include <string>
#include <vector>

namespace dsv3::tile::sim {

/// The rules of the protocol; numbers as in the messages.
enum class Check {
  Deadlock = 1,     ///< C1: nobody can go on
  Aliasing = 2,     ///< C2: a wait was satisfied by another turn of the ring than its own
  Count = 3,        ///< C3: arrivals or bytes over or under what the barrier expects
  Race = 4,         ///< C4: read before it landed, or overwritten while it is read (registers of an mma too)
  Release = 5,      ///< C5: a slot released twice, never, or with an mma in flight that reads it
  Unordered = 6,    ///< C6: `peek` of what no earlier event orders
  Proxy = 7,        ///< C7: stores of several warps read by the tensor core or a bulk store without a `sync`
  Gate = 8,         ///< C8: signals and meetings of a gate do not match
};

struct Finding {
  Check check;
  std::string message;
  mlir::Location where;
  std::optional<mlir::Location> other; ///< the second party
  std::string otherNote;
  std::vector<std::string> trace; ///< the last events before it
};

/// Collects findings; the same pair of places is reported once.
class Findings {
public:
  void add(Finding finding);
  const std::vector<Finding> &all() const { return list; }
  bool empty() const { return list.empty(); }

private:
  std::vector<Finding> list;
};

} // namespace dsv3::tile::sim
