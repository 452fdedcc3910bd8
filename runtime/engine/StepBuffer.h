// Writes the step buffer's fields (runtime/core/Abi.h) for a planned step.
#pragma once

#include "runtime/core/Abi.h"
#include "runtime/engine/Step.h"

#include <cstdint>
#include <vector>

namespace dsv3 {

class StepBuffer {
public:
  /// `memory` has pool_bytes[DSV3_POOL_STEP] bytes and outlives this.
  StepBuffer(const dsv3_module_desc &module, uint8_t *memory);

  /// The step as prefill, decode and score programs see it. `items` must fit `program`.
  dsv3_step_host fill(const dsv3_program_desc &program, const std::vector<StepItem> &items);

  /// The step for the MTP program after a score step of the same `items`: the same rows,
  /// plus the id that follows each. The row of a sequence's last token has no such id; it
  /// stores nothing in the cache and its result means nothing.
  dsv3_step_host fillMtp(const dsv3_program_desc &program, const std::vector<StepItem> &items);

  /// How the next token of the step's sequence `index` is chosen on the device; after fill(), which chooses none.
  void setSampling(int64_t index, const dsv3_sampling &how);

private:
  template <typename T> T *field(uint32_t kind) const;
  void fillRows(const StepItem &item, int32_t index, int64_t row);
  void fillSequence(const StepItem &item, int32_t index, int64_t row);
  int64_t fillQueryTiles(const StepItem &item, int32_t index, int64_t row, int64_t at);
  int64_t fillKeyBlocks(const StepItem &item, int32_t index, int64_t at);
  void pad(const dsv3_program_desc &program, int64_t rows, int64_t seqs, int64_t kblocks);

  const dsv3_module_desc &module;
  uint8_t *memory;
  uint64_t offsets[DSV3_FIELD_COUNT];
};

} // namespace dsv3
