// One step: which rows of which sequences a program computes.
#pragma once

#include "runtime/core/Abi.h"

#include <cstdint>
#include <limits>
#include <vector>

namespace dsv3 {

/// Tokens with their place in the KV cache.
struct Sequence {
  std::vector<int32_t> tokens; ///< prompt, then what was generated
  int64_t cached = 0;          ///< tokens whose keys are in the cache
  std::vector<int32_t> pages;  ///< page of tokens [i * page_tokens, ...)
  int64_t stop = std::numeric_limits<int64_t>::max(); ///< tokens from here on are not planned: another program computes them
};

/// Rows [start, start + rows) of one sequence.
struct StepItem {
  Sequence *sequence;
  int64_t start, rows;
};

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

/// Fills a step of `program` from `sequences` in order, each continuing where its cache
/// ends, with at most `chunk` rows of each and `mostRows` of all. Respects every capacity of the program; a
/// sequence that no longer fits is left for a later step. Never empty for a nonempty list.
std::vector<StepItem> planStep(const dsv3_program_desc &program, const std::vector<Sequence *> &sequences,
                               int64_t chunk, int64_t mostRows = kNoLimit);

/// True if `items` fit into `program`.
bool fitsStep(const dsv3_program_desc &program, const std::vector<StepItem> &items);

/// Query tiles are cut at multiples of 16 positions, so that a row's tile does not depend
/// on where a chunk began. Key blocks are 64 positions.
constexpr int64_t kQueryTile = 16, kKeyBlock = 64;
inline int64_t queryTiles(int64_t start, int64_t rows) {
  return (start + rows - 1) / kQueryTile - start / kQueryTile + 1;
}
inline int64_t keyBlocks(int64_t context) { return (context + kKeyBlock - 1) / kKeyBlock; }

} // namespace dsv3
