// What steps cost, learnt from those that ran: how many rows of prompts fit into a time.
#pragma once

#include <cstdint>

namespace dsv3 {

class StepCost {
public:
  /// A step of `rows` rows took `seconds`.
  void decoded(double seconds);
  void prefilled(int64_t rows, double seconds);

  /// Rows of prompts that may run between two decode steps if a token shall come at least every `gap` seconds: a multiple of 16,
  /// at least 16, so that prompts always move. Without a limit as long as no step has been seen.
  int64_t rowsWithin(double gap) const;

private:
  double decode = 0, row = 0; ///< seconds; moving means
};

} // namespace dsv3
