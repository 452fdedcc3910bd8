// Shape lists (bench/gpu/*.json): which kernels to build, check and time, one entry per case.
//
//   [{"name": "q_a", "op": "gemm", "n": 1536, "k": 7168, "sweep": {"m": [1, 64]}, "anchor": "D|q_a N1536 K7168 M{m}|bf16"}]
//
// `sweep` multiplies an entry by the values of its keys; `{key}` in `anchor` stands for the value. Common keys:
//   name    prefix of the case's name; the op and the swept values follow
//   m       row capacity (default: the rows the sequences need); `rows` fewer rows than that (default m)
//   x w out types: bf16, f32, fp8 (1 x 128 blocks, of weights 128 x 128), fp8row (a scale per row), int8 (likewise), int8x128,
//           int4, int4x128; default bf16
//   phase   "decode" or "prefill"; default: decode up to 256 rows
//   lens, past   new tokens and cached tokens per sequence (a number or a list); attn_decode: `batch`, `ctx`
//   seed    of the routing
//   emitter      name of the one that shall take the op, even if another is faster
//   schedule     numbers that replace those of the kernel's schedule, to compare candidates
// and the sizes that the op needs: codegen reads them in compile-model (CaseOps.cpp).
#pragma once

#include "runtime/core/Json.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dsv3::bench {

/// New tokens of one sequence behind its cached ones.
struct Sequence {
  int64_t past = 0, count = 0;
};

struct ShapeEntry {
  std::string name, op, phase;
  Json json;        ///< the entry with its sweep resolved
  int64_t tokens = 0; ///< row capacity of the program
  int64_t rows = 0;   ///< rows of the step, at most `tokens`
  int64_t seqs = 0;   ///< sequence capacity
  std::vector<Sequence> sequences;

  int64_t longest() const; ///< tokens of the longest sequence, this step's included
};

/// Every entry of the list, sweeps multiplied out. Errors name the entry and the key; two cases of one name are refused.
Result<std::vector<ShapeEntry>> parseShapeList(const Json &list, const std::string &what);
/// One resolved entry, as it stands in a pack.
Result<ShapeEntry> parseShape(const Json &entry, const std::string &what);

} // namespace dsv3::bench
